"""The scripted worlds against closed forms, and that nothing outside the scorer's process tells right from wrong."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import NormalDist, fmean

import pytest

from benchmarks.worlds import TAGS, WORLDS, WorldError, WorldHandle, WorldServer, WorldSpec, WorldStep, _Scorer, _World

SURE = replace(WORLDS["clean"], noise=0.0, success=0.8)
"""Readings without noise tell what looks right; 0.8**8 of the chains are right."""

SPECS = {
    "plain": SURE,
    "hidden": replace(SURE, hidden=0.3),
    "duplicated": replace(SURE, duplicates=0.5),
    "early": replace(SURE, depth=12, earliest=2),
    "dead ends": replace(SURE, dead_ends=0.3),
    "two routes": replace(SURE, routes=True),
    "rescoring": replace(SURE, hidden=0.3, rescoring=True),
}

kinds = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())


@pytest.fixture(scope="module")
def server() -> Iterator[WorldServer]:
    with WorldServer(inline=True) as made:
        yield made


@pytest.fixture(scope="module")
def remote() -> Iterator[WorldServer]:
    with WorldServer() as made:
        yield made


Chain = tuple[tuple[int, ...], list[WorldStep]]


def walk(world: WorldHandle, seed: int) -> Chain:
    """One chain to its end."""
    path: tuple[int, ...] = ()
    steps: list[WorldStep] = []
    while not steps or not steps[-1].ended:
        steps += world.propose(path, [seed])
        path = (*path, steps[-1].tag)
    return path, steps


def near(share: float, expected: float, count: int) -> bool:
    """Within 4 standard errors of a share: missed once in 16,000 tests, and seeds are fixed."""
    return abs(share - expected) <= 4 * math.sqrt(expected * (1 - expected) / count) + 1e-12


def chains(server: WorldServer, spec: WorldSpec, count: int = 2000) -> Iterator[tuple[WorldHandle, Chain]]:
    """One chain from each of many worlds: independent of each other, also where the steps of one world are not."""
    for seed in range(count):
        world = server.open(spec, seed)
        yield world, walk(world, 0)
        world.close()


@kinds
def test_share_of_right_chains(server: WorldServer, spec: WorldSpec) -> None:
    lengths = range(spec.shortest, spec.depth + 1)
    expected = fmean(spec.success**length for length in lengths)
    right = [steps[-1].answer is not None and world.verdict(steps[-1].answer) for world, (_, steps) in chains(server, spec)]
    assert near(fmean(right), expected, len(right))


@kinds
def test_where_chains_end(server: WorldServer, spec: WorldSpec) -> None:
    ends = [(len(path), steps[-1].dead) for _, (path, steps) in chains(server, spec)]
    alive = 1 - (1 - spec.success) * spec.dead_ends
    assert near(fmean(dead for _, dead in ends), 1 - alive**spec.depth, len(ends))
    lengths = range(spec.shortest, spec.depth + 1)
    for length in range(1, spec.depth + 1):
        expected = (1 / len(lengths) if length in lengths else 0.0) if not spec.dead_ends else None
        if expected is None:  # dead after exactly so many steps, or come to the last one
            expected = alive ** (length - 1) * (1 if length == spec.depth else 1 - alive)
        assert near(fmean(n == length for n, _ in ends), expected, len(ends))


@kinds
def test_what_looks_right_on_the_way_and_is_right_at_the_end(server: WorldServer, spec: WorldSpec) -> None:
    shown, honest = spec.success + (1 - spec.success) * spec.hidden, []
    at_three = []
    for world, (path, steps) in chains(server, spec):
        if len(path) > 3:
            at_three.append(world.score([path[:3]])[0][-1])
        last = world.score([path])[0][-1]
        right = steps[-1].answer is not None and world.verdict(steps[-1].answer)
        honest.append(last == (0.75 if right else 0.35))
    alive = 1 - (1 - spec.success) * spec.dead_ends
    expected = (shown / alive) ** 3  # of the chains that go on after three steps; what dies never looks right
    assert set(at_three) == {0.75, 0.35}
    assert near(fmean(x == 0.75 for x in at_three), expected, len(at_three))
    assert all(honest)


@pytest.mark.parametrize("name", ["clean", "noisy", "deceptive", "both"])
@pytest.mark.parametrize("success", [1.0, 0.0])
def test_readings_are_clipped_gaussians(server: WorldServer, name: str, success: float) -> None:
    spec = replace(WORLDS[name], success=success, hidden=0.0)
    normal, count = NormalDist(0.75 if success else 0.35, spec.noise), 3000
    readings = [
        server.open(spec, seed).score([(tag,)])[0][0]
        for seed, tag in zip(range(count), range(0, TAGS, TAGS // count), strict=False)
    ]

    def integral(f: Callable[[float], float], steps: int = 4000) -> float:
        low, wide = normal.mean - 10 * normal.stdev, 20 * normal.stdev / steps
        points = (low + (i + 0.5) * wide for i in range(steps))
        return sum(f(min(1.0, max(0.0, x))) * normal.pdf(x) * wide for x in points)

    mean = integral(lambda x: x)
    spread = math.sqrt(integral(lambda x: (x - mean) ** 2))
    assert abs(fmean(readings) - mean) < 4 * spread / math.sqrt(count)
    assert abs(math.sqrt(fmean((x - mean) ** 2 for x in readings)) / spread - 1) < 0.1
    assert near(fmean(x == 1.0 for x in readings), 1 - normal.cdf(1.0), count)
    assert near(fmean(x == 0.0 for x in readings), normal.cdf(0.0), count)


def test_wrong_chains_end_evenly_in_the_distractors(server: WorldServer) -> None:
    world = server.open(replace(SURE, success=0.0), 5)
    answers = [walk(world, seed)[1][-1].answer for seed in range(900)]
    assert len(set(answers)) == 3
    assert all(near(answers.count(answer) / 900, 1 / 3, 900) for answer in set(answers))
    assert not any(world.verdict(answer) for answer in answers if answer is not None)


@pytest.mark.parametrize("name", WORLDS)
def test_the_process_agrees_with_the_inline_scorer_in_any_order(server: WorldServer, remote: WorldServer, name: str) -> None:
    here, there = server.open(WORLDS[name], 7), remote.open(WORLDS[name], 7)
    path, steps = walk(here, 3)
    prefixes = [path[:i] for i in range(1, len(path) + 1)]
    backwards = there.score(prefixes[::-1])[::-1]  # of paths it never proposed
    assert backwards == here.score(prefixes) == here.score(prefixes)
    assert walk(there, 3) == (path, steps)
    assert here.propose((), [1, 2, 1]) == [here.propose((), [seed])[0] for seed in (1, 2, 1)]
    answer = steps[-1].answer or "none"
    assert here.verdict(answer) == there.verdict(answer)
    assert here.steps == len(path) + 6
    assert there.steps == len(path)


def test_worlds_of_one_seed_share_their_steps_and_other_seeds_do_not(server: WorldServer) -> None:
    tags = {name: server.open(WORLDS[name], 1).propose((), range(9)) for name in ("clean", "both", "both_rescoring")}
    assert tags["clean"] == tags["both"] == tags["both_rescoring"]
    assert tags["clean"] != server.open(WORLDS["clean"], 2).propose((), range(9))


@pytest.mark.parametrize("name", ["clean", "both"])
def test_rescoring_reads_every_step_afresh(server: WorldServer, name: str) -> None:
    plain, again = server.open(WORLDS[name], 4), server.open(WORLDS[f"{name}_rescoring"], 4)
    path, _ = walk(again, 0)
    for length in range(1, len(path) + 1):
        (readings,) = again.score([path[:length]])
        assert len(readings) == length
        assert readings[-1:] == plain.score([path[:length]])[0]
    siblings = [(*path[:3], step.tag) for step in again.propose(path[:3], range(5))]
    assert len({readings[0] for readings in again.score(siblings)}) == 5


def test_rescoring_is_honest_about_every_step_once_the_chain_has_ended(server: WorldServer) -> None:
    spec, unmasked = replace(SURE, success=0.5, hidden=0.6, rescoring=True), 0
    for seed in range(200):
        world, bare = server.open(spec, seed), server.open(replace(SURE, success=0.5), seed)
        path, _ = walk(world, 0)
        (ended,) = world.score([path])
        assert ended == [bare.score([path[:i]])[0][0] for i in range(1, len(path) + 1)]  # where nothing is hidden
        (before,) = world.score([path[:-1]])
        unmasked += before != ended[:-1]
    assert unmasked > 50


def test_share_of_repeated_siblings(server: WorldServer) -> None:
    n, share = 12, 0.5
    repeats = []
    for seed in range(1000):
        texts = [step.text for step in server.open(SPECS["duplicated"], seed).propose((), range(n))]
        repeats.append(n - len(set(texts)))
    expected = n * share - 1 + (1 - share) ** n  # all draws of the favourite but the first
    spread = math.sqrt(n * share * (1 - share) / len(repeats))
    assert abs(fmean(repeats) - expected) < 4 * spread


def test_two_routes_end_in_the_same_state(server: WorldServer) -> None:
    world = server.open(replace(WORLDS["two_routes"], hidden=0.3), 3)
    first = {step.tag for step in world.propose((), range(200))}
    a = next(iter(first))
    after_a = {step.tag: step for step in world.propose((a,), range(200))}
    assert len(first) == 16
    assert len(after_a) == 8
    assert set(after_a) < first  # what can follow could also have come first
    assert a not in after_a
    for b, by_a in after_a.items():
        by_b = {step.tag: step for step in world.propose((b,), range(200))}[a]
        assert by_b.text == by_a.text
        assert world.score([(a, b)]) == world.score([(b, a)])
        assert world.propose((a, b), range(5)) == world.propose((b, a), range(5))
    assert len({step.text for step in after_a.values()}) == 8


def test_tags_and_answers_do_not_tell_right_from_wrong(server: WorldServer) -> None:
    steps, places = [], []
    for seed in range(800):
        world = server.open(replace(SURE, success=0.5), seed)
        proposed = world.propose((), range(5))
        steps += [
            (step, reading[0] == 0.75) for step, reading in zip(proposed, world.score([(s.tag,) for s in proposed]), strict=True)
        ]
    for seed in range(400):
        world = server.open(SURE, seed)
        answers = sorted({walk(world, i)[1][-1].answer or "" for i in range(20)})
        places += [answers.index(a) for a in answers if len(answers) == 4 and world.verdict(a)]
    right = fmean(good for _, good in steps)
    assert near(right, 0.5, len(steps))
    for bit in range(30):
        with_bit = [good for step, good in steps if step.tag >> bit & 1]
        assert near(fmean(with_bit), right, len(with_bit))
    for digit in "0123456789abcdef":
        having = [good for step, good in steps if step.text.split()[1][0] == digit]
        assert near(fmean(having), right, len(having))
    assert len(places) > 100
    assert all(near(places.count(place) / len(places), 1 / 4, len(places)) for place in range(4))


def test_nothing_that_the_search_can_reach_knows_what_is_right(remote: WorldServer) -> None:
    world = remote.open(replace(SURE, success=0.0), 11)
    walk(world, 0)
    with WorldServer(inline=True) as inline:
        secret = inline.open(SURE, 11)
        assert any(isinstance(found, _World) for found in _reachable(secret))  # the check sees what there is to see
        key = next(found for found in _reachable(secret) if isinstance(found, _World))._key
        right = next(found for found in _reachable(secret) if isinstance(found, _World))._right_answer
    reachable = _reachable(world)
    assert not any(isinstance(found, _World | _Scorer) for found in reachable)
    assert key not in [found for found in reachable if isinstance(found, bytes)]
    assert right not in [found for found in reachable if isinstance(found, str)]
    assert world.verdict(right)


def _reachable(start: object) -> list[object]:
    """Every object that can be reached from one, code left out."""
    seen: dict[int, object] = {}
    waiting = [start]
    while waiting:
        found = waiting.pop()
        if id(found) not in seen and type(found).__name__ not in ("module", "function", "type", "builtin_function_or_method"):
            seen[id(found)] = found
            waiting += gc.get_referents(found)
    return list(seen.values())


def test_after_the_verdict_nothing_can_be_asked(server: WorldServer) -> None:
    world = server.open(SURE, 0)
    assert world.verdict("none") is False
    for ask in (lambda: world.propose((), [0]), lambda: world.score([(1,)])):
        with pytest.raises(WorldError, match="verdict"):
            ask()


def test_what_does_not_exist_is_refused(remote: WorldServer) -> None:
    world = remote.open(SURE, 0)
    path, _ = walk(world, 0)
    with pytest.raises(WorldError, match="8 steps has ended"):
        world.propose(path, [0])
    with pytest.raises(WorldError, match="no reading"):
        world.score([()])
    world.close()
    with pytest.raises(WorldError, match="not open"):
        world.score([path])


def test_a_dead_scorer_is_said() -> None:
    with WorldServer() as server:
        world = server.open(SURE, 0)
        assert server._child is not None
        server._child.kill()
        server._child.wait()
        with pytest.raises(WorldError, match="ended"):
            world.propose((), [0])
    with pytest.raises(WorldError, match="closed"):
        world.propose((), [0])


@pytest.mark.parametrize(
    "fault", [{"hidden": 1.5}, {"success": -0.1}, {"earliest": 9}, {"earliest": 0}, {"routes": True, "depth": 7}]
)
def test_impossible_worlds_are_refused(fault: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="world 'clean'"):
        replace(WORLDS["clean"], **fault)
