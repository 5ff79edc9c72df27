"""Results on standard output: lines at once, or one table."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest

from treewise.app.report import TABLE_ROWS, JsonLines, ResultTable
from treewise.app.results import Result, Tally
from treewise.app.stdout import ResultStream, StdoutClosedError
from treewise.search.types import Bill, Verdict, VerdictKind


def shown(results: list[Result]) -> str:
    file = io.StringIO()
    table, tally = ResultTable(ResultStream(file), width=160), Tally()
    for result in results:
        table.add(result)
        tally.add(result)
    table.close(tally, seconds=1.0)
    return file.getvalue()


def test_the_table_shows_answer_verdict_tokens_and_summary() -> None:
    bill = Bill(policy_tokens=1234, simulations=32, seconds=2.0)
    good = Result("c1", "8 * 3 + 5", Verdict(VerdictKind.CORRECT), 1.0, "the task proves the answer right", bill)
    text = shown([good, Result("c2", None, None, None, "no path ended in an answer: the budget is spent")])
    row = next(line for line in text.splitlines() if line.startswith("c1"))
    assert " ".join(row.split()) == "c1 8 * 3 + 5 correct 1.00 1,234 32 2.0 the task proves the answer right"
    assert "no path ended in an answer" in text
    assert "1 of 2 correct, 1 unfinished" in text


def test_markup_in_an_answer_is_shown_as_it_is() -> None:
    assert "[bold]x[/bold] [/]" in shown([Result("[red]id", "[bold]x[/bold] [/]", None, None, "")])


def test_long_tables_end_with_a_count_of_the_rest() -> None:
    text = shown([Result(f"id{k}", None, None, None, "") for k in range(TABLE_ROWS + 7)])
    assert f"id{TABLE_ROWS - 1}" in text
    assert f"id{TABLE_ROWS} " not in text
    assert "and 7 more" in text


def test_lines_are_written_at_once() -> None:
    read, write = os.pipe()
    with os.fdopen(write, "w") as file, os.fdopen(read, "rb", buffering=0) as reader:
        JsonLines(ResultStream(file)).add(Result("a", None, None, None, "r"))
        assert json.loads(reader.read(4096))["id"] == "a"


def test_a_reader_that_has_gone_is_its_own_error() -> None:
    read, write = os.pipe()
    os.close(read)
    file = os.fdopen(write, "w")
    with pytest.raises(StdoutClosedError):
        JsonLines(ResultStream(file)).add(Result("a", None, None, None, "r"))
    os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())
    file.close()


def test_other_writers_to_standard_output_are_led_to_standard_error() -> None:
    """An engine's log, also from a process of its own, never stands between two JSON lines."""
    code = (
        "import subprocess, sys\n"
        "from treewise.app.stdout import results_only\n"
        "print('before')\n"
        "with results_only() as stream:\n"
        "    print('log')\n"
        "    subprocess.run(['sh', '-c', 'echo child'], check=True)\n"
        "    stream.write_line('result')\n"
        "print('after')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["before", "result", "after"]
    assert set(done.stderr.split()) == {"log", "child"}
