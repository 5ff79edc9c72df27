"""Results as they reach the user on standard output: JSON lines as problems end, or a table when all have.

This file knows results and rich, no search.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rich.console import Console
from rich.table import Table
from rich.text import Text

from treewise.app.results import Result, Tally
from treewise.app.stdout import ResultStream

TABLE_ROWS = 200
"""Most rows that a table shows."""

STYLES = {"correct": "green", "incorrect": "red", "undecided": "yellow"}


class Report(Protocol):
    """Shows results."""

    def add(self, result: Result) -> None:
        """Take one result. Raises StdoutClosedError when nobody reads any more."""
        ...

    def close(self, tally: Tally, *, seconds: float) -> None:
        """Show what is left to show; also called after an interruption."""
        ...


class JsonLines:
    """One line a result, at once."""

    def __init__(self, stream: ResultStream) -> None:
        self._stream = stream

    def add(self, result: Result) -> None:
        """Write one line."""
        self._stream.write_line(result.line())

    def close(self, tally: Tally, *, seconds: float) -> None:
        """Nothing is left to write."""


class ResultTable:
    """A table and a summary at the end."""

    def __init__(self, stream: ResultStream, *, width: int | None = None) -> None:
        self._console = Console(file=stream.file, width=width, highlight=False)
        self._results: list[Result] = []

    def add(self, result: Result) -> None:
        """Keep the result for the table."""
        if len(self._results) < TABLE_ROWS:
            self._results.append(result)

    def close(self, tally: Tally, *, seconds: float) -> None:
        """Print table and summary."""
        if self._results:
            self._console.print(_table(self._results))
        if tally.total > len(self._results):
            self._console.print(f"and {tally.total - len(self._results)} more; --output FOLDER or --json shows all")
        self._console.print(tally.sentence(seconds=seconds))


def _table(results: list[Result]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("problem", overflow="fold")
    table.add_column("answer", overflow="fold")
    table.add_column("verdict")
    columns: dict[str, Callable[[Result], str]] = {
        "value": lambda result: "" if result.value is None else f"{result.value:.2f}",
        "tokens": lambda result: f"{result.bill.policy_tokens:,}",
        "simulations": lambda result: f"{result.bill.simulations:,}",
        "seconds": lambda result: f"{result.bill.seconds:.1f}",
    }
    for name in columns:
        table.add_column(name, justify="right")
    table.add_column("reason", overflow="fold")
    for result in results:
        verdict = "" if result.verdict is None else result.verdict.kind.value
        numbers = [Text(show(result)) for show in columns.values()]
        style = STYLES.get(verdict, "red" if result.failed or result.rejected else "")
        answer = Text("-" if result.answer is None else result.answer)
        table.add_row(Text(result.id), answer, Text(verdict or "-", style=style), *numbers, Text(result.reason))
    return table
