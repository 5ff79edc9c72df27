"""Belief search on the digit world: what it asks for, when it stops, what it answers with."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from treewise.policy.scripted import ScriptedPolicy
from treewise.search.belief_mcts import BeliefMCTS
from treewise.search.belief_search import MOST_SAMPLES, BeliefSearch
from treewise.search.budget import Budget
from treewise.search.settings import SearchSettings
from treewise.search.types import Evaluation, InputError, Judgement, Path, SearchEnd, Standing

pytestmark = pytest.mark.filterwarnings("error")


class Reader:
    """Reads 0.8 while all digits are even and 0.2 from the first odd one on; with `again`, all steps of a path anew each time."""

    fingerprint = "even digits"

    def __init__(self, *, again: bool = False, spoiled: bool = False) -> None:
        self.again, self.spoiled = again, spoiled

    def evaluate(self, paths: Sequence[Path]) -> list[Evaluation]:
        found = []
        for path in paths:
            readings = tuple(0.8 if right(path.texts[: i + 1]) else 0.2 for i in range(len(path.texts)))
            if self.spoiled and len(readings) < 5:  # until the end, everything looks right
                readings = (0.8,) * len(readings)
            found.append(Evaluation(readings[-1], readings=readings if self.again else ()))
        return found


def right(digits: Sequence[str]) -> bool:
    return all(int(digit) % 2 == 0 for digit in digits)


def searches(world: Any, **options: Any) -> list[BeliefSearch]:
    """Even digits all the way give the answer "even", as the one true answer; others their first odd digit."""

    class EvenTask(world.Task):  # type: ignore[misc,name-defined]
        def judge(self, path: Path) -> Judgement:
            judgement = super().judge(path)
            if judgement.answer is None:
                return judgement
            odd = [digit for digit in judgement.answer if int(digit) % 2]
            return Judgement(Standing.FINISHED, answer=odd[0] if odd else "even")

    options = {"evaluator": Reader(), "task": EvenTask(), "problems": 4, "method": "belief"} | options
    return list(world.run(**options).values())


def test_it_finds_the_right_path_and_stops_when_it_is_sure(world: Any) -> None:
    for search in searches(world, budget=Budget(tokens=3000)):
        answer = search.answer()
        assert answer.end is SearchEnd.CONFIDENT
        assert answer.text == "even"
        assert answer.value is not None
        assert answer.value > 0.995
        assert answer.bill.policy_tokens < 1500


def test_a_proven_answer_is_certain(world: Any) -> None:
    policy = ScriptedPolicy(world.script(lambda ids, seed: "2"))
    search = world.run(
        budget=Budget(simulations=20),
        policy=policy,
        problems=1,
        method="belief",
        evaluator=Reader(),
        task=world.Task(proof="22222"),
    )["p0"]
    assert (search.answer().end, search.answer().value) == (SearchEnd.PROVEN, 1.0)


class Alike:
    """Reads every path alike but for a spread that is drawn by its text."""

    fingerprint = "alike"

    def __init__(self, spread: float) -> None:
        self.spread = spread

    def evaluate(self, paths: Sequence[Path]) -> list[Evaluation]:
        return [Evaluation(0.3 + self.spread * (Random(path.text).random() - 0.5)) for path in paths]


@pytest.mark.parametrize(("spread", "most"), [(0.0, 20), (0.02, 600)])
def test_an_evaluator_that_says_nothing_does_not_keep_it_from_ending(world: Any, spread: float, most: int) -> None:
    """A bound on paths alone: steps a path are bounded, too, when no reading speaks for going deeper."""
    search = world.run(
        budget=Budget(simulations=12),
        problems=1,
        policy=ScriptedPolicy(world.script(lambda ids, seed: str(seed % 9))),
        method="belief",
        evaluator=Alike(spread),
        belief_stop=1.0,
        merge="none",
    )["p0"]
    assert search.bill.simulations == 12
    assert search.solutions.tree.size <= most * 12
    assert search.answer().finished


@pytest.mark.parametrize("alike", [1, 2, 7])
def test_readings_held_back_are_told_when_one_differs(world: Any, alike: int) -> None:
    told = [0.4] * alike + [0.7, 0.4, 0.2]

    class Told:
        fingerprint = "told"

        def __init__(self) -> None:
            self.left = iter(told)

        def evaluate(self, paths: Sequence[Path]) -> list[Evaluation]:
            return [Evaluation(next(self.left, 0.3)) for _ in paths]

    search = world.run(budget=Budget(tokens=60), problems=1, method="belief", evaluator=Told(), belief_stop=1.0)["p0"]
    values = [search.solutions.tree.value(n) for n in range(1, search.solutions.tree.size) if not search.is_dead(n)]
    assert len(values) > alike + 3
    assert search.belief.readings == len(values)


def test_the_stop_can_be_turned_off(world: Any) -> None:
    for search in searches(world, budget=Budget(tokens=800), belief_stop=1.0):
        assert search.answer().end is SearchEnd.BUDGET


@pytest.mark.parametrize("spoiled", [False, True])
def test_later_readings_of_earlier_steps_replace_the_first_ones(world: Any, spoiled: bool) -> None:
    for search in searches(world, budget=Budget(tokens=3000), evaluator=Reader(again=True, spoiled=spoiled)):
        assert search.answer().text == "even"
    for search in searches(world, budget=Budget(tokens=300), evaluator=Reader(again=True, spoiled=True), belief_stop=1.0):
        tree, evidence = search.solutions.tree, search.belief._evidence
        for node in search.solutions.finished:
            path = tree.path(node)[1:]
            newest = max(child for child in range(1, tree.size) if tree.path(child)[1] == path[0])
            if search.solutions.standings[newest] is Standing.FINISHED:
                assert evidence.reading[path[0]] == (0.8 if right([search.solutions.tokens.text(int(path[0]))]) else 0.2)
                assert evidence.settled[path[0]]


def test_readings_must_be_one_a_step(world: Any) -> None:
    class Short(Reader):
        def evaluate(self, paths: Sequence[Path]) -> list[Evaluation]:
            return [Evaluation(0.5, readings=(0.5,) * (len(path.texts) + 1)) for path in paths]

    for search in searches(world, budget=Budget(tokens=100), evaluator=Short()):
        assert search.answer().end is SearchEnd.FAILED
        assert "readings" in search.answer().reason


def test_dead_paths_count_as_wrong_and_no_node_is_sampled_for_ever(world: Any) -> None:
    for search in searches(world, budget=Budget(tokens=2000), belief_stop=1.0):
        posterior = search.posterior()
        for node in range(search.solutions.tree.size):
            if search.solutions.standings[node] is Standing.DEAD:
                assert posterior.right[node] < 0.01
        assert max(search._asked.values()) <= MOST_SAMPLES


def test_a_wave_takes_the_nodes_of_largest_worth(world: Any) -> None:
    (search,) = searches(world, budget=Budget(tokens=200), problems=1, belief_stop=1.0)
    posterior, tree = search.posterior(), search.solutions.tree
    success = search.belief.model.success

    def worth(node: int) -> float:
        expansions = search._asked.get(node, 0) / search.width
        return float(posterior.right[node] * 0.6**expansions / success ** (0.68 * tree.depth(node)))

    ranked = search._ranked(posterior)
    assert [worth(n) for n in ranked] == sorted((worth(n) for n in ranked), reverse=True)
    assert set(ranked) == {n for n in range(tree.size) if search.is_open(n) and search._asked.get(n, 0) < MOST_SAMPLES}


@pytest.mark.parametrize("lanes", [1, 3, 8])
def test_lanes_bound_the_requests_under_way(world: Any, lanes: int) -> None:
    most = 0

    class Watched(ScriptedPolicy):
        def propose(self, ticket: int, request: Any) -> None:
            nonlocal most
            super().propose(ticket, request)
            self.under_way = getattr(self, "under_way", 0) + 1
            most = max(most, self.under_way)

        def collect(self, *, wait: bool) -> list[Any]:
            found = super().collect(wait=wait)
            self.under_way = getattr(self, "under_way", 0) - len(found)
            return found

    searches(world, budget=Budget(tokens=2000), problems=1, lanes=lanes, policy=Watched(world.random_digits), belief_stop=1.0)
    assert most == lanes


@pytest.mark.parametrize("name", ["belief_discount", "belief_depth_gain", "belief_stop"])
@pytest.mark.parametrize("value", [-0.1, 2.1, float("nan")])
def test_options_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(InputError, match=name):
        SearchSettings(method="belief", **{name: value})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no effect"):
        SearchSettings(method="beam", **{name: 0.5})  # type: ignore[arg-type]


def test_the_posterior_is_of_the_tree_as_it_is(world: Any) -> None:
    for search in searches(world, budget=Budget(tokens=300)):
        posterior = search.posterior()
        assert posterior.states.shape == (search.solutions.tree.size, 3)
        np.testing.assert_allclose(posterior.states.sum(axis=1), 1.0)
        assert sum(posterior.answers.values()) <= 1.0 + 1e-9
        assert set(posterior.answers) <= {search.solutions.judgements[n].answer for n in search.solutions.finished}


@pytest.mark.parametrize("lanes", [1, 4])
def test_mcts_with_belief_backup_selects_by_the_posteriors_of_the_whole_tree(world: Any, lanes: int) -> None:
    for search in searches(world, method="mcts", backup="belief", lanes=lanes, budget=Budget(tokens=1500)):
        assert isinstance(search, BeliefMCTS)
        assert search.answer().end is SearchEnd.CONFIDENT
        assert search.answer().text == "even"
        posterior, tree = search.posterior(), search.solutions.tree
        walk = search.belief.walk()
        children = tree.children(0).tolist()
        assert walk.right(children) == pytest.approx(posterior.right[children].tolist(), abs=1e-9)
        search._select(0)
        assert [tree.best(child) for child in children] == pytest.approx(posterior.right[children].tolist(), abs=1e-6)
