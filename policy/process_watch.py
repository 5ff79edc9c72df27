"""Ends helper processes when their owner dies, however it dies, and at whatever moment.

vLLM's engine does not notice that the process which started it was killed: it would go on holding its memory and a core. A
tiny process (this file, run as a script) holds the other end of a pipe; when the pipe closes without a word the owner is
dead, and it kills what the owner has started. Processes started inside `marking`, and theirs, carry a mark in their
environment, so that they are found in /proc however early the owner died; where there is no /proc only those that `add`
named are known. It knows nothing of vLLM.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex

MARK = "TREEWISE_ENGINE_OF"
"""Environment variable of marked processes: the owner's process id and a random number."""
_RELEASE = "release"
_RELEASED = 5.0
"""Seconds that the watching process may take to end."""
_QUIET = 1.0
"""Seconds without a process of a dead owner after which none is expected any more."""
_LOOK = 0.1
"""Seconds between two looks for them."""


class ProcessWatch:
    """Kills what was started inside `marking` and what `add` named, if this process ends without `release`."""

    def __init__(self) -> None:
        """Start watching; the watching process has a session of its own, so that an interrupt does not reach it."""
        self._mark = f"{os.getpid()}-{token_hex(8)}"
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, self._mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )

    @contextmanager
    def marking(self) -> Iterator[None]:
        """Mark the processes that are started inside."""
        os.environ[MARK] = self._mark
        try:
            yield
        finally:
            del os.environ[MARK]

    def add(self, pids: Iterable[int]) -> None:
        """Watch processes that carry no mark, or where marks cannot be read."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # somebody ended the watching process
            self._process.stdin.write("".join(f"{pid}\n" for pid in pids))
            self._process.stdin.flush()

    def marked(self) -> list[int]:
        """Return the processes that carry the mark and live; empty where there is no /proc."""
        return marked_processes(self._mark)

    def kill(self) -> None:
        """End the marked processes that still live, and stop watching."""
        _kill(self.marked())
        self.release()

    def release(self) -> None:
        """Stop watching and leave the processes alone. A second call does nothing."""
        if self._process.poll() is None:
            self._process.communicate(_RELEASE, timeout=_RELEASED)


def marked_processes(mark: str) -> list[int]:
    """Return the processes with this mark, without Python's resource trackers: those end by themselves, after they have
    removed the shared memory that the others leave behind."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with suppress(OSError):  # it has ended, or is somebody else's
            with open(f"/proc/{name}/environ", "rb") as file:
                if wanted not in file.read().split(b"\0"):
                    continue
            with open(f"/proc/{name}/cmdline", "rb") as file:
                if b"multiprocessing.resource_tracker" not in file.read():
                    found.append(int(name))
    return found


def _watch(mark: str) -> None:
    """Read process ids until the owner has gone; kill them and all that carry the mark, unless it took its leave."""
    words = sys.stdin.read().split()
    if _RELEASE in words:
        return
    _kill([int(word) for word in words])
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < _QUIET:  # one may be about to start another
        found = marked_processes(mark)
        if found:
            _kill(found)
            quiet_since = time.monotonic()
        time.sleep(_LOOK)


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    _watch(sys.argv[1])
