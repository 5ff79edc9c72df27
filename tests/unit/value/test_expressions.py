"""Countdown expressions: parentheses, legal intermediate results, and texts that are no expression."""

from __future__ import annotations

import time

import pytest

from treewise.value.countdown import BrokenRule, combine
from treewise.value.expressions import join, number, parse


@pytest.mark.parametrize(
    ("left", "symbol", "right", "result"),
    [(8, "*", 3, 24), (200, "+", 0, 200), (5, "-", 5, 0), (0, "/", 7, 0), (84, "/", 12, 7), (0, "*", 200, 0)],
)
def test_legal_operations(left: int, symbol: str, right: int, result: int) -> None:
    assert combine(left, symbol, right) == result


@pytest.mark.parametrize(
    ("left", "symbol", "right", "said"),
    [
        (3, "-", 4, "3 - 4 is negative"),
        (7, "/", 2, "7 / 2 is not an integer"),
        (7, "/", 0, "7 / 0 divides by zero"),
        (0, "/", 0, "0 / 0 divides by zero"),
        (200, "+", 1, "200 + 1 is above 200"),
        (101, "*", 2, "101 * 2 is above 200"),
        (2, "^", 3, "'^' is not one of"),
    ],
)
def test_illegal_operations_say_which(left: int, symbol: str, right: int, said: str) -> None:
    with pytest.raises(BrokenRule, match=said.replace("^", r"\^").replace("*", r"\*").replace("+", r"\+")):
        combine(left, symbol, right)


@pytest.mark.parametrize(
    ("text", "value", "written"),
    [
        ("(8 * 3 + 5) * 2", 58, "(8 * 3 + 5) * 2"),
        ("((8)*(3))", 24, "8 * 3"),
        ("20 - (3 + 4)", 13, "20 - (3 + 4)"),
        ("20 - 3 + 4", 21, "20 - 3 + 4"),
        ("24 / (6 / 2)", 8, "24 / (6 / 2)"),
        ("24 / 6 / 2", 2, "24 / 6 / 2"),
        ("1 + (2 + 3)", 6, "1 + 2 + 3"),
        ("2 * (3 * 4)", 24, "2 * 3 * 4"),
        ("1 + (5 - 2)", 4, "1 + (5 - 2)"),
        ("190 + (50 - 45)", 195, "190 + (50 - 45)"),
        ("100 * (8 / 4)", 200, "100 * (8 / 4)"),
        ("150 * (150 * 0)", 0, "150 * (150 * 0)"),
        ("3 × 4 − 12 ÷ 6", 10, "3 * 4 - 12 / 6"),
        ("3 x 4 – 2", 10, "3 * 4 - 2"),
        ("007", 7, "7"),
    ],
)
def test_parse_writes_the_fewest_parentheses(text: str, value: int, written: str) -> None:
    expression = parse(text)
    assert (expression.value, expression.text) == (value, written)
    assert eval(written) == value  # Python's own arithmetic as the outside value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "(",
        ")",
        "8 *",
        "* 8",
        "8 8",
        "(8",
        "8)",
        "()",
        "-8",
        "8 ** 2",
        "8 // 2",
        "8.5",
        "8 + a",
        "1e3",
        "__import__('os')",
        "8 = 8",
        "3(4)",
        "٣ + 4",
        "8 + + 3",
        "9999999999",
        "150 + 100 - 60",
        "3 - 4 + 5",
        "5 / 2 * 2",
    ],
)
def test_what_is_no_legal_expression_is_refused(text: str) -> None:
    with pytest.raises(BrokenRule):
        parse(text)


@pytest.mark.parametrize("text", ["(" * 400 + "1" + ")" * 400, "1+" * 499 + "1" + "+" * 5000, "1" * 900, "(" * 1000])
def test_long_and_deep_texts_are_refused_at_once(text: str) -> None:
    began = time.perf_counter()
    with pytest.raises(BrokenRule):
        parse(text)
    assert time.perf_counter() - began < 0.5


def test_join_keeps_the_numbers_in_order() -> None:
    assert join(join(number(8), "*", number(3)), "+", number(5)).numbers == (8, 3, 5)
