"""Policy and evaluator at the same time: the same searches, nothing left behind, and real overlap."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from random import Random

import pytest

from treewise.policy.scripted import Latency, ScriptedPolicy, text_step
from treewise.search.budget import Budget
from treewise.search.driver import Driver, Wakeable
from treewise.search.methods import start_search
from treewise.search.settings import SearchSettings
from treewise.search.trace import Origin
from treewise.search.tree_search import TreeSearch
from treewise.search.types import Evaluation, EvaluatorError, Path, Problem, Proposal, SearchEnd

ORIGIN = Origin(task="digits", method="any", config="{}", config_hash="0", seed=0, policy="p", evaluator="e", library_version="0")
PATIENCE = 20.0
"""Seconds after which a test that waits has failed."""


class Waking(ScriptedPolicy):
    """Can be woken, and makes the most of it: a wake that nobody waited for empties the next waiting collect."""

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)  # type: ignore[arg-type]
        self.woken = threading.Event()

    def wake(self) -> None:
        self.woken.set()

    def collect(self, *, wait: bool) -> list[Proposal]:
        if wait and self.woken.is_set():
            self.woken.clear()
            return []
        return super().collect(wait=wait)


def searches(world, policy: ScriptedPolicy, *, budget: Budget, count: int = 5, method: str = "mcts") -> list[TreeSearch]:
    task = world.Task()
    problems = [Problem(f"p{i}", f"problem {i}\n") for i in range(count)]
    settings = SearchSettings(method=method)  # type: ignore[arg-type]
    return [
        start_search(p, policy.encode(task.prompt(p)), task=task, settings=settings, budget=budget, seed=0, context_length=999)
        for p in problems
    ]


def slow(world, *, before: Callable[[list[Path]], None]) -> object:
    """The world's evaluator, which first does something slow, and notes what it was called for and where."""

    class Slow(world.MeanDigit):
        def __init__(self):
            self.calls: list[tuple[str, ...]] = []
            self.threads: set[str] = set()

        def evaluate(self, paths):
            self.calls.append(tuple(path.problem.id for path in paths))
            self.threads.add(threading.current_thread().name)
            before(paths)
            return super().evaluate(paths)

    return Slow()


def evaluator_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("evaluator")]


def outcome(found: list[TreeSearch]) -> list[object]:
    bills = [search.bill for search in found]
    kept = [(b.policy_tokens, b.evaluator_tokens, b.simulations, b.rounds, b.duplicates, b.unfinished) for b in bills]
    return [(s.trace(ORIGIN).nodes, s.end, s.answer().text, bill) for s, bill in zip(found, kept, strict=True)]


@pytest.mark.parametrize("method", ["mcts", "best-of-n", "majority", "greedy"])
@pytest.mark.parametrize("kind", [ScriptedPolicy, Waking])
@pytest.mark.parametrize("shuffle", [False, True])
def test_overlap_changes_no_search(world, method: str, kind: type[ScriptedPolicy], shuffle: bool) -> None:
    """Some batches take long and others do not, and results come back in any order: the traces are the same."""
    budget = Budget(simulations=1 if method == "greedy" else 10, tokens=80)
    plain = ScriptedPolicy(world.random_digits)
    wanted = searches(world, plain, budget=budget, method=method)
    list(Driver(plain, world.MeanDigit(), overlap=False).run(wanted, concurrency=3))
    for seed in range(3):
        random = Random(seed)
        evaluator = slow(world, before=lambda _, random=random: time.sleep(random.choice((0.0, 0.002, 0.004))))
        policy = kind(world.random_digits, shuffle=shuffle, seed=seed)
        found = searches(world, policy, budget=budget, method=method)
        list(Driver(policy, evaluator).run(found, concurrency=3))
        assert any(name.startswith("evaluator") for name in evaluator.threads)
        assert outcome(found) == outcome(wanted)
        assert evaluator_threads() == []


@pytest.mark.timeout(60)
def test_the_policy_is_served_while_the_evaluator_works_and_what_waits_is_one_batch(world) -> None:
    """The evaluator keeps its first batch until the proposals of the other two searches are back: without overlap, for ever."""
    back: list[int] = []
    others = threading.Event()

    class OneByOne(Waking):
        def collect(self, *, wait: bool) -> list[Proposal]:
            if len(back) == 3:  # all three were handed out
                others.set()
            found = super().collect(wait=wait)
            back.extend(proposal.ticket for proposal in found)
            return found

    def hold(paths: list[Path]) -> None:
        assert others.wait(PATIENCE), "no proposal came while the evaluator worked"

    policy = OneByOne(lambda ids, seed: (text_step("4\n"),) * 5, latency=Latency(base=1.0, jitter=1.0))
    evaluator = slow(world, before=hold)
    list(Driver(policy, evaluator).run(searches(world, policy, budget=Budget(), count=3, method="greedy")))
    assert isinstance(policy, Wakeable)
    assert [len(set(call)) for call in evaluator.calls[:2]] == [1, 2]


def test_a_brief_evaluator_is_called_in_place_and_a_slow_one_never(world) -> None:
    policy = ScriptedPolicy(world.random_digits)
    brief = slow(world, before=lambda paths: None)
    list(Driver(policy, brief).run(searches(world, policy, budget=Budget(simulations=20))))
    assert threading.current_thread().name in brief.threads
    long = slow(world, before=lambda paths: time.sleep(0.003))
    list(Driver(policy, long).run(searches(world, policy, budget=Budget(simulations=3))))
    assert threading.current_thread().name not in long.threads


@pytest.mark.parametrize("error", [EvaluatorError("no number"), RuntimeError("out of memory")])
@pytest.mark.parametrize("kind", [ScriptedPolicy, Waking])
def test_an_error_in_the_thread_ends_the_search_it_was_for(world, error: Exception, kind: type[ScriptedPolicy]) -> None:
    def fail(paths: list[Path]) -> None:
        time.sleep(0.002)
        if any(path.problem.id == "p1" and len(path.ends) > 1 for path in paths):
            raise error

    policy = kind(world.random_digits)
    found = searches(world, policy, budget=Budget(simulations=6))
    list(Driver(policy, slow(world, before=fail)).run(found))
    assert [search.end is SearchEnd.FAILED for search in found] == [False, True, False, False, False]
    assert str(error.args[0]) in found[1].answer().reason
    assert all((s.meter.reserved_tokens, s.meter.reserved_simulations) == (0, 0) for s in found)


class Fatal(BaseException):
    """Neither an error of the evaluator nor one of the driver."""


def test_what_is_no_error_reaches_the_caller(world) -> None:
    def fail(paths: list[Path]) -> None:
        raise Fatal

    policy = Waking(world.random_digits)
    found = searches(world, policy, budget=Budget(simulations=6))
    with pytest.raises(Fatal):
        list(Driver(policy, slow(world, before=fail)).run(found))
    assert all(search.end is SearchEnd.CANCELLED for search in found)
    assert evaluator_threads() == []


@pytest.mark.parametrize("kind", [ScriptedPolicy, Waking])
def test_a_caller_that_stops_leaves_nothing_behind(world, kind: type[ScriptedPolicy]) -> None:
    """The evaluator is in the middle of a batch: it is waited for, its values go nowhere."""
    policy = kind(world.random_digits)
    found = searches(world, policy, budget=Budget(simulations=50))
    found[0].stop(SearchEnd.CANCELLED)
    evaluator = slow(world, before=lambda paths: time.sleep(0.02))
    running = Driver(policy, evaluator).run(found)
    assert next(running) is found[0]
    running.close()
    assert [search.end for search in found] == [SearchEnd.CANCELLED] * 5
    assert policy.collect(wait=False) == []
    assert evaluator_threads() == []
    assert all((s.meter.reserved_tokens, s.meter.reserved_simulations) == (0, 0) for s in found)


def test_a_driver_runs_again_after_it_was_stopped(world) -> None:
    policy = Waking(world.random_digits)
    driver = Driver(policy, slow(world, before=lambda paths: time.sleep(0.002)))
    first = driver.run(searches(world, policy, budget=Budget(simulations=1), method="greedy"))
    next(first)
    first.close()
    again = searches(world, policy, budget=Budget(simulations=4))
    assert sorted(search.problem.id for search in driver.run(again)) == [f"p{i}" for i in range(5)]  # type: ignore[attr-defined]
    assert all(search.answer().finished for search in again)


@pytest.mark.parametrize("kind", [ScriptedPolicy, Waking])
def test_what_is_being_valued_when_time_is_up_still_counts(world, kind: type[ScriptedPolicy]) -> None:
    """One-step solutions: the limit passes while the first are with the evaluator. They get their values, nothing new is sent."""
    now = [0.0]

    def pass_time(paths: list[Path]) -> None:
        now[0] += 5.0
        time.sleep(0.01)

    policy = kind(lambda ids, seed: (text_step("4\n"),), latency=Latency(jitter=1.0))
    task = world.Task(depth=1)
    problem = Problem("p", "x\n")
    search = start_search(
        problem,
        policy.encode(task.prompt(problem)),
        task=task,
        settings=SearchSettings(method="best-of-n", samples=4, merge="none", prune=False),
        budget=Budget(seconds=1.0),
        seed=0,
        context_length=999,
    )
    list(Driver(policy, slow(world, before=pass_time), clock=lambda: now[0]).run([search]))
    answer = search.answer()
    assert (answer.end, answer.text, answer.value) == (SearchEnd.BUDGET, "4", 0.5)
    assert search.bill.policy_tokens > 0
    assert policy.collect(wait=False) == []


def test_a_late_search_sends_nothing_more(world) -> None:
    now = [0.0]
    policy = Waking(world.random_digits)

    def pass_time(paths: list[Path]) -> None:
        now[0] = 5.0
        time.sleep(0.01)

    sent: list[int] = []

    class Counting(world.MeanDigit):
        def evaluate(self, paths):
            sent.append(len(policy.requests))
            pass_time(paths)
            return super().evaluate(paths)

    (search,) = searches(world, policy, budget=Budget(seconds=1.0), count=1)
    list(Driver(policy, Counting(), clock=lambda: now[0]).run([search]))
    assert (search.end, len(sent)) == (SearchEnd.BUDGET, 1)
    assert len(policy.requests) == sent[0], "requests were sent after the limit"
    assert policy.collect(wait=False) == []


@pytest.mark.timeout(20)
def test_lost_requests_are_told_from_a_late_wake(world) -> None:
    class Losing(Waking):
        def collect(self, *, wait: bool) -> list[Proposal]:
            found = super().collect(wait=wait)
            return [] if self.now > 3 else found

    policy = Losing(world.random_digits, latency=Latency(base=1.0))
    found = searches(world, policy, budget=Budget(simulations=50))
    list(Driver(policy, slow(world, before=lambda paths: time.sleep(0.002))).run(found))
    assert all(search.end is SearchEnd.FAILED and "lost" in search.answer().reason for search in found)


def test_evaluations_of_a_thread_are_checked_too(world) -> None:
    class Wrong(world.MeanDigit):
        def evaluate(self, paths):
            time.sleep(0.002)
            return [Evaluation(float("nan")) for _ in paths]

    policy = Waking(world.random_digits)
    found = searches(world, policy, budget=Budget(simulations=4))
    list(Driver(policy, Wrong()).run(found))
    assert all("nan" in search.answer().reason for search in found)
