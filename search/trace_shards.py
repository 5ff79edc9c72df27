"""A folder of traces that grows while a run goes on, one file (shard) every few traces.

What is in a finished shard survives any interruption, since each shard appears whole. It knows no run and no schema.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import TracebackType

from treewise.search.trace import Trace
from treewise.search.trace_parquet import SHARD_PATTERN, write_traces
from treewise.search.types import InputError

_NUMBER = re.compile(r"traces-(\d+)\.parquet")


class TraceWriter:
    """Appends traces to a folder that one writer at a time may write; shards already there are kept.

    As a context manager it writes the last, smaller shard also when the block ends with an exception.

    Raises:
        InputError: the folder cannot be made or written; nothing buffered is lost, `flush` may be called again.
    """

    def __init__(self, folder: str | Path, *, traces_per_shard: int = 16) -> None:
        """Open a folder. A run killed outright loses at most the last `traces_per_shard` - 1 finished traces."""
        if traces_per_shard < 1:
            raise InputError(f"traces_per_shard is {traces_per_shard}", "give a whole number of at least 1")
        self._folder = Path(folder)
        self._limit = traces_per_shard
        self._waiting: list[Trace] = []
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make folder {folder}: {error.strerror}", "choose a place that is writable") from error
        if not os.access(self._folder, os.W_OK | os.X_OK):
            raise InputError(f"cannot write into folder {folder}", "choose a folder that is writable")
        taken = [int(found[1]) for path in self._folder.glob(SHARD_PATTERN) if (found := _NUMBER.fullmatch(path.name))]
        self._next = max(taken, default=-1) + 1

    def add(self, trace: Trace) -> None:
        """Take one trace; every `traces_per_shard`-th writes a shard."""
        self._waiting.append(trace)
        if len(self._waiting) >= self._limit:
            self.flush()

    def flush(self) -> None:
        """Write what waits as a shard; without anything waiting, nothing."""
        if self._waiting:
            write_traces(self._folder / f"traces-{self._next:06d}.parquet", self._waiting)
            self._next += 1
            self._waiting = []

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None) -> None:
        self.flush()
