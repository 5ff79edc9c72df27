"""Several policies as one: problems stay where they are, load is even, a dead replica's work goes to the others."""

from __future__ import annotations

import threading
import time
from collections import Counter
from random import Random

import pytest

from treewise.policy import replicas as module
from treewise.policy.replicas import ReplicatedPolicy
from treewise.policy.revived import EngineDied
from treewise.policy.scripted import ScriptedPolicy, text_step
from treewise.search.types import Ids, InputError, Policy, Proposal, Step, StepRequest


def lines(ids: Ids, seed: int) -> tuple[Step, ...]:
    return (text_step(f"{Random(f'{ids} {seed}').randrange(10)}\n"),)


class Mortal(ScriptedPolicy):
    """Its death is that of an engine."""

    def _death(self) -> EngineDied:
        return EngineDied("it died", "start anew")


class Busy(ScriptedPolicy):
    """Works by itself: a request is done `seconds` after it was sent, whoever waits; a waiting collect is a fault."""

    def __init__(self, seconds: float) -> None:
        super().__init__(lines)
        self._seconds = seconds
        self._ready = 0.0

    def propose(self, ticket: int, request: StepRequest) -> None:
        super().propose(ticket, request)
        self._ready = time.monotonic() + self._seconds

    def collect(self, *, wait: bool) -> list[Proposal]:
        assert not wait
        return super().collect(wait=False) if time.monotonic() >= self._ready else []

    def wake(self) -> None:
        raise AssertionError("nobody waits in a replica that works by itself")


def prompt(problem: int) -> Ids:
    return (*f"problem {problem}\n".encode(),)


def request(problem: int, *, path: int = 0, seeds: int = 1) -> StepRequest:
    ids = prompt(problem)
    return StepRequest((*ids, *b"4\n" * path), len(ids), tuple(range(seeds)), 8)


def drain(policy: Policy) -> list[Proposal]:
    found: list[Proposal] = []
    while more := policy.collect(wait=True):
        found += more
    return found


def test_every_request_of_a_problem_goes_to_the_same_replica() -> None:
    parts = [ScriptedPolicy(lines) for _ in range(3)]
    policy = ReplicatedPolicy(parts)
    random, ticket = Random(0), 0
    for _ in range(40):
        for problem in random.sample(range(12), 5):
            policy.propose(ticket, request(problem, path=random.randrange(5), seeds=random.randrange(1, 4)))
            ticket += 1
        drain(policy)
    homes: dict[Ids, set[int]] = {}
    for index, part in enumerate(parts):
        for _, sent in part.requests:
            homes.setdefault(sent.ids[: sent.prompt_length], set()).add(index)
    assert len(homes) == 12
    assert all(len(found) == 1 for found in homes.values())
    assert all(policy.replica_of(ids) in found for ids, found in homes.items())


def test_new_problems_go_where_least_is_under_way() -> None:
    parts = [ScriptedPolicy(lines) for _ in range(4)]
    policy = ReplicatedPolicy(parts)
    for problem in range(10):
        policy.propose(problem, request(problem))
    assert sorted(len(part.requests) for part in parts) == [2, 2, 3, 3]
    assert sorted(proposal.ticket for proposal in drain(policy)) == list(range(10))


def test_only_the_latest_problems_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PINS", 3)
    policy = ReplicatedPolicy([ScriptedPolicy(lines) for _ in range(2)])
    for ticket, problem in enumerate((0, 1, 2, 0, 3)):
        policy.propose(ticket, request(problem))
    assert [policy.replica_of(prompt(p)) is None for p in range(4)] == [False, True, False, False]


def test_replicas_of_different_models_are_refused() -> None:
    def other(ids: Ids, seed: int) -> tuple[Step, ...]:
        return ()

    with pytest.raises(InputError, match=r"scripted:lines.*scripted:.*other"):
        ReplicatedPolicy([ScriptedPolicy(lines), ScriptedPolicy(other)])
    with pytest.raises(InputError, match="at least one"):
        ReplicatedPolicy([])


def test_replicas_that_work_by_themselves_work_at_the_same_time() -> None:
    """Four take 0.2 s each; one after the other they would take 0.8 s."""
    policy = ReplicatedPolicy([Busy(0.2) for _ in range(4)])
    for problem in range(4):
        policy.propose(problem, request(problem))
    began = time.monotonic()
    assert len(drain(policy)) == 4
    assert time.monotonic() - began < 0.6


def test_a_waiting_collect_can_be_woken() -> None:
    policy = ReplicatedPolicy([Busy(30.0), Busy(30.0)])
    policy.propose(0, request(0))
    timer = threading.Timer(0.05, policy.wake)
    timer.start()
    began = time.monotonic()
    assert policy.collect(wait=True) == []
    assert 0.04 < time.monotonic() - began < 5
    timer.join()


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("fail_after", [0, 1, 4])
def test_what_a_dead_replica_had_goes_to_the_others(shuffle: bool, fail_after: int) -> None:
    parts = [Mortal(lines, fail_after=fail_after, shuffle=shuffle), *(ScriptedPolicy(lines, shuffle=shuffle) for _ in range(2))]
    policy, alone = ReplicatedPolicy(parts), ScriptedPolicy(lines)
    for ticket in range(24):
        for each in (policy, alone):
            each.propose(ticket, request(ticket % 6, path=ticket // 6, seeds=2))
    found = {proposal.ticket: proposal.samples for proposal in drain(policy)}
    assert found == {proposal.ticket: proposal.samples for proposal in drain(alone)}
    before = len(parts[0].requests)
    policy.propose(99, request(0))
    assert len(drain(policy)) == 1
    assert len(parts[0].requests) == before


@pytest.mark.parametrize("shuffle", [False, True])
def test_when_all_are_dead_every_request_fails_with_the_reason(shuffle: bool) -> None:
    policy = ReplicatedPolicy([Mortal(lines, fail_after=4, shuffle=shuffle) for _ in range(2)])
    lost = []
    for ticket in range(20):
        try:
            policy.propose(ticket, request(ticket))
        except EngineDied:
            lost.append(ticket)
    failed = drain(policy)
    assert sorted([*lost, *(proposal.ticket for proposal in failed)]) == list(range(20))
    assert all(isinstance(proposal.error, EngineDied) for proposal in failed)
    with pytest.raises(EngineDied, match="it died"):
        policy.propose(50, request(0))


def test_load_counts_what_is_cancelled_and_what_is_back() -> None:
    parts = [ScriptedPolicy(lines) for _ in range(2)]
    policy = ReplicatedPolicy(parts)
    policy.propose(0, request(0, seeds=5))
    policy.propose(1, request(1, seeds=1))
    policy.cancel(0)
    policy.propose(2, request(2))
    assert Counter(policy.replica_of(prompt(p)) for p in range(3)) == {0: 2, 1: 1}
    assert sorted(proposal.ticket for proposal in drain(policy)) == [1, 2]
    policy.propose(3, request(3))
    assert policy.replica_of(prompt(3)) == 0
