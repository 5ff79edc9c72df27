"""Rows of a problem file, each with the place it stands in; an unreadable row is an error of its own, not of the file.

JSON lines (UTF-8, one object a line, blank lines skipped) and Parquet. This file knows no task.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from treewise.search.types import InputError

if TYPE_CHECKING:
    import pyarrow as pa


class Row(NamedTuple):
    """One row of a file."""

    where: str
    """The place in the file: "line 3" or "row 3", counted from 1."""
    content: dict[str, object] | InputError
    """Its fields, or why it cannot be read."""


def read_rows(path: str) -> list[Row]:
    """Return all rows of a .jsonl or .parquet file, or of standard input for "-".

    Raises InputError when the file cannot be read at all or holds no row.
    """
    try:
        if path == "-":
            rows = list(_json_rows(sys.stdin.buffer.read()))
        elif Path(path).suffix.lower() == ".parquet":
            rows = list(_parquet_rows(path))
        else:
            rows = list(_json_rows(Path(path).read_bytes()))
    except OSError as error:
        raise InputError(f"problems {path!r} cannot be read: {error.strerror or error}", "check the path") from error
    if not rows:
        raise InputError(f"problems {name_of(path)!r} is empty", "give a file with one problem a line")
    return rows


def name_of(path: str) -> str:
    """How messages call a problem file."""
    return "standard input" if path == "-" else path


def _json_rows(content: bytes) -> Iterator[Row]:
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line.strip():
            yield Row(f"line {number}", _json_object(line))


def _json_object(line: bytes) -> dict[str, object] | InputError:
    try:
        value = json.loads(line.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)
    except UnicodeDecodeError as error:
        return InputError(
            f"text is not UTF-8: byte 0x{line[error.start]:02x} at byte {error.start + 1} of the line", "save the file as UTF-8"
        )
    except json.JSONDecodeError as error:
        return InputError(f"not JSON: {error.msg} at character {error.pos + 1}", "give one JSON object a line")
    except ValueError as error:
        return InputError(f"not usable JSON: {error}", "give one JSON object a line")
    except RecursionError:
        return InputError("not usable JSON: nested too deeply", "give one flat JSON object a line")
    if not isinstance(value, dict):
        return InputError(
            f"a JSON {_json_kind(value)} in place of an object", 'give one JSON object a line, such as {"id": "a", ...}'
        )
    return value


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return row


def _json_kind(value: object) -> str:
    if value is None:
        return "null"
    kinds: dict[type, str] = {list: "array", str: "string", bool: "boolean", int: "number", float: "number"}
    return kinds[type(value)]


def _parquet_rows(path: str) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open(path, "rb") as file:
            table = pq.read_table(file)
    except pa.ArrowException as error:
        raise InputError(f"problems {path!r} is no Parquet file: {error}", "give a .parquet or .jsonl file") from error
    for k in range(table.num_rows):
        yield Row(f"row {k + 1}", _parquet_object(table, k))


def _parquet_object(table: pa.Table, k: int) -> dict[str, object] | InputError:
    row = {}
    for name in table.column_names:
        try:
            value = table.column(name)[k].as_py()
        except UnicodeDecodeError:
            return InputError(f"column {name!r} holds text that is not UTF-8", "save it as UTF-8")
        if value is not None:
            row[name] = value
    return row
