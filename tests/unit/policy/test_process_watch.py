"""Processes of a dead owner end; those of an owner that lets go stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

OWNER = """
import subprocess, sys, time
from treewise.policy.process_watch import ProcessWatch
watch = ProcessWatch([int(sys.argv[1])])
if sys.argv[2] == "release":
    watch.release()
    watch.release()
else:
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def helper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def test_killed_owner_takes_its_processes_along(helper: subprocess.Popen[bytes]) -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER, str(helper.pid), "stay"], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        time.sleep(0.2)
        assert helper.poll() is None
        os.kill(owner.pid, signal.SIGKILL)
    assert helper.wait(timeout=10) == -signal.SIGKILL


def test_released_processes_stay(helper: subprocess.Popen[bytes]) -> None:
    subprocess.run([sys.executable, "-c", OWNER, str(helper.pid), "release"], check=True, timeout=30)
    with pytest.raises(subprocess.TimeoutExpired):
        helper.wait(timeout=1)
