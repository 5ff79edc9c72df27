"""Countdown expressions: built from operations or read from text, with every intermediate result checked.

A text is read by a grammar of our own (integers, + - * /, parentheses) and never evaluated by Python. Every expression
that exists keeps Countdown's rules for intermediate results; whether it uses the right numbers is for the task to say.
"""

from __future__ import annotations

from dataclasses import dataclass

from treewise.value.countdown import BrokenRule, combine

LONGEST = 1000
"""Most characters of an expression that is read."""

DEEPEST = 50
"""Most parentheses open at once in an expression that is read."""

SYMBOLS = {"+": "+", "-": "-", "*": "*", "/": "/", "×": "*", "x": "*", "X": "*", "·": "*", "÷": "/", "−": "-", "–": "-"}
"""Operation signs as people write them, and the four that we write."""

_TIGHT = frozenset("*/")


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression whose every intermediate result is legal."""

    value: int
    """In [0, LIMIT] once an operation was applied."""
    text: str
    """Written with as few parentheses as keep every intermediate result."""
    numbers: tuple[int, ...]
    """The numbers in it, left to right."""
    loose: frozenset[str] = frozenset()
    """The loosest-binding operations outside all parentheses: of + and -, or of * and /."""


def number(value: int) -> Expression:
    """Return the expression of a single number."""
    return Expression(value, str(value), (value,))


def join(left: Expression, symbol: str, right: Expression) -> Expression:
    """Return `left symbol right` for one of + - * /. Raises BrokenRule when its result is not legal.

    Parentheses that only regroup stay unless leaving them out keeps every intermediate result in range: `a + (b - c)` may be
    legal where `a + b` is above the limit.

    >>> join(join(number(8), "*", number(3)), "*", join(number(5), "-", number(3))).text
    '8 * 3 * (5 - 3)'
    """
    value = combine(left.value, symbol, right.value)
    tight = symbol in _TIGHT
    alike_left = bool(left.loose) and bool(left.loose & _TIGHT) == tight
    alike_right = bool(right.loose) and bool(right.loose & _TIGHT) == tight
    regroups = right.loose == {symbol} and (symbol == "+" or (symbol == "*" and right.value > 0))
    open_left = tight and bool(left.loose) and not alike_left
    open_right = (tight and bool(right.loose) and not alike_right) or (alike_right and not regroups)
    first = f"({left.text})" if open_left else left.text
    second = f"({right.text})" if open_right else right.text
    loose = {symbol}
    if alike_left:
        loose |= left.loose
    if alike_right and not open_right:
        loose |= right.loose
    return Expression(value, f"{first} {symbol} {second}", left.numbers + right.numbers, frozenset(loose))


def parse(text: str) -> Expression:
    """Return the expression that `text` writes.

    Raises BrokenRule when it is not an expression, too long or too deep, or when an intermediate result is not legal.

    >>> parse("(8 x 3 + 5) × 2").text
    '(8 * 3 + 5) * 2'
    """
    if len(text) > LONGEST:
        raise BrokenRule(f"the expression has {len(text)} characters, more than {LONGEST}")
    reader = _Reader(text)
    result = reader.sum(0)
    if reader.at < len(text):
        raise BrokenRule(f"unexpected {text[reader.at]!r} at character {reader.at + 1}")
    return result


class _Reader:
    """Recursive descent over one text; `at` is the next unread character, never a space."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._skip()

    def _skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def _symbol(self, wanted: str) -> str:
        """Take and return the operation at the cursor if it is one of `wanted`, else return an empty string."""
        symbol = SYMBOLS.get(self.text[self.at], "") if self.at < len(self.text) else ""
        if not symbol or symbol not in wanted:
            return ""
        self.at += 1
        self._skip()
        return symbol

    def sum(self, depth: int) -> Expression:
        result = self.product(depth)
        while symbol := self._symbol("+-"):
            result = join(result, symbol, self.product(depth))
        return result

    def product(self, depth: int) -> Expression:
        result = self.atom(depth)
        while symbol := self._symbol("*/"):
            result = join(result, symbol, self.atom(depth))
        return result

    def atom(self, depth: int) -> Expression:
        if self.at >= len(self.text):
            raise BrokenRule("the expression ends where a number was expected")
        if self.text[self.at] == "(":
            if depth >= DEEPEST:
                raise BrokenRule(f"more than {DEEPEST} parentheses are open at once")
            self.at += 1
            self._skip()
            inner = self.sum(depth + 1)
            if self.text[self.at : self.at + 1] != ")":
                raise BrokenRule(f"a parenthesis is not closed at character {self.at + 1}")
            self.at += 1
            self._skip()
            return inner
        end = self.at
        while end < len(self.text) and self.text[end] in "0123456789":
            end += 1
        digits = self.text[self.at : end]
        if not digits:
            raise BrokenRule(f"unexpected {self.text[self.at]!r} at character {self.at + 1}, a number was expected")
        if len(digits) > 9:
            raise BrokenRule(f"a number of {len(digits)} digits at character {self.at + 1}")
        self.at = end
        self._skip()
        return number(int(digits))
