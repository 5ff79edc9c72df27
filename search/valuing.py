"""Values paths in batches, in a thread of its own, so that the policy's results are handled meanwhile.

What is asked for while the evaluator works waits and forms the next batch. An evaluator whose last batch took less than
`BRIEF` is called in place: handing a batch to another thread and back would take longer than the batch. Which thread it was
decides no result. This file knows neither searches nor the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from time import perf_counter
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from treewise.search.checked import evaluate_checked
from treewise.search.types import Evaluation, EvaluationAsk, Evaluator, EvaluatorError, TreewiseError

Owner = TypeVar("Owner")
Values: TypeAlias = "list[Evaluation] | TreewiseError"
"""What one ask gets: its evaluations, or why there are none."""

BRIEF = 0.001
"""Seconds."""


class _Batch(NamedTuple):
    values: list[Values]
    """One an ask."""
    seconds: float


class Valuer(Generic[Owner]):
    """One evaluator and what waits for it. Its methods are called from one thread."""

    def __init__(self, evaluator: Evaluator, *, overlap: bool, finished: Callable[[], None]) -> None:
        """Without `overlap` every batch is valued in place. `finished` is called in the other thread when a batch is done."""
        self._evaluator = evaluator
        self._finished = finished
        self._in_place = not overlap
        self._overlap = overlap
        self._waiting: list[tuple[Owner, EvaluationAsk]] = []
        self._sent: list[tuple[Owner, EvaluationAsk]] = []
        self._future: Future[_Batch] | None = None
        self._thread: ThreadPoolExecutor | None = None

    @property
    def busy(self) -> bool:
        """Whether a batch is under way or its values were not taken yet."""
        return self._future is not None

    @property
    def ready(self) -> bool:
        """Whether `take` has something to return."""
        return self._future is not None and self._future.done()

    def add(self, owner: Owner, ask: EvaluationAsk) -> None:
        """Let an ask wait for the next batch."""
        self._waiting.append((owner, ask))

    def begin(self, wanted: Callable[[Owner], bool]) -> None:
        """Start on what waits, if the evaluator is idle. Asks whose owner is not `wanted` any more are dropped."""
        if self.busy:
            return
        self._sent = [(owner, ask) for owner, ask in self._waiting if wanted(owner)]
        self._waiting.clear()
        if not self._sent:
            return
        asks = [ask for _, ask in self._sent]
        if self._in_place:
            self._future = Future()
            self._future.set_result(_evaluate(self._evaluator, asks))
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="evaluator")
        self._future = self._thread.submit(_evaluate, self._evaluator, asks)
        self._future.add_done_callback(lambda _: self._finished())

    def take(self) -> list[tuple[Owner, EvaluationAsk, Values]]:
        """Return the values of the batch that is done, in the order of asking; empty while there is none."""
        if self._future is None or not self._future.done():
            return []
        batch, sent = self._future.result(), self._sent
        self._future, self._sent = None, []
        self._in_place = not self._overlap or batch.seconds < BRIEF
        return [(owner, ask, values) for (owner, ask), values in zip(sent, batch.values, strict=True)]

    def wait(self) -> None:
        """Wait until the batch under way is done."""
        if self._future is not None:
            wait([self._future])

    def close(self) -> None:
        """Drop everything; return when the evaluator has let go of its batch and the thread has ended."""
        self._waiting.clear()
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)
        self._thread = self._future = None


def _evaluate(evaluator: Evaluator, asks: Sequence[EvaluationAsk]) -> _Batch:
    """Value all asks at once; when that fails, each by itself, so that an error is that of the ask which caused it."""
    began = perf_counter()
    try:
        values = _values(evaluator, asks)
    except TreewiseError as error:
        values = [error] if len(asks) == 1 else [_evaluate(evaluator, [ask]).values[0] for ask in asks]
    return _Batch(values, perf_counter() - began)


def _values(evaluator: Evaluator, asks: Sequence[EvaluationAsk]) -> list[Values]:
    try:
        found = iter(evaluate_checked(evaluator, [path for ask in asks for path in ask.paths]))
    except TreewiseError:
        raise
    except Exception as error:
        message = f"{type(error).__name__} in evaluator {evaluator.fingerprint}: {error}"
        raise EvaluatorError(message, "correct the evaluator") from error
    return [[next(found) for _ in ask.paths] for ask in asks]
