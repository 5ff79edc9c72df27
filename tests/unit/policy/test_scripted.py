"""The scripted policy's clock, order and faults."""

from __future__ import annotations

import pytest

from treewise.policy.scripted import END_ID, Latency, ScriptedPolicy, encode_bytes, text_step
from treewise.search.types import Finish, Ids, PolicyError, Step, StepRequest

PROMPT = encode_bytes("p")


def script(ids: Ids, seed: int) -> tuple[Step, ...]:
    return (text_step("a" * (1 + seed) + "\n"), text_step("b", end=True))


def request(*seeds: int, tokens: int = 50, steps: int | None = 1) -> StepRequest:
    return StepRequest(PROMPT, 1, seeds, tokens, steps)


def test_results_come_by_latency_and_move_the_clock() -> None:
    policy = ScriptedPolicy(script, latency=Latency(base=1.0, per_token=0.5))
    policy.propose(0, request(7))
    policy.propose(1, request(0, 1))
    assert policy.collect(wait=False) == []
    assert [p.ticket for p in policy.collect(wait=True)] == [1]
    assert policy.now == 1.0 + 0.5 * 3  # its longest sample has "aa\n"
    assert [p.ticket for p in policy.collect(wait=True)] == [0]
    assert policy.now == 1.0 + 0.5 * 9


def test_shuffled_order_is_by_seed_and_complete() -> None:
    def order(seed: int) -> list[int]:
        policy = ScriptedPolicy(script, shuffle=True, seed=seed)
        for ticket in range(20):
            policy.propose(ticket, request(ticket))
        tickets: list[int] = []
        while finished := policy.collect(wait=True):
            tickets += [p.ticket for p in finished]
        return tickets

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert sorted(order(1)) == list(range(20))


def test_chosen_request_fails_and_the_others_go_on() -> None:
    policy = ScriptedPolicy(script, fault=lambda ticket, _: PolicyError("chosen") if ticket == 1 else None)
    for ticket in range(3):
        policy.propose(ticket, request(0))
    assert [(p.ticket, p.error is not None, len(p.samples)) for p in policy.collect(wait=True)] == [
        (0, False, 1), (1, True, 0), (2, False, 1),
    ]  # fmt: skip


def test_dead_backend_fails_what_is_under_way_and_refuses_more() -> None:
    policy = ScriptedPolicy(script, fail_after=1)
    policy.propose(0, request(0))
    policy.propose(1, request(0))
    finished = policy.collect(wait=True)
    assert [p.ticket for p in finished] == [0, 1]
    assert all(isinstance(p.error, PolicyError) and p.error.retryable for p in finished)
    with pytest.raises(PolicyError, match="died after 1"):
        policy.propose(2, request(0))


def test_token_limit_cuts_in_a_step() -> None:
    policy = ScriptedPolicy(script)
    policy.propose(0, request(2, tokens=3, steps=None))
    ((step,),) = policy.collect(wait=True)[0].samples
    assert (step.text, step.finish, len(step.logprobs)) == ("aaa", Finish.LENGTH, 3)


def test_end_token_is_no_text() -> None:
    policy = ScriptedPolicy(script)
    assert policy.decode((97, END_ID)) == "a"
