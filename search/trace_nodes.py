"""The node table of a trace: struct of arrays, one row a node, parents before children, node 0 the prompt.

It holds what the search left, checked once when it is built. It knows no search method, no file format and no head.
The ids along a path, concatenated, are what the model saw; text is a view of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treewise.search.types import Finish, Ids, Standing, TraceError

ROOT = 0
NO_PARENT = -1

COLUMN_TYPES: dict[str, type[np.generic]] = {
    "parent": np.int32,
    "depth": np.int32,
    "ids": np.int32,
    "id_offsets": np.int64,
    "logprobs": np.float32,
    "prior": np.float32,
    "multiplicity": np.int32,
    "visits": np.int32,
    "mean": np.float64,
    "best": np.float32,
    "value": np.float32,
    "outputs": np.float32,
    "output_offsets": np.int64,
    "proven": np.bool_,
    "exhausted": np.bool_,
}
"""Numeric columns and their types."""

_SURROGATES = re.compile("[\ud800-\udfff]")
_REMEDY = "this is a fault of whoever built the trace: report it with the run's settings"


@dataclass(frozen=True, slots=True, eq=False)
class NodeTable:
    """N nodes with T token ids and M evaluator outputs. Arrays are private copies and read-only.

    Raises:
        TraceError: lengths differ, offsets do not rise from 0 to the length of what they cut, a parent does not come
            before its child, or a number does not fit its column; the message names the node.
    """

    parent: NDArray[np.int32]
    """[N] node id of the parent, always lower than the node's own; -1 for the prompt."""
    depth: NDArray[np.int32]
    """[N] steps from the prompt."""
    ids: NDArray[np.int32]
    """[T] token ids that each node adds, end to end."""
    id_offsets: NDArray[np.int64]
    """[N + 1] node i added `ids[id_offsets[i]:id_offsets[i + 1]]`."""
    logprobs: NDArray[np.float32]
    """[T] behaviour log-probability of each id, nats; NaN where there is none (the prompt)."""
    texts: tuple[str, ...]
    """[N] decoded ids; lone surrogates are replaced by U+FFFD."""
    prior: NDArray[np.float32]
    """[N] probability among the siblings."""
    multiplicity: NDArray[np.int32]
    """[N] how often this step was generated."""
    visits: NDArray[np.int32]
    """[N] simulations through the node."""
    mean: NDArray[np.float64]
    """[N] mean of the backed-up values; NaN if unvisited."""
    best: NDArray[np.float32]
    """[N] best value below; NaN if there is none."""
    value: NDArray[np.float32]
    """[N] the evaluator's own value; NaN if it gave none."""
    outputs: NDArray[np.float32]
    """[M] the evaluator's raw numbers, end to end."""
    output_offsets: NDArray[np.int64]
    """[N + 1] cuts of `outputs`, as `id_offsets`."""
    finish: tuple[Finish | None, ...]
    """[N] why the step ended; None for the prompt. An empty string is read as None."""
    standing: tuple[Standing, ...]
    """[N] what the task said of the path."""
    reasons: tuple[str, ...]
    """[N] why the path is dead; empty otherwise."""
    answers: tuple[str | None, ...]
    """[N] the final answer of a finished path."""
    proven: NDArray[np.bool_]
    """[N] the task itself showed the answer to be right."""
    exhausted: NDArray[np.bool_]
    """[N] nothing below is left to search."""

    def __post_init__(self) -> None:
        for name, dtype in COLUMN_TYPES.items():
            object.__setattr__(self, name, numeric_column(name, getattr(self, name), dtype))
        object.__setattr__(self, "texts", tuple(clean_text(text) for text in self.texts))
        object.__setattr__(self, "reasons", tuple(clean_text(text) for text in self.reasons))
        object.__setattr__(self, "answers", tuple(None if text is None else clean_text(text) for text in self.answers))
        object.__setattr__(self, "finish", tuple(_read_finish(node, word) for node, word in enumerate(self.finish)))
        object.__setattr__(self, "standing", tuple(_read_standing(node, word) for node, word in enumerate(self.standing)))
        self._check_lengths()
        _check_offsets("id_offsets", self.id_offsets, len(self.ids))
        _check_offsets("output_offsets", self.output_offsets, len(self.outputs))
        self._check_tree()
        self._check_numbers()

    @classmethod
    def of_columns(cls, **columns: ArrayLike | Sequence[str | None]) -> NodeTable:
        """Return the table of columns named as its fields, whose numbers and words are not yet of the fields' types.

        Raises:
            TraceError: as the constructor, which converts and checks them.
        """
        return cls(**cast("dict[str, Any]", columns))

    def __len__(self) -> int:
        return len(self.parent)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NodeTable):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    __hash__ = None  # type: ignore[assignment]

    def node_ids(self, node: int) -> NDArray[np.int32]:
        """Return the token ids that `node` adds, `[n]`."""
        return self.ids[self.id_offsets[node] : self.id_offsets[node + 1]]

    def node_logprobs(self, node: int) -> NDArray[np.float32]:
        """Return the log-probabilities of those ids, nats, `[n]`."""
        return self.logprobs[self.id_offsets[node] : self.id_offsets[node + 1]]

    def node_outputs(self, node: int) -> NDArray[np.float32]:
        """Return the evaluator's raw numbers for `node`, `[m]`."""
        return self.outputs[self.output_offsets[node] : self.output_offsets[node + 1]]

    def path_nodes(self, node: int) -> tuple[int, ...]:
        """Return the nodes from the prompt to `node`, both included. Raises TraceError for an unknown node."""
        self._check_node(node)
        path = []
        while node != NO_PARENT:
            path.append(node)
            node = int(self.parent[node])
        return tuple(reversed(path))

    def path_ids(self, node: int) -> Ids:
        """Return all ids from the prompt to `node`: exactly what the model saw and wrote."""
        return tuple(np.concatenate([self.node_ids(step) for step in self.path_nodes(node)]).tolist())

    def path_logprobs(self, node: int) -> NDArray[np.float32]:
        """Return the log-probabilities of `path_ids(node)`, nats, NaN over the prompt."""
        return np.concatenate([self.node_logprobs(step) for step in self.path_nodes(node)])

    def path_text(self, node: int) -> str:
        """Return the solution up to `node` as text, without the prompt."""
        return "".join(self.texts[step] for step in self.path_nodes(node)[1:])

    def _check_node(self, node: int) -> None:
        if not 0 <= node < len(self):
            raise TraceError(f"node {node} is not in this trace of {len(self)} nodes", f"give a number from 0 to {len(self) - 1}")

    def _check_lengths(self) -> None:
        nodes = len(self.parent)
        if nodes == 0:
            raise TraceError("a trace has no node", "node 0 is the prompt, also of a search that failed")
        cut = {"ids", "id_offsets", "logprobs", "outputs", "output_offsets"}
        for field in fields(self):
            entries = len(getattr(self, field.name))
            if field.name not in cut and entries != nodes:
                raise TraceError(f"{field.name} has {entries} entries for {nodes} nodes: node {min(entries, nodes)}", _REMEDY)
        for name in ("id_offsets", "output_offsets"):
            if len(getattr(self, name)) != nodes + 1:
                raise TraceError(f"{name} has {len(getattr(self, name))} entries for {nodes} nodes", "give one more than nodes")
        if len(self.logprobs) != len(self.ids):
            raise TraceError(f"there are {len(self.ids)} token ids but {len(self.logprobs)} log-probabilities", _REMEDY)

    def _check_tree(self) -> None:
        if self.parent[ROOT] != NO_PARENT or self.depth[ROOT] != 0:
            raise TraceError(
                f"node 0 has parent {self.parent[ROOT]} and depth {self.depth[ROOT]}", "node 0 is the prompt: -1 and 0"
            )
        parent, node = self.parent[1:], np.arange(1, len(self))
        for wrong in node[(parent < 0) | (parent >= node)][:1]:
            raise TraceError(f"node {wrong} has parent {self.parent[wrong]}, which does not come before it", _REMEDY)
        for wrong in node[self.depth[1:] != self.depth[parent] + 1][:1]:
            above = self.depth[self.parent[wrong]]
            raise TraceError(f"node {wrong} has depth {self.depth[wrong]} under a parent of depth {above}", _REMEDY)

    def _check_numbers(self) -> None:
        for name in ("multiplicity", "visits"):
            for node in np.flatnonzero(getattr(self, name) < 0)[:1]:
                raise TraceError(f"node {node} has {name} {getattr(self, name)[node]}", _REMEDY)
        for name in ("prior", "mean", "best", "value"):
            for node in np.flatnonzero(np.isinf(getattr(self, name)))[:1]:
                raise TraceError(f"node {node} has {name} {getattr(self, name)[node]}", "give a finite number, or NaN for none")
        for position in np.flatnonzero(self.ids < 0)[:1]:
            node = int(np.searchsorted(self.id_offsets, position, side="right")) - 1
            raise TraceError(f"node {node} has token id {self.ids[position]}", _REMEDY)


def numeric_column(name: str, values: ArrayLike, dtype: type[np.generic]) -> NDArray[np.generic]:
    """Return a read-only one-dimensional copy of `values` as `dtype`. Raises TraceError when a number does not fit."""
    raw = np.asarray(values)
    if raw.ndim != 1:
        raise TraceError(f"{name} has {raw.ndim} dimensions", "give one number a row")
    if raw.size == 0:
        raw = raw.astype(dtype)
    kinds = {"i": "iu", "f": "iuf", "b": "iub"}[np.dtype(dtype).kind]
    if raw.dtype.kind not in kinds:
        raise TraceError(f"{name} holds {raw.dtype} where {np.dtype(dtype)} is wanted", _REMEDY)
    with np.errstate(over="ignore"):
        column = raw.astype(dtype)
    if kinds != "iuf":
        for row in np.flatnonzero(column != raw)[:1]:
            raise TraceError(f"{name}[{row}] is {raw[row]}, which does not fit {np.dtype(dtype)}", _REMEDY)
    column.flags.writeable = False
    return column


def join_rows(rows: Iterable[Sequence[float] | NDArray[np.generic]]) -> tuple[list[float], NDArray[np.int64]]:
    """Return the rows end to end and their offsets `[len(rows) + 1]`.

    >>> flat, offsets = join_rows([(5, 6), (), (7,)])
    >>> flat, offsets.tolist()
    ([5, 6, 7], [0, 2, 2, 3])
    """
    listed = [row.tolist() if isinstance(row, np.ndarray) else row for row in rows]
    return list(chain.from_iterable(listed)), np.cumsum([0, *map(len, listed)], dtype=np.int64)


def clean_text(text: str) -> str:
    """Return `text` with lone surrogates, which no file format can hold, replaced by U+FFFD.

    >>> clean_text("a\\ud83db") == "a\\ufffdb"
    True
    """
    return _SURROGATES.sub("\ufffd", text)


def _check_offsets(name: str, offsets: NDArray[np.int64], length: int) -> None:
    if offsets[0] != 0 or offsets[-1] != length:
        raise TraceError(f"{name} runs from {offsets[0]} to {offsets[-1]} over {length} entries", _REMEDY)
    for node in np.flatnonzero(np.diff(offsets) < 0)[:1]:
        raise TraceError(f"{name} falls from {offsets[node]} to {offsets[node + 1]} at node {node}", _REMEDY)


def _read_finish(node: int, word: str | None) -> Finish | None:
    try:
        return Finish(word) if word else None
    except ValueError as error:
        raise TraceError(f"node {node} has finish {word!r}", f"known are {', '.join(Finish)}") from error


def _read_standing(node: int, word: str) -> Standing:
    try:
        return Standing(word)
    except ValueError as error:
        raise TraceError(f"node {node} has standing {word!r}", f"known are {', '.join(Standing)}") from error


def _same(one: object, other: object) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    return one == other
