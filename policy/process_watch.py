"""Ends helper processes when their owner dies, however it dies.

vLLM's engine does not notice that the process which started it was killed: it would go on holding its memory and a core. A
tiny process holds the other end of a pipe; when the pipe closes without a word the owner is dead, and it kills what it was
told to. It knows nothing of vLLM.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

_WATCH = """
import os, signal, sys
if not sys.stdin.buffer.read():
    for pid in map(int, sys.argv[1:]):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
"""
_RELEASED = 5.0
"""Seconds that the watching process may take to end."""


class ProcessWatch:
    """Kills `pids` if this process ends without `release`."""

    def __init__(self, pids: Sequence[int]) -> None:
        """Start watching; the watching process has a session of its own, so that an interrupt does not reach it."""
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _WATCH, *map(str, pids)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def release(self) -> None:
        """Stop watching and leave the processes alone. A second call does nothing."""
        if self._process.poll() is None:
            self._process.communicate(b"released", timeout=_RELEASED)
