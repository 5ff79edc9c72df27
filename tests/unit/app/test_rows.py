"""Rows of problem files: each unreadable row is its own error, with its place."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from treewise.app.rows import Row, read_rows
from treewise.search.types import InputError


def written(folder: Path, content: bytes) -> str:
    path = folder / "p.jsonl"
    path.write_bytes(content)
    return str(path)


def test_lines_keep_their_numbers_across_blank_ones(tmp_path: Path) -> None:
    rows = read_rows(written(tmp_path, b'\xef\xbb\xbf{"id": "a"}\r\n\n  \n{"id": "\xe4\xb8\xad\xe2\x80\xa8"}'))
    assert rows == [Row("line 1", {"id": "a"}), Row("line 4", {"id": "中\u2028"})]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"id": "\xff"}', "not UTF-8: byte 0xff at byte 9"),
        (b'{"id": "a"', "not JSON"),
        (b"[1, 2]", "a JSON array in place of an object"),
        (b"null", "a JSON null"),
        (b'"text"', "a JSON string"),
        (b"true", "a JSON boolean"),
        (b"3", "a JSON number"),
        (b'{"target": NaN}', "NaN is no JSON number"),
        (b'{"target": -Infinity}', "-Infinity is no JSON number"),
        (b'{"id": "a", "id": "b"}', "'id' stands twice"),
        (b'{"target": ' + b"9" * 5000 + b"}", "not usable JSON"),
        (b"[" * 100_000, "not"),
    ],
)
def test_an_unreadable_line_leaves_the_others(line: bytes, said: str, tmp_path: Path) -> None:
    first, bad, last = read_rows(written(tmp_path, b'{"id": "a"}\n' + line + b'\n{"id": "c"}\n'))
    assert (first.content, last.content) == ({"id": "a"}, {"id": "c"})
    assert bad.where == "line 2"
    assert isinstance(bad.content, InputError)
    assert said in str(bad.content)
    assert bad.content.remedy


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_an_error(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is empty"):
        read_rows(written(tmp_path, content))


def test_files_that_cannot_be_opened_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_rows(str(tmp_path / "none.jsonl"))
    with pytest.raises(InputError, match="directory"):
        read_rows(str(tmp_path))
    with pytest.raises(InputError, match="No such file"):
        read_rows(str(tmp_path / "none.parquet"))


def test_standard_input_is_read_as_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"id": "a"}\n')))
    assert read_rows("-") == [Row("line 1", {"id": "a"})]


def test_parquet_rows_have_the_same_fields_without_nulls(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table({"id": ["a", None], "numbers": [[3, 8], [5]], "target": [24, None]}), path)
    assert read_rows(str(path)) == [Row("row 1", {"id": "a", "numbers": [3, 8], "target": 24}), Row("row 2", {"numbers": [5]})]


def test_parquet_text_that_is_not_utf8_is_one_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    ids = pa.Array.from_buffers(pa.string(), 2, pa.array([b"a", b"\xff"]).buffers())
    pq.write_table(pa.table({"id": ids}), path)
    good, bad = read_rows(str(path))
    assert good.content == {"id": "a"}
    assert isinstance(bad.content, InputError)
    assert "not UTF-8" in str(bad.content)


def test_torn_and_empty_parquet_files_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    path.write_bytes(b"PAR1 and then nothing")
    with pytest.raises(InputError, match="no Parquet file"):
        read_rows(str(path))
    pq.write_table(pa.table({"id": pa.array([], pa.string())}), path)
    with pytest.raises(InputError, match="is empty"):
        read_rows(str(path))
