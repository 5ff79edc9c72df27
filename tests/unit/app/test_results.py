"""The fixed line of a result, and the counts over results."""

from __future__ import annotations

import json

import pytest

from treewise.app.results import Result, Tally
from treewise.search.types import Answer, Bill, PolicyError, SearchEnd, Verdict, VerdictKind

BILL = Bill(policy_tokens=7, evaluator_tokens=5, cached_tokens=3, rounds=2, seconds=0.5, simulations=4, unfinished=1)


def answer(text: str | None, *, end: SearchEnd = SearchEnd.BUDGET, value: float | None = None) -> Answer:
    error = PolicyError("no", "do") if end is SearchEnd.FAILED else None
    return Answer("a", text, None if text is None else 3, value, end, "the budget is spent", BILL, error)


def test_the_line_has_exactly_the_fixed_names() -> None:
    line = Result.of(answer("(8 * 3)", value=0.5), Verdict(VerdictKind.CORRECT)).line()
    record = json.loads(line)
    bill = record.pop("bill")
    assert record == {
        "id": "a",
        "answer": "(8 * 3)",
        "finished": True,
        "verdict": "correct",
        "value": 0.5,
        "reason": "the budget is spent",
    }
    fixed = {"policy_tokens": 7, "evaluator_tokens": 5, "cached_tokens": 3, "rounds": 2, "seconds": 0.5, "simulations": 4}
    assert fixed.items() <= bill.items()


def test_no_answer_is_null_and_not_finished() -> None:
    record = json.loads(Result.of(answer(None), None).line())
    assert (record["answer"], record["finished"], record["verdict"], record["value"]) == (None, False, None, None)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_the_line_is_strict_json_whatever_the_value(value: float) -> None:
    assert json.loads(Result.of(answer("5", value=value), None).line())["value"] is None


def test_the_line_is_one_ascii_line_whatever_the_text() -> None:
    line = Result.of(answer("a\nb\u2028中\ud800"), None).line()
    assert line.isascii()
    assert "\n" not in line
    assert json.loads(line)["answer"] == "a\nb\u2028中\ud800"


def test_broken_infrastructure_is_told_apart_from_no_answer() -> None:
    failed = Result.of(answer(None, end=SearchEnd.FAILED), None)
    assert failed.failed
    assert failed.reason.startswith("failed: ")
    assert not Result.of(answer(None), None).failed


def test_an_undecided_verdict_brings_its_reason() -> None:
    result = Result.of(answer("x+1"), Verdict(VerdictKind.UNDECIDED, "no number"))
    assert result.reason == "the budget is spent; undecided: no number"


def test_known_outcomes_are_counted_under_their_own_kind() -> None:
    """S19: failures never count as successes."""
    results = [
        *[Result.of(answer("5"), Verdict(VerdictKind.CORRECT))] * 5,
        *[Result.of(answer("6"), Verdict(VerdictKind.INCORRECT))] * 4,
        *[Result.of(answer("x"), Verdict(VerdictKind.UNDECIDED))] * 3,
        *[Result.of(answer("y"), None)] * 2,
        Result.of(answer(None), None),
        Result.of(answer(None, end=SearchEnd.FAILED), None),
        Result.of(answer("z", end=SearchEnd.FAILED), Verdict(VerdictKind.CORRECT)),
        Result("line 3", None, None, None, "input: no", rejected=True),
    ]
    tally = Tally()
    for result in results:
        tally.add(result)
    assert (tally.total, tally.correct, tally.incorrect, tally.undecided) == (18, 5, 4, 3)
    assert (tally.unchecked, tally.unfinished, tally.failed, tally.rejected) == (2, 1, 2, 1)
    assert (tally.simulations, tally.policy_tokens, tally.cut) == (17 * 4, 17 * 7, 17)
    said = tally.sentence(seconds=2.0)
    assert said.startswith("5 of 18 correct, 4 incorrect, 3 undecided, 2 unchecked, 1 unfinished, 2 failed, 1 rejected")
    assert "68 simulations, 119 policy tokens, 85 evaluator tokens, 2.0 s (60 tokens/s)" in said


def test_cancelled_tokens_are_said_as_a_bound_and_not_added() -> None:
    tally = Tally()
    for tokens in (0, 7, 5):
        tally.add(Result("a", None, None, None, "", Bill(policy_tokens=100, cancelled_tokens=tokens)))
    assert ", 300 policy tokens, at most 12 more in cancelled requests, " in tally.sentence(seconds=1.0)


def test_a_run_without_searches_says_so() -> None:
    """S22: the summary shows that nothing was run."""
    tally = Tally()
    tally.add(Result("a", None, None, None, "the budget is 0 tokens: nothing was run"))
    assert tally.sentence(seconds=0.0) == "0 of 1 correct, 1 unfinished, 0 simulations, 0 policy tokens, 0.0 s"
