"""A policy whose backend dies: made anew once, its requests sent again, and then a clear error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from treewise.policy.replicas import ReplicatedPolicy
from treewise.policy.revived import EngineDied, RevivedPolicy
from treewise.policy.scripted import ScriptedPolicy, text_step
from treewise.search.budget import Budget
from treewise.search.driver import Driver
from treewise.search.methods import start_search
from treewise.search.settings import SearchSettings
from treewise.search.trace import Origin
from treewise.search.tree_search import TreeSearch
from treewise.search.types import Ids, Policy, PolicyError, Proposal, SearchEnd, Step, StepRequest
from treewise.value.countdown_problems import generate
from treewise.value.evaluators import JudgementEvaluator
from treewise.value.tasks import task_named

ORIGIN = Origin(
    task="countdown", method="mcts", config="{}", config_hash="0", seed=0, policy="p", evaluator="e", library_version="0"
)


class Mortal(ScriptedPolicy):
    """Its death is that of an engine."""

    closed = False

    def _death(self) -> EngineDied:
        return EngineDied("it died", "start anew", retryable=True)

    def close(self) -> None:
        super().close()
        self.closed = True


def lines(ids: Ids, seed: int) -> tuple[Step, ...]:
    return (text_step(f"{Random(f'{ids} {seed}').randrange(10)}\n"),)


def made(*lives: int | None, shuffle: bool = False) -> tuple[Callable[[], Policy], list[Mortal]]:
    """A function that makes a policy which dies after so many requests, then the next, and a list of what it has made."""
    policies: list[Mortal] = []
    left = iter(lives)

    def make() -> Policy:
        policies.append(Mortal(lines, fail_after=next(left), shuffle=shuffle))
        return policies[-1]

    return make, policies


def request(ticket: int) -> StepRequest:
    return StepRequest((1, 2, ticket), 2, (ticket, 7), 8)


def drain(policy: Policy) -> Iterator[Proposal]:
    while more := policy.collect(wait=True):
        yield from more


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("life", [0, 1, 5, 9])
def test_requests_come_back_under_their_tickets(life: int, shuffle: bool) -> None:
    """Those done before the death are not sent again; a cancelled one never comes."""
    make, policies = made(life, None, shuffle=shuffle)
    policy = RevivedPolicy(make)
    found = {}
    for ticket in range(10):
        policy.propose(ticket, request(ticket))
        if ticket == 3:
            policy.cancel(2)
        if ticket == 6:
            found |= {p.ticket: p.samples for p in policy.collect(wait=False)}
    found |= {p.ticket: p.samples for p in drain(policy)}
    alone = ScriptedPolicy(lines)
    for ticket in range(10):
        alone.propose(ticket, request(ticket))
    wanted = {p.ticket: p.samples for p in drain(alone) if p.ticket != 2}
    assert found == wanted
    assert len(policies) == 2
    assert policies[0].closed
    sent_again = [ticket for ticket, _ in policies[1].requests]
    assert len(set(sent_again)) == len(sent_again)


def test_a_second_death_is_an_error_that_says_so() -> None:
    make, policies = made(3, 2)
    told: list[EngineDied] = []
    policy = RevivedPolicy(make, on_revival=told.append)
    for ticket in range(6):
        if ticket < 4:
            policy.propose(ticket, request(ticket))
        else:  # the fourth killed the first policy; what was under way kills the second
            with pytest.raises(EngineDied, match="started anew once"):
                policy.propose(ticket, request(ticket))
    failed = [p.error for p in drain(policy) if p.error is not None]
    assert failed
    assert all("it died, and this after it was started anew once" in error.message for error in failed)
    with pytest.raises(EngineDied, match="started anew once"):
        policy.propose(9, request(9))
    assert (len(policies), len(told)) == (2, 1)


def test_a_policy_that_cannot_be_made_again_says_why() -> None:
    first = Mortal(lines, fail_after=1)
    makes = iter([first])

    def make() -> Policy:
        policy = next(makes, None)
        if policy is None:
            raise PolicyError("no memory left")
        return policy

    policy = RevivedPolicy(make)
    for ticket in range(2):
        policy.propose(ticket, request(ticket))
    assert [str(p.error) for p in drain(policy)] == ["no memory left"] * 2


def test_a_request_that_fails_by_itself_is_no_death() -> None:
    policies = []

    def make() -> Policy:
        policies.append(
            ScriptedPolicy(lines, fault=lambda ticket, _: PolicyError("too hot", retryable=True) if ticket == 1 else None)
        )
        return policies[-1]

    policy = RevivedPolicy(make)
    for ticket in range(3):
        policy.propose(ticket, request(ticket))
    assert [p.error is not None for p in sorted(drain(policy), key=lambda p: p.ticket)] == [False, True, False]
    assert len(policies) == 1


def searched(policy: Policy) -> list[TreeSearch]:
    task = task_named("countdown")
    problems = generate(6, numbers=4, split="test", seed=0)
    found = [
        start_search(
            problem,
            policy.encode(task.prompt(problem)),
            task=task,
            settings=SearchSettings(stop_when_proven=False),
            budget=Budget(simulations=12),
            seed=0,
            context_length=policy.context_length,
        )
        for problem in problems
    ]
    list(Driver(policy, JudgementEvaluator(task)).run(found, concurrency=3))
    return found


def countdown(life: int | None, *, shuffle: bool) -> Mortal:
    from treewise.policy.countdown_script import END, decode_words, encode_words, random_steps

    return Mortal(
        random_steps, encode=encode_words, decode=decode_words, vocabulary_size=END + 1, fail_after=life, shuffle=shuffle
    )


def outcome(found: list[TreeSearch]) -> list[object]:
    assert all(search.end is not SearchEnd.FAILED for search in found)
    return [(search.trace(ORIGIN).nodes, search.bill.policy_tokens, search.bill.rounds) for search in found]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("life", [0, 1, 7, 50, 150])
def test_searches_do_not_notice_a_death(life: int, shuffle: bool) -> None:
    """Wherever it falls, alone or in one of two replicas: the same trees, the same bills."""
    wanted = outcome(searched(countdown(None, shuffle=False)))
    lives = iter([life, None])
    assert outcome(searched(RevivedPolicy(lambda: countdown(next(lives), shuffle=shuffle)))) == wanted
    again = iter([life, None])
    parts = [RevivedPolicy(lambda: countdown(next(again), shuffle=shuffle)), countdown(None, shuffle=shuffle)]
    assert outcome(searched(ReplicatedPolicy(parts))) == wanted
