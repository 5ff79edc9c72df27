"""The meter that stands between a peer and a world: hard budgets, rounds, readings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.peer_meter import AGGREGATES, BudgetSpent, Meter, Outcome, beam_steps, play, summary, widest
from benchmarks.worlds import WORLDS, WorldServer, WorldSpec

CERTAIN = WorldSpec("certain", success=1.0)


@pytest.fixture
def server() -> Iterator[WorldServer]:
    with WorldServer(inline=True) as server:
        yield server


def test_the_budget_is_hard(server: WorldServer) -> None:
    meter = Meter(server.open(WORLDS["clean"], 0), 5)
    ((first, *_),) = meter.sample([((), 3)])
    with pytest.raises(BudgetSpent, match="3 policy steps were asked for with 2 of 5 left"):
        meter.sample([((), 1), ((first.tag,), 2)])
    assert (meter.left, meter.handle.steps) == (2, 3)
    meter.sample([((), 1), ((first.tag,), 1)])
    assert meter.left == 0


def test_a_round_is_a_call_however_much_it_asks_for(server: WorldServer) -> None:
    meter = Meter(server.open(WORLDS["clean"], 0), 100)
    (steps,) = meter.sample([((), 4)])
    meter.sample([((step.tag,), 2) for step in steps])
    meter.chains(3)
    assert (meter.rounds, meter.handle.steps) == (3, 4 + 8 + 3 * 8)


def test_samples_of_a_path_do_not_depend_on_how_they_are_asked_for(server: WorldServer) -> None:
    at_once, one_by_one = (Meter(server.open(WORLDS["clean"], 3), 100) for _ in range(2))
    together = [step for count in (4, 2) for step in at_once.sample([((), count)])[0]]
    single = [one_by_one.sample([((), 1)])[0][0] for _ in range(6)]
    assert together == single
    assert len({step.tag for step in together}) == 6


def test_chains_run_to_the_end_and_are_remembered_with_their_answers(server: WorldServer) -> None:
    meter = Meter(server.open(WORLDS["early"], 0), 500)
    chains = meter.chains(20)
    assert {tuple(step.tag for step in chain): chain[-1].answer for chain in chains} == meter.ended
    assert {len(chain) for chain in chains} <= set(range(2, 13))
    assert all(chain[-1].finished and not any(step.finished for step in chain[:-1]) for chain in chains)


def test_completions_stop_where_the_budget_does(server: WorldServer) -> None:
    meter = Meter(server.open(WORLDS["clean"], 0), 2 + 12)
    (steps,) = meter.sample([((), 2)])
    paths = meter.complete([(step.tag,) for step in steps])
    assert meter.left == 0
    assert sorted(map(len, paths)) == [7, 7]
    assert meter.complete(paths) == paths


@pytest.mark.parametrize("world", ["noisy", "noisy_rescoring"])
def test_readings_are_the_evaluators(server: WorldServer, world: str) -> None:
    handle = server.open(WORLDS[world], 1)
    meter = Meter(handle, 100)
    ((chain),) = meter.chains(1)
    path = tuple(step.tag for step in chain)
    for end in range(1, 9):
        found = meter.readings(path[:end])
        if WORLDS[world].rescoring:
            assert found == tuple(handle.score([path[:end]])[0])
        else:
            assert found == tuple(handle.score([path[:one]])[0][0] for one in range(1, end + 1))


def test_aggregates() -> None:
    readings = [0.5, 0.2, 0.4]
    expected = {"last": 0.4, "mean": 1.1 / 3, "min": 0.2, "prod": 0.04, "sum": 1.1}
    assert {name: aggregate(readings) for name, aggregate in AGGREGATES.items()} == pytest.approx(expected)


@pytest.mark.parametrize("kept", [1, 3, 4, 50])
@pytest.mark.parametrize("each", [1, 2, 16])
def test_beam_steps_by_going_through_a_beam(kept: int, each: int) -> None:
    beam, steps = [()], 0
    for _ in range(8):
        grown = [(*path, index) for path in beam for index in range(each)]
        steps += len(grown)
        beam = grown[:kept]
    assert beam_steps(kept, each) == steps


@pytest.mark.parametrize("budget", [128, 500])
@pytest.mark.parametrize("each", [2, 4, 8, 16])
def test_the_widest_beam_fits_and_a_wider_one_does_not(budget: int, each: int) -> None:
    width = widest(budget, lambda width: beam_steps(width, each))
    assert beam_steps(width, each) <= budget < beam_steps(width + 1, each)


@pytest.mark.parametrize(("length", "right", "needlessly"), [(8, True, False), (5, False, True), (None, False, True)])
def test_what_counts_as_right_and_as_unfinished(server: WorldServer, length: int | None, right: bool, needlessly: bool) -> None:
    def search(meter: Meter, options: object) -> Outcome:
        (chain,) = meter.chains(1)
        return Outcome(None if length is None else tuple(step.tag for step in chain)[:length])

    row = play(server, CERTAIN, 0, budget=9, search=search, options={})
    expected = {"right": right, "rounds": 1, "steps": 8, "unfinished": not right, "unfinished_needlessly": needlessly}
    assert row == expected | {"kept": None}


def test_unfinished_for_want_of_any_chain_is_not_needless(server: WorldServer) -> None:
    def search(meter: Meter, options: object) -> Outcome:
        ((step,),) = meter.sample([((), 1)])
        return Outcome((step.tag,), 1)

    row = play(server, CERTAIN, 0, budget=9, search=search, options={})
    assert (row["unfinished"], row["unfinished_needlessly"], row["kept"]) == (True, False, 1)


def test_summary_counts_and_means() -> None:
    rows = [
        {"right": True, "rounds": 4, "steps": 10, "unfinished": False, "unfinished_needlessly": False, "kept": 10},
        {"right": False, "rounds": 2, "steps": 30, "unfinished": True, "unfinished_needlessly": True, "kept": 10},
    ]
    found = summary(rows)
    assert (found["right"], found["unfinished"], found["unfinished_needlessly"]) == (1, 1, 1)
    assert (found["rounds"], found["steps"], found["kept"]) == pytest.approx((3, 20, 0.5))
