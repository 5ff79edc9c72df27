"""What answer and bill say when a search has ended: paths without an answer, tokens of withdrawn requests."""

from __future__ import annotations

from random import Random

import pytest

from treewise.policy.scripted import Latency, ScriptedPolicy, text_step
from treewise.search.budget import Budget
from treewise.search.types import Judgement, PolicyError, SearchEnd, Standing


@pytest.mark.parametrize(
    ("deaths", "said"),
    [
        ("9", "1 ended without one: nine"),
        ("9 9", "2 ended without one, most often: nine"),
        ("9 9x 9x", "3 ended without one, most often: 9x"),
        ("9 9x 9y", "3 ended without one, for instance: nine"),
    ],
)
def test_no_answer_says_how_many_paths_ended_without_one_and_why(world, deaths: str, said: str) -> None:
    """Paths that finished wrong are neither unfinished nor silent."""

    class Telling(world.Task):
        def judge(self, path):
            word = path.texts[-1].strip()
            return Judgement(Standing.DEAD, reason="nine" if word == "9" else word)

    drawn = iter(deaths.split())
    policy = ScriptedPolicy(lambda ids, seed: (text_step(next(drawn) + "\n"),))
    options = {"method": "best-of-n", "samples": len(deaths.split()), "merge": "none"}
    search = world.run(budget=Budget(), policy=policy, task=Telling(), problems=1, **options)["p0"]
    assert search.answer().reason == f"no path ended in an answer: the method has done all that it does; {said}"


@pytest.mark.parametrize("method", ["mcts", "best-of-n"])
@pytest.mark.parametrize("tokens", [17, 60, 333, None])
def test_the_bill_bounds_every_token_that_was_asked_for(world, method: str, tokens: int | None) -> None:
    """Whatever was sent is in the bill: as tokens that came back, or below the bound of what was withdrawn."""
    digit = world.script(lambda ids, seed: str(Random(f"{seed} {ids}").randrange(1, 4)))
    policy = ScriptedPolicy(digit, latency=Latency(base=1.0, jitter=3.0))
    if method == "mcts":
        options, task = {"lanes": 8, "widening_k": 4.0}, world.Task(depth=3, proof="212")
    else:
        options, task = {"samples": 12}, world.Task(depth=1, proof="2")
    found = world.run(budget=Budget(tokens=tokens, simulations=200), policy=policy, task=task, method=method, **options)
    for search in found.values():
        prompt = policy.encode(task.prompt(search.problem))
        sent = [r for _, r in policy.requests if r.ids[: r.prompt_length] == prompt]
        generated = sum(min(2, r.max_tokens) * len(r.seeds) for r in sent)
        limits = sum(r.max_tokens * len(r.seeds) for r in sent)
        low, high = search.bill.policy_tokens, search.bill.policy_tokens + search.bill.cancelled_tokens
        assert low <= generated <= high <= limits
        assert tokens is None or high <= tokens
        assert search.end is SearchEnd.PROVEN or low == generated == high
    if tokens is None:
        assert any(search.bill.cancelled_tokens for search in found.values())


def test_requests_that_fail_are_billed_by_their_limits(world) -> None:
    """What a failed request has generated is unknown, and so is what was under way beside it: eight limits of four tokens."""
    policy = ScriptedPolicy(world.random_digits, fault=lambda ticket, request: PolicyError("lost"))
    options = {"method": "best-of-n", "samples": 8, "step_tokens": 4, "max_steps": 1, "problems": 1}
    bill = world.run(budget=Budget(), policy=policy, **options)["p0"].bill
    assert (bill.policy_tokens, bill.cancelled_tokens) == (0, 8 * 4)
