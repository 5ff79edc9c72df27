"""Progress on standard error: a bar on a terminal, a line now and then elsewhere.

This file knows counts and the clock, no search.
"""

from __future__ import annotations

from time import monotonic
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from treewise.app.results import Tally

LINE_SECONDS = 30.0
"""Seconds between two progress lines where there is no bar."""


class Watch:
    """Messages and progress of one run; a context manager."""

    def __init__(self, console: Console, *, bar: bool) -> None:
        self._console = console
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not bar,
        )
        self._bar = bar
        self._task: TaskID | None = None
        self._started = self._last_line = monotonic()

    def say(self, message: str) -> None:
        """Print a message for the user."""
        self._console.print(Text(f"treewise: {message}"), soft_wrap=True)

    def phase(self, name: str, *, total: int | None) -> None:
        """Show what is going on now; `total` problems, None while that is unknown."""
        if self._task is None:
            self._task = self._progress.add_task(name, total=total, note="")
        else:
            self._progress.reset(self._task, total=total, description=name, note="")

    def update(self, *, ended: int, total: int, tokens: int, simulations: int, tally: Tally) -> None:
        """Show how many problems have ended, and what has been used so far."""
        seconds = monotonic() - self._started
        note = f"{tally.correct} correct, {simulations:,} simulations, {tokens:,} tokens, {tokens / max(seconds, 1e-9):,.0f}/s"
        if self._task is not None:
            self._progress.update(self._task, completed=ended, note=note)
        if not self._bar and monotonic() - self._last_line >= LINE_SECONDS:
            self._last_line = monotonic()
            self.say(f"{ended} of {total} problems ended, {note}")

    def start_clock(self) -> None:
        """Count seconds for the rate from now: models are ready."""
        self._started = monotonic()

    def __enter__(self) -> Watch:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None) -> None:
        self._progress.stop()
