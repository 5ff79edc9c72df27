"""Finding the final answer in a written solution."""

from __future__ import annotations

import time

import pytest

from treewise.value.answer_extraction import Sign, final_answer


@pytest.mark.parametrize(
    ("text", "answer", "sign"),
    [
        (r"So \boxed{5}.", "5", Sign.BOX),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}", Sign.BOX),
        (r"\boxed{\{1,2\}}", r"\{1,2\}", Sign.BOX),
        (r"\fbox{7}", "7", Sign.BOX),
        (r"\boxed {7}", "7", Sign.BOX),
        (r"First \boxed{3}. No, wait. \boxed{5}", "5", Sign.BOX),
        (r"\boxed{5} as asked: in \boxed{}", "5", Sign.BOX),
        (r"put it in \boxed{}. The answer is \boxed{5}", "5", Sign.BOX),
        (r"\boxed{\boxed{5}}", r"\boxed{5}", Sign.BOX),
        ("{ an open brace\n\\boxed{5}", "5", Sign.BOX),
        ("The answer is 4\n#### 18", "18", Sign.HASHES),
        ("#### 17\nmore\n#### 18  ", "18", Sign.HASHES),
        ("The answer is 5. I hope it is correct.", "5", Sign.PHRASE),
        ("The answer is $18.00 dollars", "18.00 dollars", Sign.PHRASE),
        ("Final Answer: 3.5", "3.5", Sign.PHRASE),
        ("**Answer:** 12", "12", Sign.PHRASE),
        ("The answer is **360** dollars.", "360 dollars", Sign.PHRASE),
        ("The answer is:\n\n$$42$$", "42$$", Sign.PHRASE),
        ("The answer is 3. Checking again, the answer is 4, so we stop.", "4", Sign.PHRASE),
    ],
)
def test_the_most_explicit_and_last_sign_counts(text: str, answer: str, sign: Sign) -> None:
    found = final_answer(text)
    assert found is not None
    assert (found.text, found.sign) == (answer, sign)


@pytest.mark.parametrize(
    "text", ["", "5", "the total is 15", r"\boxed", r"\boxed{}", r"\boxed{ }", r"\boxed{5", r"\boxed{3} then \boxed{5"]
)
def test_no_answer_is_guessed(text: str) -> None:
    """S55 among others: a box without a brace is no answer and no crash. A box cut open may be anything."""
    assert final_answer(text) is None


@pytest.mark.parametrize(
    "text", ["\\boxed{" * 50_000, "}" * 300_000, "answer is " * 30_000, "#### " * 50_000, "{" * 200_000 + r"\boxed{1}"]
)
def test_long_texts_take_no_time(text: str) -> None:
    began = time.perf_counter()
    final_answer(text)
    assert time.perf_counter() - began < 1.0
