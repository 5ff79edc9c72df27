"""Traces in Parquet: one row a trace, the head as plain columns, the nodes as parallel list columns `node_*`.

Any Parquet reader opens these files without Treewise. A number that a trace lacks (NaN) is null. Files appear whole or not
at all, with a checksum for every page. This file knows no search. pyarrow is loaded with the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from treewise.search.atomic_file import atomic_file
from treewise.search.trace import TRACE_VERSION, Origin, Outcome, Trace
from treewise.search.trace_nodes import NodeTable
from treewise.search.types import Bill, Problem, SearchEnd, TraceError, Verdict, VerdictKind

if TYPE_CHECKING:
    import pyarrow as pa

Word = TypeVar("Word", SearchEnd, VerdictKind)

SHARD_PATTERN = "traces-*.parquet"
"""Names of the files that a folder of traces consists of."""
TRACES_PER_ROW_GROUP = 64

NUMBER_COLUMNS = {
    "node_parent": "parent",
    "node_depth": "depth",
    "node_prior": "prior",
    "node_multiplicity": "multiplicity",
    "node_visits": "visits",
    "node_mean": "mean",
    "node_best": "best",
    "node_value": "value",
    "node_proven": "proven",
    "node_exhausted": "exhausted",
}
"""Column in the file and field of `NodeTable`: one number a node."""
WORD_COLUMNS = {
    "node_text": "texts",
    "node_finish": "finish",
    "node_standing": "standing",
    "node_reason": "reasons",
    "node_answer": "answers",
}
"""One text or null a node."""
ROW_COLUMNS = {
    "node_ids": ("ids", "id_offsets"),
    "node_logprobs": ("logprobs", "id_offsets"),
    "node_outputs": ("outputs", "output_offsets"),
}
"""A list of numbers a node, with the field that cuts it."""


ADDED_TO_BILL = "cancelled_tokens"
"""Field of the bill that earlier files of version 1 lack; it is 0 there."""


@cache
def schema() -> pa.Schema:
    """Return the Arrow schema of version 1."""
    import pyarrow as pa

    def required(name: str, kind: pa.DataType) -> pa.Field:
        return pa.field(name, kind, nullable=False)

    counts = ("policy_tokens", "evaluator_tokens", "prompt_tokens", "cached_tokens", "rounds")
    outcomes = ("simulations", "duplicates", "unfinished", "dropped", ADDED_TO_BILL)
    bill = [*((name, pa.int64()) for name in counts), ("seconds", pa.float64()), *((name, pa.int64()) for name in outcomes)]
    return pa.schema(
        [
            required("version", pa.int32()),
            required("problem_id", pa.string()),
            required("problem_text", pa.string()),
            required("numbers", pa.list_(pa.int64())),
            pa.field("target", pa.int64()),
            required("task", pa.string()),
            required("method", pa.string()),
            required("config", pa.string()),
            required("config_hash", pa.string()),
            required("seed", pa.int64()),
            required("policy", pa.string()),
            required("evaluator", pa.string()),
            required("library_version", pa.string()),
            pa.field("answer", pa.string()),
            pa.field("answer_node", pa.int32()),
            pa.field("answer_value", pa.float64()),
            required("end", pa.string()),
            required("reason", pa.string()),
            pa.field("error", pa.string()),
            required("bill", pa.struct(bill)),
            pa.field("verdict", pa.string()),
            pa.field("verdict_reason", pa.string()),
            required("node_parent", pa.list_(pa.int32())),
            required("node_depth", pa.list_(pa.int32())),
            required("node_ids", pa.list_(pa.list_(pa.int32()))),
            required("node_logprobs", pa.list_(pa.list_(pa.float32()))),
            required("node_text", pa.list_(pa.string())),
            required("node_prior", pa.list_(pa.float32())),
            required("node_multiplicity", pa.list_(pa.int32())),
            required("node_visits", pa.list_(pa.int32())),
            required("node_mean", pa.list_(pa.float64())),
            required("node_best", pa.list_(pa.float32())),
            required("node_value", pa.list_(pa.float32())),
            required("node_outputs", pa.list_(pa.list_(pa.float32()))),
            required("node_finish", pa.list_(pa.string())),
            required("node_standing", pa.list_(pa.string())),
            required("node_reason", pa.list_(pa.string())),
            required("node_answer", pa.list_(pa.string())),
            required("node_proven", pa.list_(pa.bool_())),
            required("node_exhausted", pa.list_(pa.bool_())),
        ]
    )


def write_traces(path: str | Path, traces: Iterable[Trace]) -> None:
    """Write traces to one file, which appears whole or not at all; an older file is replaced.

    Raises:
        InputError: the file cannot be written; the message names it.
    """
    import pyarrow as pa
    from pyarrow import parquet

    rest = iter(traces)
    with atomic_file(path) as file, parquet.ParquetWriter(file, schema(), compression="zstd", write_page_checksum=True) as writer:
        while group := [_to_row(trace) for trace in islice(rest, TRACES_PER_ROW_GROUP)]:
            writer.write_table(pa.Table.from_batches(group, schema=schema()).combine_chunks())


def read_traces(path: str | Path) -> list[Trace]:
    """Return the traces of a file, or of all `traces-*.parquet` of a folder in the order of their names.

    Raises:
        TraceError: the file is missing, torn, damaged, no trace file, or of a newer version; the message names it.
    """
    return list(iterate_traces(path))


def iterate_traces(path: str | Path) -> Iterator[Trace]:
    """Yield the traces of `read_traces` with only some of them in memory. Raises TraceError as that does."""
    place = Path(path)
    files = sorted(place.glob(SHARD_PATTERN)) if place.is_dir() else [place]
    if not files:
        raise TraceError(f"{place} holds no {SHARD_PATTERN}", "give a folder written by a finished or interrupted run")
    for file in files:
        yield from _read_file(file)


def _to_row(trace: Trace) -> pa.RecordBatch:
    import pyarrow as pa

    head, nodes = trace.head(), trace.nodes
    columns = {name: pa.array([head[name]], schema().field(name).type) for name in schema().names if name in head}
    whole = pa.array([0, len(nodes)], pa.int32())
    for name, field in NUMBER_COLUMNS.items():
        columns[name] = pa.ListArray.from_arrays(whole, pa.array(getattr(nodes, field), from_pandas=True))
    for name, field in WORD_COLUMNS.items():
        columns[name] = pa.ListArray.from_arrays(whole, pa.array(getattr(nodes, field), pa.string()))
    for name, (field, cut) in ROW_COLUMNS.items():
        offsets = pa.array(getattr(nodes, cut)).cast(pa.int32())
        rows = pa.ListArray.from_arrays(offsets, pa.array(getattr(nodes, field), from_pandas=True))
        columns[name] = pa.ListArray.from_arrays(whole, rows)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema().names], schema=schema())


def _read_file(path: Path) -> Iterator[Trace]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            reader = _reader(file)
            for batch in file.iter_batches(TRACES_PER_ROW_GROUP):
                yield from reader(batch)
    except FileNotFoundError as error:
        raise TraceError(f"there is no {path}", "give a Parquet file of traces, or a folder of them") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise TraceError(f"cannot read {path}: {error}", "the file is torn, damaged or no trace file: write it again") from error
    except TraceError as error:
        raise TraceError(f"{path}: {error.message}", error.remedy) from error


def _reader(file: pa.ParquetFile) -> Callable[[pa.RecordBatch], Iterator[Trace]]:
    if "version" not in file.schema_arrow.names:
        raise TraceError("there is no column 'version'", "give a file that Treewise wrote")
    versions = set(file.read(["version"]).column("version").to_pylist()) or {TRACE_VERSION}
    for version in versions:
        if version not in READERS:
            raise TraceError(
                f"trace schema version {version} is not known, only {', '.join(map(str, READERS))}",
                "it is from a newer Treewise: upgrade with pip install --upgrade treewise",
            )
    readers = {READERS[version] for version in versions}
    if len(readers) > 1:
        raise TraceError(f"trace schema versions {sorted(versions)} are mixed in one file", "write one file a version")
    return readers.pop()


def _read_version_1(batch: pa.RecordBatch) -> Iterator[Trace]:
    import pyarrow as pa

    columns = {}
    for field in schema():
        if field.name not in batch.schema.names:
            raise TraceError(f"there is no column {field.name!r}", "give a file that Treewise wrote")
        try:
            columns[field.name] = _cast(batch.column(field.name), field)
        except pa.ArrowException as error:
            raise TraceError(f"column {field.name!r} is no {field.type}: {error}", "give a file that Treewise wrote") from error
        if not field.nullable and columns[field.name].null_count:
            raise TraceError(f"column {field.name!r} has an empty cell", "give a file that Treewise wrote")
    for row in range(batch.num_rows):
        cells = {name: column[row] for name, column in columns.items()}
        try:
            yield _read_row(cells)
        except TraceError as error:
            raise TraceError(f"problem {cells['problem_id'].as_py()!r}: {error.message}", error.remedy) from error


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    import pyarrow as pa

    kind = field.type
    if field.name == "bill" and pa.types.is_struct(column.type) and column.type.get_field_index(ADDED_TO_BILL) < 0:
        kind = pa.struct([part for part in kind if part.name != ADDED_TO_BILL])
    return column.cast(kind)


def _read_row(cells: dict[str, pa.Scalar]) -> Trace:
    head = {name: cell.as_py() for name, cell in cells.items() if not name.startswith("node_")}
    verdict = None
    if head["verdict"] is not None:
        verdict = Verdict(_word(VerdictKind, "verdict", head["verdict"]), head["verdict_reason"] or "")
    return Trace(
        problem=Problem(head["problem_id"], head["problem_text"], tuple(head["numbers"]), head["target"]),
        origin=Origin(**{f.name: head[f.name] for f in fields(Origin)}),
        outcome=Outcome(
            text=head["answer"],
            node=head["answer_node"],
            value=head["answer_value"],
            end=_word(SearchEnd, "end", head["end"]),
            reason=head["reason"],
            error=head["error"],
            bill=Bill(**head["bill"]),
        ),
        nodes=_read_nodes(cells),
        verdict=verdict,
    )


def _read_nodes(cells: dict[str, pa.Scalar]) -> NodeTable:
    values = {field: _numbers(name, cells[name].values) for name, field in NUMBER_COLUMNS.items()}
    words = {field: tuple(cells[name].values.to_pylist()) for name, field in WORD_COLUMNS.items()}
    for name in ("node_text", "node_standing", "node_reason"):
        for node, word in enumerate(words[WORD_COLUMNS[name]]):
            if word is None:
                raise TraceError(f"node {node} has an empty {name}", "give a file that Treewise wrote")
    cuts: dict[str, NDArray[np.int64]] = {}
    for name, (field, cut) in ROW_COLUMNS.items():
        rows = cells[name].values
        if rows.null_count:
            raise TraceError(f"column {name!r} has an empty cell", "give a file that Treewise wrote")
        offsets = np.concatenate([[0], np.cumsum(rows.value_lengths().to_numpy(zero_copy_only=False))]).astype(np.int64)
        values[field] = _numbers(name, rows.flatten())
        known = cuts.setdefault(cut, offsets)
        common = min(len(known), len(offsets))
        for end in np.flatnonzero(known[:common] != offsets[:common])[:1]:
            raise TraceError(f"node {end - 1} has lists of different length in node_ids and {name}", "the file is damaged")
    return NodeTable.of_columns(**values, **words, **cuts)


def _numbers(name: str, column: pa.Array) -> NDArray[np.generic]:
    if column.null_count and not str(column.type).startswith(("float", "double")):
        raise TraceError(f"column {name!r} has an empty cell", "give a file that Treewise wrote")
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _word(kind: type[Word], name: str, word: str) -> Word:
    try:
        return kind(word)
    except ValueError as error:
        raise TraceError(f"{name} is {word!r}", f"known are {', '.join(kind)}") from error


READERS: dict[int, Callable[[pa.RecordBatch], Iterator[Trace]]] = {1: _read_version_1}
"""How each version of the schema is read."""
