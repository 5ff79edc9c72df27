"""The driver and the shared part of searches when policy, evaluator or task misbehave: one search ends, the others go on."""

from __future__ import annotations

import pytest

from treewise.policy.scripted import Latency, ScriptedPolicy, text_step
from treewise.search.budget import Budget
from treewise.search.driver import Driver
from treewise.search.methods import start_search
from treewise.search.settings import SearchSettings
from treewise.search.tree import State
from treewise.search.tree_search import TreeSearch
from treewise.search.types import Evaluation, InputError, Path, Problem, Proposal, SearchEnd, Step

METHODS = ["mcts", "best-of-n"]


def nothing_left(search: TreeSearch) -> bool:
    tree = search.solutions.tree
    flying = [n for n in range(tree.size) if tree.state(n) is State.IN_FLIGHT]
    return (tree.in_flight_total(), search.meter.reserved_tokens, search.meter.reserved_simulations, flying) == (0, 0, 0, [])


def others_are_whole(found: dict[str, TreeSearch], failed: str) -> bool:
    return all(s.end is not SearchEnd.FAILED and s.answer().finished for name, s in found.items() if name != failed)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("error", [InputError("no such problem"), KeyError("column"), RecursionError("too deep")])
def test_a_task_that_raises_ends_its_search_and_no_other(world, method: str, error: Exception) -> None:
    class Broken(world.Task):
        def judge(self, path: Path):
            if path.problem.id == "p2" and len(path.ends) == 3:
                raise error
            return super().judge(path)

    found = world.run(budget=Budget(simulations=8), task=Broken(), method=method)
    failed = found["p2"]
    assert failed.end is SearchEnd.FAILED
    assert str(error.args[0]) in failed.answer().reason
    assert failed.bill.policy_tokens > 0
    assert all(nothing_left(search) for search in found.values())
    assert others_are_whole(found, "p2")


@pytest.mark.parametrize("method", METHODS)
def test_an_evaluator_that_raises_ends_the_searches_it_was_asked_for(world, method: str) -> None:
    class Broken(world.MeanDigit):
        def evaluate(self, paths):
            if any(path.problem.id == "p1" for path in paths):
                raise RuntimeError("out of memory")
            return super().evaluate(paths)

    found = world.run(budget=Budget(simulations=8), evaluator=Broken(), method=method)
    assert found["p1"].end is SearchEnd.FAILED
    assert "RuntimeError in evaluator mean digit: out of memory" in found["p1"].answer().reason
    assert others_are_whole(found, "p1")
    assert all(nothing_left(search) for search in found.values())


def test_evaluator_outputs_that_are_no_numbers_end_the_search(world) -> None:
    class Words(world.MeanDigit):
        def evaluate(self, paths):
            return [Evaluation(0.5, ("high",)) for _ in paths]  # type: ignore[arg-type]

    for search in world.run(budget=Budget(simulations=4), evaluator=Words()).values():
        assert search.end is SearchEnd.FAILED
        assert nothing_left(search)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("change", [-1, 1])
def test_a_wrong_number_of_samples_is_a_fault_and_its_tokens_are_charged(world, method: str, change: int) -> None:
    class Miscounting(ScriptedPolicy):
        def collect(self, *, wait: bool) -> list[Proposal]:
            found = super().collect(wait=wait)
            return [Proposal(p.ticket, p.samples[:-1] if change < 0 else (*p.samples, p.samples[0])) for p in found]

    policy = Miscounting(lambda ids, seed: (text_step("3\n"),))
    for search in world.run(budget=Budget(simulations=4), policy=policy, method=method).values():
        assert search.end is SearchEnd.FAILED
        assert "samples" in search.answer().reason
        assert nothing_left(search)
        assert change < 0 or search.bill.policy_tokens > 0


def test_log_probabilities_that_are_missing_end_the_search(world) -> None:
    policy = ScriptedPolicy(lambda ids, seed: (Step((49, 10), (-1.0,), "1\n", text_step("1\n").finish),))
    for search in world.run(budget=Budget(simulations=4), policy=policy).values():
        assert search.end is SearchEnd.FAILED
        assert "2 token ids with 1 log-probabilities" in search.answer().reason
        assert nothing_left(search)


@pytest.mark.timeout(20)
def test_requests_that_the_policy_loses_end_the_run_and_do_not_spin(world) -> None:
    class Losing(ScriptedPolicy):
        def collect(self, *, wait: bool) -> list[Proposal]:
            super().collect(wait=wait)
            return []

    for search in world.run(budget=Budget(simulations=4), policy=Losing(world.random_digits)).values():
        assert search.end is SearchEnd.FAILED
        assert "lost" in search.answer().reason
        assert nothing_left(search)


def timed(world, *, seconds: float) -> TreeSearch:
    """One search of one-step solutions on the policy's clock, where every request takes one second."""
    policy, task = ScriptedPolicy(world.random_digits, latency=Latency(base=1.0)), world.Task(depth=1)
    problem = Problem("p", "x\n")
    search = start_search(
        problem,
        policy.encode(task.prompt(problem)),
        task=task,
        settings=SearchSettings(method="best-of-n", samples=4),
        budget=Budget(seconds=seconds),
        seed=0,
        context_length=999,
    )
    (ended,) = Driver(policy, world.MeanDigit(), clock=lambda: policy.now).run([search])
    assert ended is search
    return search


def test_what_came_back_in_time_is_valued_and_can_be_the_answer(world) -> None:
    """The clock runs out while finished paths wait for their values."""
    search = timed(world, seconds=1)
    assert search.answer().finished
    assert search.answer().value is not None


def test_no_seconds_ask_for_nothing(world) -> None:
    search = timed(world, seconds=0)
    assert (search.end, search.bill.policy_tokens, search.meter.tokens) == (SearchEnd.BUDGET, 0, 0)
    assert not search.answer().finished


def test_a_finished_path_without_a_value_is_still_the_answer(world) -> None:
    """The evaluator breaks on finished paths only: there is an answer, no value, and the reason says so."""

    class Broken(world.MeanDigit):
        def evaluate(self, paths):
            if any(len(path.ends) == 2 for path in paths):
                raise RuntimeError("lost")
            return super().evaluate(paths)

    policy = ScriptedPolicy(world.script(lambda ids, seed: "4"))
    answer = world.run(budget=Budget(simulations=3), task=world.Task(depth=2), policy=policy, evaluator=Broken(), problems=1)[
        "p0"
    ].answer()
    assert (answer.text, answer.value, answer.end) == ("44", None, SearchEnd.FAILED)
    assert answer.reason.endswith("the search ended before its answer had a value")


def test_what_has_ended_is_handed_out_before_the_next_evaluation(world) -> None:
    """An interruption during a slow evaluation finds written what had ended before it."""
    ended: list[str] = []
    seen: list[list[str]] = []

    class Watching(world.MeanDigit):
        def evaluate(self, paths):
            seen.append(list(ended))
            return super().evaluate(paths)

    policy, task = ScriptedPolicy(lambda ids, seed: (text_step("9\n" if ids[0] == ord("a") else "3\n"),)), world.Task()
    searches = [
        start_search(
            Problem(name, f"{name}\n"),
            policy.encode(task.prompt(Problem(name, f"{name}\n"))),
            task=task,
            settings=SearchSettings(method="greedy"),
            budget=Budget(),
            seed=0,
            context_length=999,
        )
        for name in ("a", "b")
    ]
    for search in Driver(policy, Watching()).run(searches):
        ended.append(search.answer().problem_id)
    assert seen == [["a"]]
    assert ended == ["a", "b"]
