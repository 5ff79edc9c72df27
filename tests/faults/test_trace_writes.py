"""Trace files under failing disks, torn files and kill -9."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from treewise.search.trace import Origin, Trace, build_trace
from treewise.search.trace_parquet import read_traces, write_traces
from treewise.search.trace_shards import TraceWriter
from treewise.search.types import Answer, Bill, InputError, Problem, SearchEnd, TraceError

WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from test_trace_writes import make_trace
from treewise.search.trace_shards import TraceWriter
with TraceWriter(sys.argv[1], traces_per_shard=2) as writer:
    for index in range(1_000_000):
        writer.add(make_trace(f"p{index}"))
"""


def make_trace(name: str) -> Trace:
    """A prompt with one step a hundred times, so that a file has some length."""
    size = 101
    return build_trace(
        problem=Problem(name, "x"),
        origin=Origin("countdown", "mcts", "{}", "c0ffee", 7, "policy-1", "evaluator-1", "0.1.0"),
        answer=Answer(name, None, None, None, SearchEnd.BUDGET, "", Bill()),
        parent=[-1] + [0] * 100,
        depth=[0] + [1] * 100,
        ids=[(node * 7919 % 5003,) for node in range(size)],
        logprobs=[(-node / 7,) for node in range(size)],
        texts=[f"step {node}" for node in range(size)],
        prior=[0.01] * size,
        multiplicity=[1] * size,
        visits=list(range(size)),
        mean=[0.5] * size,
        best=[0.5] * size,
        value=[0.5] * size,
        outputs=[()] * size,
        finish=[""] * size,
        standing=["open"] * size,
        answers=[None] * size,
        proven=[False] * size,
        exhausted=[False] * size,
    )


def test_a_torn_file_is_named_at_every_length(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_traces(path, [make_trace("a")])
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(TraceError, match=r"cannot read .*t\.parquet"):
            read_traces(path)


def test_a_flipped_bit_is_never_read_as_another_trace(tmp_path: Path) -> None:
    """A damaged file raises a TraceError or gives what was written (where the bit meant nothing)."""
    path = tmp_path / "t.parquet"
    trace = make_trace("a")
    write_traces(path, [trace])
    whole = path.read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    refusals = []
    for position in range(4, footer, 41):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x10]) + whole[position + 1 :])
        try:
            read = read_traces(path)
        except TraceError as error:
            refusals.append(str(error))
        else:
            assert read == [trace], f"byte {position}"
    assert len(refusals) > 10
    assert all(str(path) in refusal for refusal in refusals)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failing_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    path = tmp_path / "t.parquet"
    write_traces(path, [make_trace("old")])

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(InputError, match=f"cannot write {path}: No space left on device"):
        write_traces(path, [make_trace("new")])
    monkeypatch.undo()
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.parquet"]
    assert [trace.problem.id for trace in read_traces(path)] == ["old"]


def test_a_failed_flush_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    writer = TraceWriter(tmp_path, traces_per_shard=2)
    writer.add(make_trace("a"))
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(InputError, match="No space left"):
        writer.add(make_trace("b"))
    monkeypatch.undo()
    writer.flush()
    assert [trace.problem.id for trace in read_traces(tmp_path)] == ["a", "b"]


def test_an_exception_in_the_source_leaves_no_file(tmp_path: Path) -> None:
    def source() -> Iterator[Trace]:
        yield make_trace("a")
        raise KeyError("b")

    with pytest.raises(KeyError):
        write_traces(tmp_path / "t.parquet", source())
    assert list(tmp_path.iterdir()) == []


def test_kill_9_leaves_whole_shards_only(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(folder), str(Path(__file__).parent)])
    try:
        end = time.monotonic() + 120
        while len(list(folder.glob("traces-*.parquet"))) < 5 and process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    kept = read_traces(folder)
    assert len(kept) >= 10
    assert [trace.problem.id for trace in kept] == [f"p{index}" for index in range(len(kept))]
    with TraceWriter(folder) as writer:
        writer.add(make_trace("later"))
    assert read_traces(folder)[-1].problem.id == "later"
