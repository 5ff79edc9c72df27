"""What every search method owes, whatever it does: one suite over all of them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import get_args

import pytest

from treewise.policy.scripted import Latency, ScriptedPolicy, text_step
from treewise.search.budget import Budget
from treewise.search.methods import METHODS
from treewise.search.settings import ENDS_ITSELF, READ_BY, MethodName
from treewise.search.trace import Origin
from treewise.search.tree_search import TreeSearch
from treewise.search.types import EvaluatorError, Finish, PolicyError, SearchEnd, Standing, Step

ORIGIN = Origin("digits", "method", "{}", "hash", 0, "scripted", "mean digit", "0")

LANES = [(method, lanes) for method in METHODS for lanes in ((1, 3, 16) if method in READ_BY["lanes"] else (None,))]
"""Methods with every number of lanes that they may be given."""

every_method = pytest.mark.parametrize("method", METHODS)


def left_over(search: TreeSearch) -> tuple[int, int, int, int]:
    """What would be in flight after the end: marks, tokens, simulations, requests."""
    marks = search.solutions.tree.in_flight_total()
    return marks, search.meter.reserved_tokens, search.meter.reserved_simulations, len(search._errands)


def same(one: TreeSearch, two: TreeSearch) -> bool:
    """Whether two searches left the same behind."""
    bills = [replace(search.bill, seconds=0.0) for search in (one, two)]
    answers = [(answer.text, answer.node, answer.value, answer.end, answer.reason) for answer in (one.answer(), two.answer())]
    return one.trace(ORIGIN).nodes == two.trace(ORIGIN).nodes and bills[0] == bills[1] and answers[0] == answers[1]


def test_every_name_is_a_method_and_every_reader_too() -> None:
    assert set(get_args(MethodName)) - {"auto"} == set(METHODS)
    assert set().union(*READ_BY.values()) | ENDS_ITSELF <= set(METHODS)


@every_method
def test_the_same_seed_gives_the_same_tree_in_any_order_of_completion(world, method: str) -> None:
    budget = Budget(tokens=150)
    first = world.run(budget=budget, problems=3, method=method)
    for order in range(4):
        shuffled = ScriptedPolicy(world.random_digits, shuffle=True, seed=order)
        other = world.run(budget=budget, problems=3, method=method, policy=shuffled, concurrency=1 + order)
        assert all(same(first[name], other[name]) for name in first)
    if method != "greedy":
        assert not all(
            same(first[name], search) for name, search in world.run(budget=budget, seed=1, method=method).items() if name in first
        )


@pytest.mark.parametrize(("method", "lanes"), LANES)
@pytest.mark.parametrize("tokens", [0, 1, 2, 3, 5, 9, 10, 11, 23, 60, 200])
def test_the_token_limit_is_never_passed_and_nothing_is_left_in_flight(
    world, method: str, lanes: int | None, tokens: int
) -> None:
    options = {} if lanes is None else {"lanes": lanes}
    policy = ScriptedPolicy(world.random_digits, latency=Latency(base=1.0, jitter=3.0))
    for search in world.run(budget=Budget(tokens=tokens), policy=policy, method=method, **options).values():
        prompt = policy.encode(world.Task().prompt(search.problem))
        generated = sum(2 * len(r.seeds) * _steps(r) for _, r in policy.requests if r.ids[: r.prompt_length] == prompt)
        assert search.bill.policy_tokens <= min(tokens, generated)
        assert search.bill.policy_tokens + search.bill.cancelled_tokens <= tokens
        assert left_over(search) == (0, 0, 0, 0)
        assert search.done


def _steps(request) -> int:
    return request.steps or request.max_tokens


@every_method
@pytest.mark.parametrize("simulations", [0, 1, 2, 7])
def test_simulations_are_paths_that_ended_and_are_never_more_than_allowed(world, method: str, simulations: int) -> None:
    for search in world.run(budget=Budget(simulations=simulations), method=method).values():
        assert search.bill.simulations <= simulations
        assert left_over(search) == (0, 0, 0, 0)
        if simulations == 0:
            assert (search.bill.policy_tokens, search.solutions.tree.size) == (0, 1)
            assert search.answer().reason == "no path ended in an answer: the budget is spent"


@every_method
@pytest.mark.parametrize(
    "budget", [Budget(tokens=11), Budget(tokens=16), Budget(tokens=40), Budget(simulations=1), Budget(simulations=3, tokens=500)]
)
def test_a_budget_that_pays_for_one_solution_gives_an_answer(world, method: str, budget: Budget) -> None:
    """Small budgets that never finish a path are the commonest fault. No step here is against the rules."""
    policy = ScriptedPolicy(lambda ids, seed: tuple(text_step(f"{(seed + i) % 9}\n") for i in range(10)))
    task = world.Task(depth=5)
    task.step_tokens, task.max_steps = 2, 5
    for search in world.run(budget=budget, policy=policy, task=task, method=method).values():
        answer = search.answer()
        assert answer.finished
        assert len(answer.text) == 5


@every_method
def test_whatever_has_finished_is_answered_with_and_the_best_by_value(world, method: str) -> None:
    for tokens in (30, 90, 250):
        for search in world.run(budget=Budget(tokens=tokens), method=method, choose="value").values():
            answer, finished = search.answer(), search.solutions.finished
            assert answer.finished == bool(finished)
            if finished:
                values = [world.value_of(search.solutions.path(node).text) for node in finished]
                assert answer.value == pytest.approx(max(values))
            else:
                assert answer.reason.startswith("no path ended in an answer")


@every_method
@pytest.mark.parametrize("budget", [Budget(), Budget(tokens=200), Budget(simulations=9)])
def test_a_policy_of_dead_steps_alone_ends_with_a_reason(world, method: str, budget: Budget) -> None:
    if budget.unlimited and method not in ENDS_ITSELF | {"greedy", "best-of-n", "majority"}:
        budget = Budget(simulations=32)
    policy = ScriptedPolicy(world.script(lambda ids, seed: "9" + "x" * (seed % 5)))
    for search in world.run(budget=budget, policy=policy, method=method).values():
        answer = search.answer()
        assert (answer.finished, answer.error) == (False, None)
        assert "ended without one" in answer.reason
        assert "nine" in answer.reason
        assert left_over(search) == (0, 0, 0, 0)


@pytest.mark.parametrize("method", sorted(ENDS_ITSELF))
def test_methods_that_end_by_themselves_do_so_without_any_limit(world, method: str) -> None:
    for search in world.run(budget=Budget(), method=method, prune=False).values():
        assert search.answer().end is SearchEnd.COMPLETE
        assert search.answer().finished


@pytest.mark.parametrize("method", sorted(ENDS_ITSELF))
def test_with_a_limit_they_start_anew_until_it_is_reached(world, method: str) -> None:
    """What is left then does not pay for another path of five steps of two tokens."""
    policy = ScriptedPolicy(lambda ids, seed: tuple(text_step(f"{(seed >> 3 * i) % 8}\n") for i in range(5)))
    task = world.Task()
    task.step_tokens, task.max_steps = 2, 5
    for search in world.run(budget=Budget(tokens=2000), policy=policy, task=task, method=method, prune=False).values():
        assert search.answer().end is SearchEnd.BUDGET
        assert 2000 - 10 < search.bill.policy_tokens <= 2000


@every_method
@pytest.mark.parametrize("limit", [Budget(evaluator_tokens=500), Budget(seconds=1000), Budget(tokens=10**6)])
def test_a_policy_that_says_the_same_for_ever_does_not_keep_a_search_going(world, method: str, limit: Budget) -> None:
    """Nothing new comes, so evaluator tokens and seconds would never run out."""
    policy = ScriptedPolicy(lambda ids, seed: tuple(text_step("4\n") for _ in range(5)))
    search = world.run(budget=limit, policy=policy, method=method, problems=1)["p0"]
    assert search.answer().text == "44444"
    assert search.solutions.tree.size == 6
    assert search.bill.policy_tokens < 10**4


@every_method
def test_a_full_context_ends_paths_and_not_the_program(world, method: str) -> None:
    """Room for three steps of two tokens where five are needed."""
    room = len("problem 0\n") + 6
    for search in world.run(budget=Budget(simulations=20), method=method, context=room).values():
        answer = search.answer()
        assert (answer.finished, answer.error) == (False, None)
        assert left_over(search) == (0, 0, 0, 0)
        assert all(len(search.solutions.path(node).ids) <= room for node in range(search.solutions.tree.size))


@every_method
def test_a_request_that_fails_ends_its_search_and_no_other(world, method: str) -> None:
    alone = world.run(budget=Budget(tokens=120), method=method)
    victim = ScriptedPolicy(world.random_digits).encode(world.Task().prompt(alone["p2"].problem))
    fault = lambda ticket, request: PolicyError("lost") if request.ids[: len(victim)] == victim and len(request.ids) > 0 else None  # noqa: E731
    found = world.run(budget=Budget(tokens=120), method=method, policy=ScriptedPolicy(world.random_digits, fault=fault))
    assert found["p2"].answer().end is SearchEnd.FAILED
    assert "lost" in found["p2"].answer().reason
    assert left_over(found["p2"]) == (0, 0, 0, 0)
    assert all(same(alone[name], found[name]) for name in found if name != "p2")


@every_method
@pytest.mark.parametrize("broken", [math.nan, 1.5, "raises"])
def test_an_evaluator_that_fails_ends_its_search_and_no_other(world, method: str, broken: float | str) -> None:
    class Broken(world.MeanDigit):
        def evaluate(self, paths):
            values = super().evaluate(paths)
            if broken == "raises" and any(p.problem.id == "p2" for p in paths):
                raise EvaluatorError("no memory")
            return [type(v)(broken) if p.problem.id == "p2" else v for p, v in zip(paths, values, strict=True)]

    alone = world.run(budget=Budget(tokens=120), method=method)
    found = world.run(budget=Budget(tokens=120), method=method, evaluator=Broken())
    assert found["p2"].answer().end is SearchEnd.FAILED
    assert isinstance(found["p2"].error, EvaluatorError)
    assert left_over(found["p2"]) == (0, 0, 0, 0)
    assert all(same(alone[name], found[name]) for name in found if name != "p2")


@every_method
def test_samples_that_hold_nothing_are_dropped_and_end_the_search_only_when_nothing_else_comes(world, method: str) -> None:
    def every_third_fails(ids, seed):
        steps = world.random_digits(ids, seed)
        return (Step((), (), "", Finish.ERROR),) if seed % 3 == 0 else steps

    searches = world.run(budget=Budget(tokens=200), method=method, policy=ScriptedPolicy(every_third_fails)).values()
    assert all(left_over(search) == (0, 0, 0, 0) for search in searches)
    if method != "greedy":
        assert sum(search.bill.dropped for search in searches) > 0
        assert any(search.answer().finished for search in searches)
    nothing = ScriptedPolicy(lambda ids, seed: (Step((), (), "", Finish.ERROR),))
    for search in world.run(budget=Budget(tokens=200), method=method, policy=nothing).values():
        assert not search.answer().finished
        assert left_over(search) == (0, 0, 0, 0)


@every_method
@pytest.mark.parametrize("after", range(1, 24, 3))
def test_a_search_stopped_at_any_time_answers_with_what_has_finished(world, method: str, after: int) -> None:
    """Anytime: nothing is in flight then, and the best finished path is the answer."""
    policy = ScriptedPolicy(world.random_digits)

    class Stops(world.MeanDigit):
        calls = 0

        def evaluate(self, paths):
            self.calls += 1
            if self.calls > after:
                raise EvaluatorError("stopped here")
            return super().evaluate(paths)

    for search in world.run(budget=Budget(tokens=300), method=method, policy=policy, evaluator=Stops(), choose="value").values():
        valued = [n for n in search.solutions.finished if search.solutions.tree.value(n) == search.solutions.tree.value(n)]
        assert search.answer().finished == bool(search.solutions.finished)
        if valued:
            best = max(world.value_of(search.solutions.path(node).text) for node in valued)
            assert search.answer().value == pytest.approx(best)
        assert left_over(search) == (0, 0, 0, 0)


@every_method
def test_every_path_is_what_the_model_saw(world, method: str) -> None:
    """The ids of any node's parent path, with a seed that was asked there, give the node's own ids."""
    policy = ScriptedPolicy(world.random_digits)
    search = world.run(budget=Budget(tokens=200), method=method, policy=policy, problems=1, merge="none")["p0"]
    drawn = set()
    for _, request in policy.requests:
        for seed in [0] if request.greedy else request.seeds:
            ids = request.ids
            for step in world.random_digits(ids, seed)[: request.steps]:
                drawn.add((ids, step.ids))
                ids = ids + step.ids
    for node in range(1, search.solutions.tree.size):
        before = search.solutions.path(search.solutions.tree.parent(node)).ids
        assert (before, search.solutions.tokens.ids(node)) in drawn
    assert search.solutions.standings[0] is Standing.OPEN
