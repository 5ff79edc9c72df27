"""Finds the final answer in a written solution, and says by which sign it was found.

Only text is looked at: nothing is parsed as mathematics here, and no reference is known. One pass, linear in the text.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple


class Sign(StrEnum):
    """By what the answer was recognised, most explicit first."""

    BOX = "box"
    """The last non-empty `\\boxed{...}`."""
    HASHES = "hashes"
    """The last line `#### ...` (GSM8K)."""
    PHRASE = "phrase"
    """After the last "answer is" or "answer:"."""


class Found(NamedTuple):
    """An answer as it was written, and its sign."""

    text: str
    sign: Sign


_BRACE = re.compile(r"\\(?:boxed|fbox)\s*\{|\\[\\{}]|[{}]")
_HASHES = re.compile(r"^[ \t]*####[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
_PHRASE = re.compile(r"\banswer(?:\s+is\b|\s+are\b|\s*=|\s*\*{0,2}:\*{0,2})\s*:?", re.IGNORECASE)
_BOLD = re.compile(r"(?<![\w)\]}])\*\*|\*\*(?![\w(\\])")
_SENTENCE_END = re.compile(r"\.(?=\s|\*|\$|$)|[,;]?\s+(?:so|which|because|since|thus|therefore|where|as)\b|!(?=\s+[A-Z])")


def final_answer(text: str) -> Found | None:
    """Return the final answer of a solution, or None when it states none.

    A box goes before `####`, and `####` before "answer is"; of several of a kind the last one counts. Empty boxes are not
    answers. When the last box is never closed the solution was cut, and nothing is guessed from an earlier one.

    >>> final_answer("First \\\\boxed{3}. No, wait. \\\\boxed{5}")
    Found(text='5', sign=<Sign.BOX: 'box'>)
    """
    box, cut = _last_box(text)
    if cut:
        return None
    if box is not None:
        return Found(box, Sign.BOX)
    lines = _HASHES.findall(text)
    if lines:
        return Found(lines[-1], Sign.HASHES)
    phrase = _after_phrase(text)
    return Found(phrase, Sign.PHRASE) if phrase else None


def _last_box(text: str) -> tuple[str | None, bool]:
    """Contents of the last outermost non-empty box, and whether a later box is left open."""
    stack: list[int] = []
    boxes = 0
    answer: str | None = None
    for match in _BRACE.finditer(text):
        token = match.group()
        if token == "}":
            if not stack:
                continue
            start = stack.pop()
            if start < 0:
                continue
            boxes -= 1
            content = text[start : match.start()].strip()
            if content and boxes == 0:
                answer = content
        elif token.startswith(("\\b", "\\f")):
            stack.append(match.end())
            boxes += 1
        elif token == "{":
            stack.append(-1)
    return answer, boxes > 0


def _after_phrase(text: str) -> str:
    """The rest of the sentence after the last "answer is", or an empty text."""
    ends = [match.end() for match in _PHRASE.finditer(text)]
    if not ends:
        return ""
    rest = text[ends[-1] :].lstrip(" \t\r\n*:$")
    line = _BOLD.sub("", rest.partition("\n")[0])
    end = _SENTENCE_END.search(line)
    return (line[: end.start()] if end else line).strip(" \t*")
