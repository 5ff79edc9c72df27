"""The answer checker on arbitrary texts: no exception, no wrong "correct" on rational numbers, equal answers found equal."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from treewise.search.types import VerdictKind
from treewise.value.math_answers import check_answer, check_response, tidy

PIECES = r"""
    1 2 12 0 x e i A 0.5 1,000 e3 ½ ² √ ３ ^ _ + - * / ! = , . $ % \% & \\ { } ( ) [ ] \{ \}
    \frac \sqrt \pi \pm \cup \log \binom \left \infty \overline{3} sin cm and \text{ \boxed{ ####
    \begin{pmatrix} \end{pmatrix}
"""

answers = st.lists(st.sampled_from([*PIECES.split(), " ", "\n", "answer is "]), max_size=14).map("".join)
fractions = st.fractions(min_value=-1000, max_value=1000, max_denominator=1000)


def spellings(value: Fraction) -> list[str]:
    """The same number as people write it."""
    p, q, sign = abs(value.numerator), value.denominator, "-" if value < 0 else ""
    written = [
        f"{sign}{p}/{q}",
        rf"{sign}\frac{{{p}}}{{{q}}}",
        rf"\boxed{{{sign}\dfrac{{{p}}}{{{q}}}}}",
        f"${sign}{2 * p}/{2 * q}$",
    ]
    if q > 1 and p > q:
        written.append(rf"{sign}{p // q}\frac{{{p % q}}}{{{q}}}")
    if q == 1:
        written += [f"{sign}{p}", f"{sign}{p:,}", f"#### {sign}{p}", f"{sign}{p}.00", rf"\boxed{{{sign}{p}\text{{ apples}}}}"]
    return written


@given(answers, answers)
def test_no_text_raises(gold: str, response: str) -> None:
    assert check_response(gold, response).kind in VerdictKind
    assert check_answer(gold, response).kind in VerdictKind
    tidy(response)


@given(st.text(max_size=200), st.text(max_size=200))
def test_no_unicode_raises(gold: str, response: str) -> None:
    assert check_response(gold, response).kind in VerdictKind


@given(fractions, st.data())
def test_one_number_in_two_spellings_is_correct(value: Fraction, data: st.DataObject) -> None:
    gold, answer = (data.draw(st.sampled_from(spellings(value))) for _ in range(2))
    assert check_response(gold, answer).kind is VerdictKind.CORRECT


@given(fractions, fractions, st.data())
def test_two_numbers_are_never_correct(a: Fraction, b: Fraction, data: st.DataObject) -> None:
    gold, answer = data.draw(st.sampled_from(spellings(a))), data.draw(st.sampled_from(spellings(b)))
    assert (check_response(gold, answer).kind is VerdictKind.CORRECT) == (a == b)
