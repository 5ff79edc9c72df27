"""Processes of a dead owner end, whenever it died; those of an owner that lets go stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from treewise.policy.process_watch import MARK, ProcessWatch

NAMED = """
import sys, time
from treewise.policy.process_watch import ProcessWatch
watch = ProcessWatch()
watch.add([int(sys.argv[1])])
if sys.argv[2] == "release":
    watch.release()
    watch.release()
else:
    print("ready", flush=True)
    time.sleep(60)
"""

STARTING = """
import subprocess, sys, time
from treewise.policy.process_watch import ProcessWatch
child = "import subprocess, sys, time; own = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
child += "print(own.pid, flush=True); time.sleep(60)"
watch = ProcessWatch()
if sys.argv[1] == "before":
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
with watch.marking():
    started = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, text=True)
    if sys.argv[1] == "inside":
        bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    print(started.pid, started.stdout.readline().strip(), bystander.pid, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def helper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def wait_until_dead(*pids: int, seconds: float = 10) -> bool:
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if not any(is_alive(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def test_killed_owner_takes_its_processes_along(helper: subprocess.Popen[bytes]) -> None:
    with subprocess.Popen([sys.executable, "-c", NAMED, str(helper.pid), "stay"], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        time.sleep(0.2)
        assert helper.poll() is None
        os.kill(owner.pid, signal.SIGKILL)
    assert helper.wait(timeout=10) == -signal.SIGKILL


def test_released_processes_stay(helper: subprocess.Popen[bytes]) -> None:
    subprocess.run([sys.executable, "-c", NAMED, str(helper.pid), "release"], check=True, timeout=30)
    with pytest.raises(subprocess.TimeoutExpired):
        helper.wait(timeout=2)


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="marks are read from /proc")
@pytest.mark.parametrize("bystander_dies", [False, True])
def test_owner_killed_while_it_starts_its_processes_takes_them_along(bystander_dies: bool) -> None:
    """It never came to name them, and one was started by another: both are found. A process from before is left alone."""
    when = "inside" if bystander_dies else "before"
    with subprocess.Popen([sys.executable, "-c", STARTING, when], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        child, grandchild, bystander = map(int, owner.stdout.readline().split())
        assert all(is_alive(pid) for pid in (child, grandchild, bystander))
        os.kill(owner.pid, signal.SIGKILL)
    assert wait_until_dead(child, grandchild)
    assert wait_until_dead(bystander, seconds=3) == bystander_dies
    if not bystander_dies:
        os.kill(bystander, signal.SIGKILL)


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="marks are read from /proc")
def test_marks_are_on_what_is_started_inside_and_on_nothing_else() -> None:
    first, second = ProcessWatch(), ProcessWatch()
    command = [sys.executable, "-c", "print(flush=True); import time; time.sleep(60)"]
    with first.marking(), subprocess.Popen(command, stdout=subprocess.PIPE) as marked:
        assert marked.stdout is not None
        marked.stdout.readline()
        assert first.marked() == [marked.pid]
        assert second.marked() == []
        marked.kill()
    assert MARK not in os.environ
    with subprocess.Popen(command, stdout=subprocess.PIPE) as plain:
        assert plain.stdout is not None
        plain.stdout.readline()
        assert first.marked() == []
        plain.kill()
    first.release()
    second.release()
