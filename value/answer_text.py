"""Brings a written answer into one plain spelling: LaTeX dressing, signs, digits and currencies. Knows no mathematics."""

from __future__ import annotations

import re
import unicodedata

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_SUPERSCRIPT_RUN = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+")
_VULGAR = re.compile("[½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒]")
_ROOT = re.compile(r"√\s*(\d+|[A-Za-z]|(?=[({]))")
_SIGNS = {
    "−": "-", "–": "-", "—": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "∙": r"\cdot ", "÷": r"\div ",
    "π": r"\pi ", "∞": r"\infty ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "°": r"^{\circ}",
    "±": r"\pm ", "∪": r"\cup ", "∩": r"\cap ", "…": r"\ldots ", r"\%": "%", "\u00a0": " ", "⁄": "/", "**": "^",
}  # fmt: skip
_DROPPED = re.compile(
    r"\\(?:left|right|displaystyle|textstyle|limits|[bB]igg?[lr]?)(?![A-Za-z])|(?<!\\)\\[,;:!]|\\(?:quad|qquad)(?![A-Za-z])"
)
_RENAMED = re.compile(r"\\[dtc]frac(?![A-Za-z])")
_LETTER = re.compile(r"\\(?:mathrm|mathit|operatorname|rm|text|mathbf)\s*\{\s*([ei])\s*\}")
_CURRENCY = re.compile(r"\\\$|[$£€¥]|\bUSD\b|\\\(|\\\)|\\\[|\\\](?!\w)")
_THOUSANDS = re.compile(r"(?<=\d)\{,\}(?=\d{3})")
_SPACES = re.compile(r"(?:\s|~|(?<!\\)\\(?= ))+")
_MOST_WRAPPINGS = 20
_FINAL_STOP = re.compile(r"(?<!\.)[ .,;]$")
_WRAPPED = re.compile(r"\\(?:boxed|fbox|text|textbf|mathbf|textrm|mathrm|mbox|bf)\s*\{(.*)\}", re.DOTALL)
_DEGREES = re.compile(r"\^\s*(?:\\circ|\{\s*\\circ\s*\})(?:\s*[CF]\b)?")


def plain(text: str) -> str:
    r"""Return the answer without dressing: no `$`, `\left`, `\dfrac`, full-width digits, outer `\text{}` or final full stop.

    >>> plain(r"$\dfrac{9}{7}$.")
    '\\frac{9}{7}'
    """
    text = _SUPERSCRIPT_RUN.sub(lambda m: "^{" + m.group().translate(_SUPERSCRIPTS) + "}", text)
    text = _VULGAR.sub(_vulgar, text)
    text = _ROOT.sub(lambda m: rf"\sqrt{{{m.group(1)}}}" if m.group(1) else r"\sqrt", text)
    for sign, spelled in _SIGNS.items():
        text = text.replace(sign, spelled)
    text = unicodedata.normalize("NFKC", text)
    text = _RENAMED.sub(r"\\frac", text)
    text = _THOUSANDS.sub(",", text)
    text = _LETTER.sub(r"\1", text)
    text = _CURRENCY.sub(" ", text)
    text = _DROPPED.sub("", text)
    text = _DEGREES.sub(r"\\text{degree}", text)
    text = _SPACES.sub(" ", text).strip()
    for _ in range(_MOST_WRAPPINGS):
        shorter = _unwrap(_FINAL_STOP.sub("", text).strip("* "))
        if shorter == text:
            break
        text = shorter
    return text


def matching(text: str, start: int) -> int:
    """Return the index of the bracket that closes the one at `start`, or -1. A half-open interval closes with either kind."""
    depth = 0
    for at in range(start, len(text)):
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}":
            depth -= 1
            if depth == 0:
                return at
    return -1


def split_outside(text: str, separator: re.Pattern[str]) -> list[str]:
    """Return the parts of `text` between separators that stand outside all brackets."""
    depth, depths = 0, []
    for letter in text:
        depth += letter in "([{"
        depths.append(depth)
        depth -= letter in ")]}"
    parts, last = [], 0
    for match in separator.finditer(text):
        if depths[match.start()] == 0:
            parts.append(text[last : match.start()])
            last = match.end()
    return [*parts, text[last:]]


def _vulgar(match: re.Match[str]) -> str:
    over, _, under = unicodedata.normalize("NFKC", match.group()).partition("⁄")
    return rf"\frac{{{over}}}{{{under}}}"


def _unwrap(text: str) -> str:
    """Remove one outer `\\boxed{}` or `\\text{}`, or one pair of braces."""
    wrapped = _WRAPPED.fullmatch(text)
    if wrapped is not None and matching(text, wrapped.start(1) - 1) == len(text) - 1:
        return wrapped.group(1).strip()
    if text.startswith("{") and matching(text, 0) == len(text) - 1:
        return text[1:-1].strip()
    return text
