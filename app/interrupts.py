"""SIGINT and SIGTERM as exceptions that never split what belongs together.

While a result and its trace are written an interruption waits for the end of that; a second one does not wait. This file
knows no run.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType, TracebackType


class TerminatedError(Exception):
    """SIGTERM came."""


class Interrupts:
    """While this context manager is entered, SIGINT raises KeyboardInterrupt and SIGTERM raises TerminatedError, outside `held`.

    Only the main thread gets signals; elsewhere this does nothing.
    """

    def __init__(self) -> None:
        self._before: dict[int, signal.Handlers] = {}
        self._holding = False
        self._waiting: int | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let an interruption wait until the block has ended."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
        if self._waiting is not None:
            number, self._waiting = self._waiting, None
            self._raise(number)

    def __enter__(self) -> Interrupts:
        if current_thread() is main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)  # type: ignore[assignment]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._holding and self._waiting is None:
            self._waiting = number
        else:
            self._raise(number)

    def _raise(self, number: int) -> None:
        if number == signal.SIGTERM:
            raise TerminatedError
        raise KeyboardInterrupt
