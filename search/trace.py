"""What one search leaves behind: problem, origin, outcome, every node, and later the verdict.

Frozen and versioned. This file knows no file format (`trace_parquet.py`), no graph library (`graph.py`) and no search
method: a search hands its columns to `build_trace`. The verdict is added after the search, which never sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from json import JSONDecodeError, loads
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treewise.search.trace_nodes import NodeTable, clean_text, join_rows
from treewise.search.types import Answer, Bill, Problem, SearchEnd, TraceError, Verdict

TRACE_VERSION = 1
"""Version of the trace schema that this library writes."""

Rows: TypeAlias = Sequence[Sequence[float] | NDArray[np.generic]]
"""One sequence of numbers a node."""

_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True)
class Origin:
    """What made a trace: enough to make it again."""

    task: str
    """The task's name."""
    method: str
    """The search method's name."""
    config: str
    """The resolved configuration as JSON."""
    config_hash: str
    """Hash of the part of the configuration that decides the search."""
    seed: int
    """The run's seed, in [-2**63, 2**63)."""
    policy: str
    """The policy's fingerprint."""
    evaluator: str
    """The evaluator's fingerprint."""
    library_version: str
    """Version of Treewise."""

    def __post_init__(self) -> None:
        _check_int64("seed", self.seed)
        try:
            loads(self.config)
        except JSONDecodeError as error:
            raise TraceError(f"config is no JSON: {self.config[:80]!r}", "give the resolved configuration as JSON") from error


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a search ended: `Answer` as plain data."""

    text: str | None
    """The best finished answer, or None."""
    node: int | None
    """The node in which it ends."""
    value: float | None
    """Value in [0, 1] by which it was chosen."""
    end: SearchEnd
    reason: str
    """One sentence for the user."""
    error: str | None
    """Kind and text of what failed: broken infrastructure, not a wrong answer."""
    bill: Bill

    def __post_init__(self) -> None:
        if self.value is not None and not np.isfinite(self.value):
            raise TraceError(f"the answer's value is {self.value}", "give a finite number, or None for no answer")
        if not np.isfinite(self.bill.seconds):
            raise TraceError(f"the bill's seconds are {self.bill.seconds}", "give a finite number")

    @classmethod
    def of(cls, answer: Answer) -> Outcome:
        """Return an answer as plain data, with a bill of its own."""
        return cls(
            text=answer.text,
            node=answer.node,
            value=answer.value,
            end=answer.end,
            reason=answer.reason,
            error=None if answer.error is None else f"{type(answer.error).__name__}: {answer.error}",
            bill=replace(answer.bill),
        )


@dataclass(frozen=True, slots=True)
class Trace:
    """One search. Equal traces have equal parts; NaN equals NaN.

    Raises:
        TraceError: a part is inconsistent; the message names it.
    """

    version: ClassVar[int] = TRACE_VERSION
    """Older files are converted when they are read."""
    problem: Problem
    origin: Origin
    outcome: Outcome
    nodes: NodeTable
    verdict: Verdict | None = None
    """Outcome of checking the answer, once that is done."""

    def __post_init__(self) -> None:
        for name in ("problem", "origin", "outcome", "verdict"):
            object.__setattr__(self, name, _cleaned(getattr(self, name)))
        for number in (*self.problem.numbers, self.problem.target or 0):
            _check_int64("number", number)
        node = self.outcome.node
        if node is not None and not 0 <= node < len(self.nodes):
            raise TraceError(f"the answer ends in node {node} of a trace of {len(self.nodes)} nodes", "report it as a fault")

    def with_verdict(self, verdict: Verdict) -> Trace:
        """Return the same trace with the outcome of checking its answer."""
        return replace(self, verdict=verdict)

    def head(self) -> dict[str, object]:
        """Return all but the nodes as plain values, named as in the Parquet file."""
        verdict = self.verdict
        return {
            "version": self.version,
            "problem_id": self.problem.id,
            "problem_text": self.problem.text,
            "numbers": list(self.problem.numbers),
            "target": self.problem.target,
            **asdict(self.origin),
            "answer": self.outcome.text,
            "answer_node": self.outcome.node,
            "answer_value": self.outcome.value,
            "end": self.outcome.end.value,
            "reason": self.outcome.reason,
            "error": self.outcome.error,
            "bill": asdict(self.outcome.bill),
            "verdict": None if verdict is None else verdict.kind.value,
            "verdict_reason": None if verdict is None else verdict.reason,
        }


def build_trace(
    *,
    problem: Problem,
    origin: Origin,
    answer: Answer,
    parent: ArrayLike,
    depth: ArrayLike,
    ids: Rows,
    logprobs: Rows,
    texts: Sequence[str],
    prior: ArrayLike,
    multiplicity: ArrayLike,
    visits: ArrayLike,
    mean: ArrayLike,
    best: ArrayLike,
    value: ArrayLike,
    outputs: Rows,
    finish: Sequence[str | None],
    standing: Sequence[str],
    answers: Sequence[str | None],
    proven: ArrayLike,
    exhausted: ArrayLike,
    reasons: Sequence[str] | None = None,
) -> Trace:
    """Return the trace of one search from its columns, one entry a node in id order, `[N]`. Everything is copied.

    `ids`, `logprobs` and `outputs` have one row a node. The mean of an unvisited node and an infinite best become
    NaN. Fields are described in `NodeTable`.

    Raises:
        TraceError: the columns contradict each other; the message names the node.
    """
    if len(ids) != len(logprobs):
        raise TraceError(f"ids has {len(ids)} rows but logprobs has {len(logprobs)}", "give one row a node")
    for node, (row, row_logprobs) in enumerate(zip(ids, logprobs, strict=True)):
        if len(row) != len(row_logprobs):
            raise TraceError(
                f"node {node} has {len(row)} token ids but {len(row_logprobs)} log-probabilities",
                "give one log-probability an id",
            )
    flat_ids, id_offsets = join_rows(ids)
    flat_outputs, output_offsets = join_rows(outputs)
    nodes = NodeTable.of_columns(
        parent=np.asarray(parent),
        depth=np.asarray(depth),
        ids=np.asarray(flat_ids),
        id_offsets=id_offsets,
        logprobs=np.asarray(join_rows(logprobs)[0]),
        texts=tuple(texts),
        prior=np.asarray(prior),
        multiplicity=np.asarray(multiplicity),
        visits=np.asarray(visits),
        mean=_nan_where(np.asarray(visits) == 0, mean),
        best=_nan_where(np.isinf(np.asarray(best)), best),
        value=np.asarray(value),
        outputs=np.asarray(flat_outputs),
        output_offsets=output_offsets,
        finish=tuple(finish),
        standing=tuple(standing),
        reasons=("",) * len(texts) if reasons is None else tuple(reasons),
        answers=tuple(answers),
        proven=np.asarray(proven),
        exhausted=np.asarray(exhausted),
    )
    return Trace(problem=problem, origin=origin, outcome=Outcome.of(answer), nodes=nodes)


Record = TypeVar("Record", Problem, Origin, Outcome, Verdict, None)
"""A part of a trace that may hold text."""


def _nan_where(missing: NDArray[np.bool_], values: ArrayLike) -> NDArray[np.float64]:
    column = np.array(values, dtype=np.float64)
    if column.shape == missing.shape:
        column[missing] = np.nan
    return column


def _cleaned(record: Record) -> Record:
    if record is None:
        return record
    texts = {f.name: getattr(record, f.name) for f in fields(record) if type(getattr(record, f.name)) is str}
    changed: dict[str, Any] = {name: clean_text(text) for name, text in texts.items() if clean_text(text) != text}
    return replace(record, **changed) if changed else record


def _check_int64(name: str, number: int) -> None:
    if not _INT64.min <= number <= _INT64.max:
        raise TraceError(f"{name} {number} does not fit 64 bits", f"give a whole number from {_INT64.min} to {_INT64.max}")
