"""Reads a written answer as a form: a value with a unit, a list, a set, a tuple or interval, a matrix, an equation, or a text.

Every answer has a form, since what cannot be read is a Text. Nothing is compared here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from treewise.value.answer_parsing import FUNCTIONS, Node, Unreadable, read_expression
from treewise.value.answer_text import matching, plain, split_outside

LONGEST = 1500
"""Longest answer, in characters, that is read as mathematics."""

_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Value:
    """An expression, with a unit or an empty text."""

    node: Node
    unit: str


@dataclass(frozen=True, slots=True)
class Group:
    """Several answers without order: a set, or a list of solutions."""

    items: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """Ordered items in brackets: a point, a vector or an interval."""

    opening: str
    closing: str
    items: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of items."""

    rows: tuple[tuple[Form, ...], ...]


@dataclass(frozen=True, slots=True)
class Equation:
    """Two sides."""

    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Text:
    """Anything else, cleaned."""

    text: str
    why: str
    """Why it is not read as mathematics."""


Form: TypeAlias = Value | Group | Row | Matrix | Equation | Text

_MATRIX = re.compile(r"\\begin\{([pbBvV]?matrix)\}(.*)\\end\{\1\}", re.DOTALL)
_COMMA = re.compile(r"[,;]")
_THOUSANDS = re.compile(r"(?<![\d.])[+-]?\d{1,3}(?:,\d{3})+(?!,?\d)(?!,)")
_WHOLE_THOUSANDS = re.compile(rf"({_THOUSANDS.pattern})(?:\.\d+)?(?: ?(?:\\?%|[A-Za-z\\].*))?")
_WORD_SEPARATOR = re.compile(r"\s*(?:\\text\{ ?)?\b(?:and|or)\b(?: ?\})?\s*")
_CUP = re.compile(r"\\cup(?![A-Za-z])")
_PLUS_MINUS = re.compile(r"\\pm(?![A-Za-z])|\\mp(?![A-Za-z])|\+/-")
_RELATION = re.compile(r"[<>:]|\.\.\.|\\(?:le|ge|leq|geq|ne|neq|approx|sim|equiv|in|lt|gt|mid|[lc]?dots)(?![A-Za-z])")
_BASE = re.compile(r"[0-9A-Fa-f]+_(?:\{?[0-9]+\}?|\{?\\text\{[a-z]+\}\}?)")
_EQUALS = re.compile(r"=")
_WORDS = re.compile(r"[A-Za-z][A-Za-z' -]*")
_UNIT_POWER = r"(\^ ?(?:\{ ?-?\d ?\}|-?\d))?"
_TEXT_UNIT = re.compile(r"(.*[^\s\\])\s*\\(?:text|mathrm|mbox|textrm|textbf)\s*\{([^{}]*)\}\s*" + _UNIT_POWER, re.DOTALL)
_WORD_UNIT = re.compile(r"(.*[0-9)}!])( ?)([A-Za-z]+(?:[ /-][A-Za-z]+)*)" + _UNIT_POWER, re.DOTALL)
_PERCENT = re.compile(r"(.*\S)\s*(?:%|\\text\{ ?(?:%|percent) ?\})|(.*\S) percent", re.DOTALL)
_UNITS = frozenset(["cm", "mm", "km", "kg", "mg", "ml", "ft", "in", "mi", "lb", "oz", "hr", "min", "sec", "mph", "kph", "am"])
_KNOWN_WORDS = frozenset((*FUNCTIONS, "pi", "sqrt", "frac", "infty"))
_SAME_UNIT = {
    "centimeter": "cm", "millimeter": "mm", "meter": "m", "metre": "m", "kilometer": "km", "kilogram": "kg", "gram": "g",
    "hr": "hour", "minute": "min", "second": "sec", "inche": "in", "inch": "in", "feet": "ft", "foot": "ft", "mile": "mi",
    "dollar": "", "pound": "lb", "degree": "degree", "liter": "l", "litre": "l",
}  # fmt: skip


def read_forms(text: str) -> tuple[Form, ...]:
    """Return the form of an answer; two when it can be read as one number with thousands separators and as a list.

    Never raises: what cannot be read is a Text with the reason.
    """
    clean = plain(text) if len(text) <= LONGEST else text.strip()
    if len(clean) > LONGEST:
        return (Text(clean, f"it has more than {LONGEST} characters"),)
    form = _form(clean, 0)
    if _WHOLE_THOUSANDS.fullmatch(clean) and not clean.startswith("0"):
        return _form(clean.replace(",", ""), 0), form
    return (form,)


def unit_name(unit: str) -> str:
    """Return one spelling for a unit: singular, short, powers as digits; an empty text for money."""
    words = re.sub(r"[{}^.]", " ", unit.replace("square ", "2 ").replace("cubic ", "3 ")).lower().split()
    names = [_SAME_UNIT.get(w, w) for w in (w[:-1] if len(w) > 2 and w.endswith("s") else w for w in words)]
    return " ".join(sorted(n for n in names if n))


def _form(text: str, depth: int) -> Form:
    text = text.strip()
    if depth > _DEEPEST:
        return Text(text, "it is nested too deeply")
    if not text:
        return Text(text, "it is empty")
    matrix = _MATRIX.fullmatch(text)
    if matrix is not None:
        rows = [row for row in re.split(r"\\\\", matrix.group(2)) if row.strip()]
        return Matrix(tuple(tuple(_form(plain(cell), depth + 1) for cell in row.split("&")) for row in rows))
    if _RELATION.search(text) or _BASE.fullmatch(text):
        return Text(text, "it is a relation, a ratio, a sequence or a number in another base")
    if len(parts := split_outside(text, _CUP)) > 1:
        return _group(parts, depth)
    if text.startswith("\\{") and text.endswith("\\}") and matching(text, 1) == len(text) - 1:
        return _group(_items(text[2:-2].strip()), depth)
    if len(parts := _items(text)) > 1:
        return _group(parts, depth)
    if text[0] in "([" and matching(text, 0) == len(text) - 1:
        inner = split_outside(text[1:-1], _COMMA)
        if len(inner) > 1:
            return Row(text[0], text[-1], tuple(_form(plain(part), depth + 1) for part in inner))
        if text[0] == "(" and text[-1] == ")":
            return _form(inner[0], depth + 1)
    sides = split_outside(text, _EQUALS)
    try:
        if len(sides) == 2:
            return Equation(read_expression(sides[0].strip()), _value(sides[1].strip()).node)
        if len(split_outside(text, _PLUS_MINUS)) == 2:
            return Group(tuple(_value(sign.join(split_outside(text, _PLUS_MINUS))) for sign in ("+", "-")))
        return _value(text)
    except Unreadable as unreadable:
        return Text(text, str(unreadable))


def _group(parts: list[str], depth: int) -> Form:
    return Group(tuple(_form(plain(part), depth + 1) for part in parts))


def _items(text: str) -> list[str]:
    """Parts of a list: between commas, "and" and "or"; numbers such as 1,000 stay whole when other commas have spaces."""
    parts = [part for part in split_outside(text, _WORD_SEPARATOR) if part.strip()]
    others = _THOUSANDS.sub(lambda m: m.group().replace(",", ""), text)
    spaced = all(others[m.end() : m.end() + 1] == " " for m in _COMMA.finditer(others))
    if spaced and (", " in text or len(parts) > 1):
        parts = [_THOUSANDS.sub(lambda m: m.group().replace(",", ""), part) for part in parts]
    return [item for part in parts for item in split_outside(part, _COMMA) if item.strip()]


def _value(text: str) -> Value:
    """The value with its unit taken off. Raises Unreadable."""
    if _WORDS.fullmatch(text) and len(text) > 2 and text not in _KNOWN_WORDS:
        raise Unreadable("it is a word")
    core, unit = _without_unit(text)
    return Value(read_expression(core.strip()), unit)


def _without_unit(text: str) -> tuple[str, str]:
    percent = _PERCENT.fullmatch(text)
    if percent is not None:
        return percent.group(1) or percent.group(2), "%"
    marked = _TEXT_UNIT.fullmatch(text)
    if marked is not None:
        return marked.group(1), marked.group(2).strip() + (marked.group(3) or "")
    worded = _WORD_UNIT.fullmatch(text)
    if worded is not None:
        core, space, words, power = worded.groups()
        first = re.split(r"[ /-]", words)[0].lower()
        known = first in _UNITS or len(first) >= 4 or (bool(space) and len(first) == 3)
        if known and not first.startswith(tuple(_KNOWN_WORDS - {"in", "sec"})):
            return core, words + (power or "")
    return text, ""
