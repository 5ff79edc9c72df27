"""Checking answers: the outside cases, faults reported of other checkers, and inputs made to hang one."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from treewise.search.types import Verdict, VerdictKind
from treewise.value.math_answers import check_answer, check_response, tidy

CASES = json.loads((Path(__file__).resolve().parents[2] / "data" / "answers.json").read_text(encoding="utf-8"))

CORRECT, INCORRECT, UNDECIDED = "correct", "incorrect", "undecided"


def test_there_are_as_many_cases_as_were_given() -> None:
    assert len(CASES) == 49


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_outside_cases(case: dict[str, Any]) -> None:
    began = time.perf_counter()
    assert check_response(case["gold"], case["response"]).kind in case["verdicts"]
    assert time.perf_counter() - began < 1.0


@pytest.mark.parametrize(
    ("gold", "response", "verdict"),
    [
        pytest.param("5", "the total is 15", INCORRECT, id="S05-suffix"),
        pytest.param("5", "-5", INCORRECT, id="S05-sign"),
        pytest.param("5", "The answer is 5. I hope it is correct.", CORRECT, id="S05-sentence"),
        pytest.param("3x-y+13=0", "3x+4y+14=0", INCORRECT, id="S46"),
        pytest.param("1/2004!", "1/2006!", INCORRECT, id="S47-factorials"),
        pytest.param("\\frac{1}{2^{99}}", "\\frac{1}{2^{98}}", INCORRECT, id="S47-powers"),
        pytest.param("1-1/\\mathrm{e}", "1+1/\\mathrm{e}", INCORRECT, id="S47-e"),
        pytest.param("\\dfrac{9}{7}", "\\boxed{9/7}", CORRECT, id="S49"),
        pytest.param("18", "The answer is 18.00", CORRECT, id="T16-decimals"),
        pytest.param("70000", "\\boxed{\\$70{,}000}", CORRECT, id="T16-currency"),
        pytest.param("160", "\\boxed{160\\text{ minutes}}", CORRECT, id="T16-unit"),
        pytest.param("160", "\\boxed{\\text{about an hour}}", UNDECIDED, id="T16-unreadable-is-not-wrong"),
        pytest.param("It is 3 * 6 = <<3*6=18>>18.\n#### 18", "18", CORRECT, id="gsm8k-solution-as-reference"),
    ],
)
def test_reported_faults(gold: str, response: str, verdict: str) -> None:
    assert check_response(gold, response).kind == verdict


def test_roots_that_agree_on_positive_numbers_only_are_never_wrong() -> None:
    """S50: sqrt(1/n) and 1/sqrt(n)."""
    assert check_answer("\\sqrt{\\frac{1}{n}}", "\\frac{1}{\\sqrt{n}}").kind is not VerdictKind.INCORRECT
    assert check_answer("\\sqrt{x^2}", "x").kind is VerdictKind.UNDECIDED


@pytest.mark.parametrize("response", ["\\boxed", "\\boxed{}", "\\boxed{5", "\\boxed 5"])
def test_a_broken_box_is_undecided(response: str) -> None:
    """S55."""
    assert check_response("5", response).kind is VerdictKind.UNDECIDED


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("1/2", "0.50"),
        ("12000", "12{,}000"),
        ("70000", "70\\,000"),
        ("2\\frac{3}{4}", "2 3/4"),
        ("-2\\frac{1}{2}", "-2.5"),
        ("½", "0.5"),
        ("1½", "3/2"),
        ("x²+1", "1+x^2"),
        ("√3", "\\sqrt3"),
        ("0.1\\overline{6}", "1/6"),
        ("2\\sqrt{3}", "\\sqrt{12}"),
        ("\\frac{1}{1+\\sqrt{2}}", "\\sqrt{2}-1"),
        ("\\sqrt[3]{54}", "3\\sqrt[3]{2}"),
        ("\\sqrt{-4}", "2i"),
        ("2^{100}", str(2**100)),
        ("\\frac{x^2-1}{x-1}", "x+1"),
        ("\\binom{5}{2}", "10"),
        ("5!", "120"),
        ("1, 2, 3", "3,2,1"),
        ("x=1 or x=2", "2, 1"),
        ("100,200", "200, 100"),
        ("\\pm 2", "-2, 2"),
        ("1\\pm\\sqrt{2}", "1-\\sqrt2, 1+\\sqrt2"),
        ("(-\\infty, 2]", "(-\\infty,2]"),
        ("2x+2y=2", "x+y=1"),
        ("y=2x+1", "2x+1"),
        ("(2,3)\\cup(4,5)", "(4,5) \\cup (2,3)"),
        ("10 cm", "10 centimeters"),
        ("30^\\circ", "30"),
        ("(B)", "\\text{B}"),
        ("even", "\\text{Even}"),
        ("0", "-0"),
        ("6.02\\times 10^{23}", "6.02e23"),
        ("50\\%", "50"),
    ],
)
def test_equal_answers(gold: str, answer: str) -> None:
    assert check_answer(gold, answer).kind is VerdictKind.CORRECT
    assert check_answer(answer, gold).kind is VerdictKind.CORRECT


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("18", "18.5"),
        ("1/3", "0.333"),
        ("\\pi", "22/7"),
        ("1\\frac12", "11/2"),
        ("(0,1)", "[0,1]"),
        ("(1,2)", "(2,1)"),
        ("(1,2,3)", "(1,2)"),
        ("1,2", "1,3"),
        ("\\{1,2\\}", "\\{1\\}"),
        ("x=1, x=2", "1"),
        ("\\sqrt2+\\sqrt3", "\\sqrt5"),
        ("3+4i", "3-4i"),
        ("x^2", "x^3"),
        ("2", "2x"),
        ("\\sin x", "\\cos x"),
        ("\\ln 2", "\\ln 3"),
        ("A", "B"),
        ("yes", "no"),
        ("10:30", "10:45"),
        ("1e400", "1e401"),
        ("5", "50\\%"),
        ("12 apples", "13 apples"),
        ("y=2x+1", "y=2x+2"),
        ("x=1, y=2", "x=2, y=1"),
    ],
)
def test_different_answers(gold: str, answer: str) -> None:
    assert check_answer(gold, answer).kind is VerdictKind.INCORRECT
    assert check_answer(answer, gold).kind is VerdictKind.INCORRECT


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("5", ""),
        ("", "5"),
        ("5", "five"),
        ("1/3", "0.333..."),
        ("x>3", "x\\ge 4"),
        ("1, 2, \\ldots, n", "1, 3, \\ldots, n"),
        ("0.5", "50\\%"),
        ("10\\text{ cm}", "0.1\\text{ m}"),
        ("10", "10 m"),
        ("1/0", "1"),
        ("0^0", "1"),
        ("5x+1=26, x=5", "5"),
        ("1/2x", "x/2"),
        ("3:2", "6:4"),
        ("1010_2", "1010"),
        ("(1,2)", "1, 2"),
        ("5!!", "15"),
        ("5", "not 5"),
        ("5", "5 because 2+3"),
    ],
)
def test_what_cannot_be_shown_is_undecided_with_a_reason(gold: str, answer: str) -> None:
    verdict = check_answer(gold, answer)
    assert verdict.kind is VerdictKind.UNDECIDED
    assert verdict.reason


HARD = {
    "tower": "9^9^9^9",
    "latex tower": "9^{9^{9^{9}}}",
    "parentheses": "(" * 3000 + "7" + ")" * 3000,
    "few parentheses": "(" * 700 + "8" + ")" * 700,
    "factorial": "1000000!",
    "factorial of factorial": "2500!!",
    "product of factorials": "2500!" * 200,
    "power of a sum": "(a+b+c+d+f)^{40}",
    "nested powers": "((((a+b)^40)^40)^40)^40",
    "long sum": "+".join(["1"] * 700),
    "signs": "-" * 1400 + "8",
    "digits": "1" + "0" * 5000,
    "root of a long number": "\\sqrt{" + "1" * 300 + "}",
    "exponent": "1e99999",
    "small exponent": "1e-9999",
    "commands": "\\frac" * 250,
    "functions": "sin " * 300 + "x",
    "braces": "{" * 1400,
    "boxes": "\\boxed{" * 3000 + "8" + "}" * 3000,
    "wrappers": "\\text{" * 200 + "8" + "}" * 200,
    "commas": "1," * 700,
    "words": "and " * 300,
    "spaces": "1" + " " * 100_000 + "x",
    "letters": "a" * 1400,
    "dollars": "$" * 100_000,
    "binomial": "\\binom{2500}{1250}^{300}",
    "matrix": "\\begin{pmatrix}" + "1&" * 600 + "1\\end{pmatrix}",
}


@pytest.mark.parametrize("name", HARD)
def test_hard_inputs_return_at_once_and_are_never_correct(name: str) -> None:
    """S53: none may take seconds, whether as answer, as reference or boxed."""
    hard = HARD[name]
    pairs = [("7.5", hard), (hard, "7.5"), ("7.5", "\\boxed{" + hard + "}"), ("1+" + hard.replace("\\boxed", ""), hard)]
    for gold, response in pairs:
        began = time.perf_counter()
        assert check_response(gold, response).kind is not VerdictKind.CORRECT
        assert time.perf_counter() - began < 1.0


def test_it_works_from_any_thread() -> None:
    """S52: no signal, so that a thread other than the main one gets the same verdicts."""
    verdicts: dict[str, Verdict] = {}

    def check() -> None:
        for name in ("tower", "factorial", "parentheses"):
            verdicts[name] = check_response("7", HARD[name])
        verdicts["right"] = check_response("7", "\\boxed{7}")

    thread = threading.Thread(target=check)
    thread.start()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert verdicts.pop("right").kind is VerdictKind.CORRECT
    assert verdicts.keys() == {"tower", "factorial", "parentheses"}


@pytest.mark.parametrize(
    ("answer", "tidied"),
    [
        ("$18.00$", "18"),
        ("\\$12,000", "12000"),
        ("007.50", "7.5"),
        ("-0.0", "0"),
        ("-3", "-3"),
        ("\\dfrac{1}{2}", "\\frac{1}{2}"),
        ("10\\text{ cm}", "10\\text{ cm}"),
        ("(1,234)", "(1,234)"),
        ("100", "100"),
        ("$", ""),
    ],
)
def test_tidy_gives_equal_numbers_one_spelling(answer: str, tidied: str) -> None:
    assert tidy(answer) == tidied
