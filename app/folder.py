"""The output folder of a run: `config.json`, `config.toml`, `results.jsonl`, and `traces/` in Parquet.

Results are written line by line and traces by whole shards, so an interrupted run keeps what is finished. This file knows
no search.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from treewise.app.arguments import to_toml
from treewise.app.config import SolveOptions
from treewise.app.results import Result
from treewise.search.atomic_file import atomic_file
from treewise.search.trace import Trace
from treewise.search.trace_shards import TraceWriter
from treewise.search.types import InputError

RESULTS = "results.jsonl"
TRACES = "traces"


class OutputFolder:
    """Writes into one folder while a run goes on; a context manager."""

    def __init__(self, path: str, *, options: SolveOptions, version: str) -> None:
        """Make the folder and write the resolved options.

        Raises InputError when it cannot be written, or holds results already and `overwrite` is not set.
        """
        self._path = Path(path)
        results = self._path / RESULTS
        if results.exists() and not options.run.overwrite:
            raise InputError(
                f"output folder {path!r} holds results already", "give another folder, or --overwrite to replace them"
            )
        self._traces = TraceWriter(self._path / TRACES)
        _write(self._path / "config.json", _config_json(options, version=version))
        _write(
            self._path / "config.toml", f"# Repeat: treewise solve --config {path}/config.toml\n{to_toml(_repeatable(options))}"
        )
        for shard in (self._path / TRACES).glob("traces-*.parquet"):
            shard.unlink()
        with self._writing():
            self._results = results.open("w", encoding="ascii")

    def add(self, result: Result, trace: Trace | None) -> None:
        """Write a result, and its trace where there is one. Raises InputError when the disk is full or gone."""
        with self._writing():
            self._results.write(f"{result.line()}\n")
            self._results.flush()
        if trace is not None:
            self._traces.add(trace)

    def __enter__(self) -> OutputFolder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None) -> None:
        try:
            with self._writing():
                self._results.close()
        finally:
            self._traces.flush()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Turn a failing disk into an error with its reason."""
        try:
            yield
        except OSError as error:
            message = f"cannot write {self._path / RESULTS}: {error.strerror or error}"
            raise InputError(message, "free some space, or choose another --output folder") from error


def _config_json(options: SolveOptions, *, version: str) -> str:
    record = {"hash": options.hash(), "version": version, "deciding": options.deciding(), "options": options.flat()}
    return json.dumps(record, indent=2) + "\n"


def _repeatable(options: SolveOptions) -> dict[str, str | int | float | bool | None]:
    return {name: value for name, value in options.flat().items() if name not in ("output", "overwrite", "config")}


def _write(path: Path, text: str) -> None:
    with atomic_file(path) as file:
        file.write(text.encode("utf-8", "replace"))
