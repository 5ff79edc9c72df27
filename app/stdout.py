"""Standard output kept for results alone.

Engines and libraries print to standard output, also from processes of their own. While results are written, file
descriptor 1 leads to standard error, and the true standard output is known only here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import UnsupportedOperation
from typing import TextIO


class StdoutClosedError(Exception):
    """The reader of standard output has gone, as with `| head`."""


class ResultStream:
    """Whole lines to the reader of standard output, at once."""

    def __init__(self, file: TextIO) -> None:
        self.file = file
        """For rich; lines go through `write_line`."""

    def write_line(self, line: str) -> None:
        """Write one line and flush. Raises StdoutClosedError."""
        try:
            self.file.write(f"{line}\n")
            self.file.flush()
        except BrokenPipeError as error:
            raise StdoutClosedError from error


@contextmanager
def results_only() -> Iterator[ResultStream]:
    """Give standard output to results; whatever else prints there meanwhile goes to standard error."""
    sys.stdout.flush()
    try:
        own = sys.stdout.fileno() == 1
    except (UnsupportedOperation, ValueError):
        own = False
    if not own:
        yield ResultStream(sys.stdout)
        return
    kept = os.dup(1)
    os.dup2(2, 1)
    file = os.fdopen(os.dup(kept), "w", encoding="utf-8", errors="backslashreplace")
    try:
        yield ResultStream(file)
    except StdoutClosedError:
        _discard(file.fileno())
        raise
    finally:
        file.close()
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _discard(descriptor: int) -> None:
    """Let what is still buffered for a reader that has gone be written to nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
