"""Reads one mathematical expression, LaTeX or plain, into a small tree. Nothing is evaluated here.

Its own grammar: sums, products (also without a sign), powers, roots, fractions, factorials, functions, symbols, decimals,
repeating decimals, mixed fractions. What it does not know raises Unreadable; length and depth are limited.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from treewise.search.types import TreewiseError

DEEPEST = 40
"""Most brackets and arguments open at once."""

FUNCTIONS = ("arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "sin", "cos", "tan", "cot", "sec", "csc", "ln", "log", "exp")
"""Function names, longer ones first."""

_GREEK = "alpha|beta|gamma|delta|epsilon|varepsilon|theta|lambda|mu|nu|rho|sigma|tau|phi|varphi|omega|Delta|Omega|pi|infty"
_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)")
_REPEATING = re.compile(r"([0-9]*)\.([0-9]*)\\overline\{([0-9]+)\}")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)(?![0-9.])")
_WHOLE = r" ?(?:\{ ?([0-9]{1,9}) ?\}|([0-9]))"
_MIXED = re.compile(rf" ?\\frac{_WHOLE}{_WHOLE}| ([0-9]{{1,9}})/([0-9]{{1,9}})(?![0-9])")
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_SYMBOL = re.compile(rf"\\(?P<greek>{_GREEK})(?![A-Za-z])|(?P<plain>pi|infty)(?![A-Za-z])|(?P<letter>[A-Za-z])")
_SUBSCRIPT = re.compile(r"_(?:\{([A-Za-z0-9]{1,9})\}|([A-Za-z0-9]))")
_FUNCTION = re.compile(rf"\\?({'|'.join(FUNCTIONS)})(?![A-Za-z])")
_MOST_DIGITS = 400
_RUN = re.compile(r"[A-Za-z]{2,}")
_SMALL_WORDS = frozenset(["is", "or", "of", "to", "in", "at", "an", "no", "by", "so", "if", "as"])
_SYMBOL_GROUPS = tuple(map(frozenset, ("wxyz", "abcd", "pqrs", "kmn")))


class Unreadable(TreewiseError):
    """The text is no expression of this grammar."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node: `op` is number, symbol, add, multiply, invert, negate, power, root, factorial, binomial or a function's name."""

    op: str
    arguments: tuple[Node, ...] = ()
    value: Fraction = Fraction(0)
    """Of a number."""
    name: str = ""
    """Of a symbol; of a function, its base if it has one."""


def read_expression(text: str) -> Node:
    """Return the tree of an answer that `plain` has cleaned. Raises Unreadable."""
    reader = _Reader(text)
    node = reader.sum(0)
    if reader.at < len(text):
        raise Unreadable(f"unexpected {text[reader.at]!r} at character {reader.at + 1}")
    return node


class _Reader:
    """Recursive descent; `at` is the next unread character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def _skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at] == " ":
            self.at += 1

    def _take(self, *wanted: str) -> str:
        """Take and return the first of `wanted` that stands here, else an empty text."""
        self._skip()
        for token in wanted:
            if self.text.startswith(token, self.at):
                end = self.at + len(token)
                if token[-1].isalpha() and self.text[end : end + 1].isalpha():
                    continue
                self.at = end
                return token
        return ""

    def sum(self, depth: int) -> Node:
        if depth > DEEPEST:
            raise Unreadable(f"more than {DEEPEST} brackets are open at once")
        terms = [self._signed(depth)]
        while sign := self._take("+", "-"):
            term = self._signed(depth)
            terms.append(Node("negate", (term,)) if sign == "-" else term)
        return terms[0] if len(terms) == 1 else Node("add", tuple(terms))

    def _signed(self, depth: int) -> Node:
        negative = self._negative()
        node = self.product(depth)
        return Node("negate", (node,)) if negative else node

    def _negative(self) -> bool:
        negative = False
        while sign := self._take("+", "-"):
            negative ^= sign == "-"
        return negative

    def product(self, depth: int) -> Node:
        factors = [self.power(depth)]
        divided = False
        while True:
            sign = self._take("*", "/", "\\cdot", "\\times", "\\div")
            if sign:
                negative = self._negative()
                factor = self.power(depth)
                factor = Node("negate", (factor,)) if negative else factor
                divided = sign in ("/", "\\div")
                factors.append(Node("invert", (factor,)) if divided else factor)
                continue
            self._skip()
            here = self.text[self.at : self.at + 1]
            if not here or not (here.isalpha() or here in "\\({") or self._stands("\\pm", "\\mp"):
                return factors[0] if len(factors) == 1 else Node("multiply", tuple(factors))
            if divided:
                raise Unreadable(f"a product without a sign after a division at character {self.at + 1} can be read in two ways")
            factors.append(self.power(depth))

    def _stands(self, *tokens: str) -> bool:
        return any(self.text.startswith(token, self.at) for token in tokens)

    def power(self, depth: int) -> Node:
        if depth > DEEPEST:
            raise Unreadable(f"more than {DEEPEST} brackets are open at once")
        base = self.postfix(depth)
        if not self._take("^"):
            return base
        negative = self._negative()
        exponent = self.power(depth + 1)
        return Node("power", (base, Node("negate", (exponent,)) if negative else exponent))

    def postfix(self, depth: int) -> Node:
        node = self.atom(depth)
        if self._take("!"):
            if self._stands("!"):
                raise Unreadable("a double factorial")
            return Node("factorial", (node,))
        return node

    def atom(self, depth: int) -> Node:
        self._skip()
        if self.at >= len(self.text):
            raise Unreadable("the expression ends where a value was expected")
        if self.text[self.at] in "({":
            return self._bracketed(depth, ")" if self._take("(", "{") == "(" else "}")
        if self.text[self.at] in ".0123456789":
            return self._number()
        function = _FUNCTION.match(self.text, self.at)
        if function is not None:
            self.at = function.end()
            return self._function(function.group(1), depth)
        if self._take("\\frac"):
            over = self._argument(depth)
            return Node("multiply", (over, Node("invert", (self._argument(depth),))))
        if self._take("\\sqrt", "sqrt"):
            index = self._bracketed(depth, "]") if self._take("[") else Node("number", value=Fraction(2))
            return Node("root", (self._argument(depth), index))
        if self._take("\\binom"):
            return Node("binomial", (self._argument(depth), self._argument(depth)))
        return self._symbol()

    def _bracketed(self, depth: int, closing: str) -> Node:
        node = self.sum(depth + 1)
        if not self._take(closing):
            raise Unreadable(f"{closing!r} is missing at character {self.at + 1}")
        return node

    def _argument(self, depth: int) -> Node:
        """What follows a command: a group, or a single digit, letter or command."""
        self._skip()
        if self.text[self.at : self.at + 1].isdigit():
            self.at += 1
            return Node("number", value=Fraction(int(self.text[self.at - 1])))
        return self.atom(depth + 1)

    def _function(self, name: str, depth: int) -> Node:
        base = ""
        if self._take("_"):
            node = self._argument(depth)
            if node.op not in ("number", "symbol"):
                raise Unreadable(f"{name} with a base that is neither a number nor a symbol")
            base = node.name if node.op == "symbol" else str(node.value)
        if self._take("^"):
            raise Unreadable(f"a power of the function {name}")
        self._skip()
        bracketed = self._stands("(", "{")
        return Node(name, (self.atom(depth + 1) if bracketed else self.power(depth + 1),), name=base)

    def _number(self) -> Node:
        repeating = _REPEATING.match(self.text, self.at)
        if repeating is not None:
            whole, fixed, period = repeating.groups()
            self._limit(whole + fixed + period)
            self.at = repeating.end()
            value = Fraction(int(whole + fixed or "0")) + Fraction(int(period), 10 ** len(period) - 1)
            return Node("number", value=value / 10 ** len(fixed))
        match = _NUMBER.match(self.text, self.at)
        if match is None:
            raise Unreadable(f"unexpected {self.text[self.at]!r} at character {self.at + 1}")
        digits = match.group()
        self._limit(digits)
        self.at = match.end()
        value = Fraction(digits)
        exponent = _EXPONENT.match(self.text, self.at)
        if exponent is not None:
            if len(exponent.group(1).lstrip("+-")) > 4:
                raise Unreadable(f"the exponent {exponent.group(1)[:9]} is too large")
            self.at = exponent.end()
            return Node("number", value=value * Fraction(10) ** int(exponent.group(1)))
        mixed = _MIXED.match(self.text, self.at) if digits.isdigit() else None
        if mixed is not None:
            over, under = (int(g) for g in mixed.groups() if g is not None)
            if 0 < over < under:
                self.at = mixed.end()
                return Node("number", value=value + Fraction(over, under))
            raise Unreadable(f"{digits} before the fraction {over}/{under} can be read in two ways")
        self._skip()
        if self.text[self.at : self.at + 1].isdigit():
            raise Unreadable(f"two numbers side by side at character {self.at + 1}")
        return Node("number", value=value)

    def _limit(self, digits: str) -> None:
        if len(digits) > _MOST_DIGITS:
            raise Unreadable(f"a number of {len(digits)} digits")

    def _refuse_words(self) -> None:
        """Letters side by side are a product only when they look like symbols: any two, or three of one group such as xyz."""
        run = _RUN.match(self.text, self.at)
        if run is None or self.text[self.at - 1 : self.at].isalpha() or run.group() in ("pi", "infty"):
            return
        symbols = len(run.group()) == 2 or any(set(run.group()) <= group for group in _SYMBOL_GROUPS)
        if not symbols or run.group().lower() in _SMALL_WORDS:
            raise Unreadable(f"the word {run.group()[:40]!r} at character {self.at + 1}")

    def _symbol(self) -> Node:
        self._refuse_words()
        match = _SYMBOL.match(self.text, self.at)
        if match is None:
            command = _COMMAND.match(self.text, self.at)
            raise Unreadable(f"unexpected {command.group() if command else self.text[self.at]!r} at character {self.at + 1}")
        self.at = match.end()
        name = match.group("greek") or match.group("plain") or match.group("letter")
        subscript = _SUBSCRIPT.match(self.text, self.at)
        if subscript is not None:
            self.at = subscript.end()
            name += "_" + (subscript.group(1) or subscript.group(2))
        return Node("symbol", name=name)
