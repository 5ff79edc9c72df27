"""Reads the fields that the rows of every task share. Knows no task."""

from __future__ import annotations

from collections.abc import Mapping

from treewise.search.types import InputError


def row_id(row: Mapping[str, object]) -> str:
    """Return the row's `id`: a text that is not blank, or an integer. Raises InputError naming the field and value."""
    if "id" not in row or row["id"] is None:
        fields = ", ".join(map(str, row)) or "none"
        raise InputError(f"a problem has no 'id' (its fields: {fields})", "Give every problem its own id")
    value = row["id"]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"'id' is {value!r}", "Use a text that is not blank, or an integer")
    return unicode_text(value, where="'id'")


def unicode_text(text: str, *, where: str) -> str:
    """Return `text` unchanged. Raises InputError when it holds a lone surrogate, which no tokenizer can encode."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        bad = f"{where} has {text[error.start]!r} at character {error.start + 1}, which is not Unicode text"
        raise InputError(bad, "Remove the lone surrogate") from error
    return text
