"""Bad input to `treewise solve`: a message with the item and the remedy, the right exit status, and nothing else lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from treewise.app.main import main

GOOD = '{"id": "good", "numbers": [8, 3, 5], "target": 29}'
SCRIPTED = ["--policy", "scripted", "--simulations", "4", "--json"]
COMMAND = [sys.executable, "-m", "treewise.app.main", "solve"]


class Done(NamedTuple):
    """A finished call."""

    status: int
    lines: list[dict[str, object]]
    said: str

    def line(self, identity: str) -> dict[str, object]:
        (found,) = [line for line in self.lines if line["id"] == identity]
        return found


class Solve:
    """Calls the command line in this process."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.capsys = capsys

    def __call__(self, *arguments: str) -> Done:
        status = main(["solve", *arguments])
        printed = self.capsys.readouterr()
        assert "Traceback" not in printed.err
        return Done(status, [json.loads(line) for line in printed.out.splitlines()], printed.err)

    def rows(self, *rows: str | bytes) -> Done:
        path = self.folder / "p.jsonl"
        path.write_bytes(b"\n".join(row if isinstance(row, bytes) else row.encode() for row in rows))
        return self("--problems", str(path), *SCRIPTED)


@pytest.fixture
def solve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Solve:
    """The command line with the scripted policy."""
    return Solve(tmp_path, capsys)


@pytest.mark.parametrize(
    ("row", "identity", "said"),
    [
        ('{"numbers": [8, 3, 5], "target": 29}', "line 2", "no 'id'"),
        ('{"id": "  ", "numbers": [8, 3, 5], "target": 29}', "line 2", "'id' is '  '"),
        ('{"id": "good", "numbers": [1, 2], "target": 3}', "line 2", "id 'good' was used in line 1 already"),
        (b'{"id": "b\xff", "numbers": [8, 3, 5], "target": 29}', "line 2", "not UTF-8"),
        ('{"id": "b", "numbers": [8, 3', "line 2", "not JSON"),
        ('{"id": "b", "numbers": ["8", "x"], "target": 29}', "b", "'numbers'"),
        ('{"id": "b", "numbers": "8 3 5", "target": 29}', "b", "'numbers'"),
        ('{"id": "b", "numbers": [8, 3.5], "target": 29}', "b", "'numbers'"),
        ('{"id": "b", "numbers": [], "target": 29}', "b", "'numbers'"),
        ('{"id": "b", "numbers": [8, 3]}', "b", "'target'"),
        ('{"id": 7, "numbers": [8, 3], "target": "x"}', "7", "'target'"),
        ("[1, 2]", "line 2", "array"),
    ],
)
def test_a_bad_row_is_named_and_the_others_run(row: str | bytes, identity: str, said: str, solve: Solve) -> None:
    done = solve.rows(GOOD, row, '{"id": "last", "numbers": [4, 6], "target": 24}')
    assert done.status == 2
    assert "p.jsonl, line 2" in done.said
    assert said in done.said
    bad = done.line(identity)
    assert (bad["answer"], bad["finished"], bad["verdict"], bad["value"]) == (None, False, None, None)
    assert str(bad["reason"]).startswith("input: ")
    assert said in str(bad["reason"])
    for good in ("good", "last"):
        bill = done.line(good)["bill"]
        assert isinstance(bill, dict)
        assert bill["simulations"] > 0
    assert len(done.lines) == 3


def test_when_every_row_is_bad_no_model_is_started(solve: Solve) -> None:
    path = solve.folder / "p.jsonl"
    path.write_text("[]\n[]\n")
    done = solve("--problems", str(path), "--policy", "transformers", "--model", "/no/such/model", "--json")
    assert done.status == 2
    assert "/no/such/model" not in done.said
    assert [line["id"] for line in done.lines] == ["line 1", "line 2"]


def test_strict_runs_nothing_when_a_row_is_bad(solve: Solve) -> None:
    path = solve.folder / "p.jsonl"
    path.write_text(f"{GOOD}\n[]\n")
    done = solve("--problems", str(path), "--strict", "--output", str(solve.folder / "out"), *SCRIPTED)
    assert (done.status, done.lines) == (2, [])
    assert "line 2" in done.said
    assert not (solve.folder / "out").exists()


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "numbers 3 8", "eight"])
def test_an_unusable_text_problem_is_an_error(text: str, solve: Solve) -> None:
    done = solve(text, *SCRIPTED)
    assert (done.status, done.lines) == (2, [])
    assert done.said.startswith("treewise: ")
    assert done.said.count("\n") == 1


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_an_empty_file_is_an_error(content: str, solve: Solve) -> None:
    done = solve.rows(content)
    assert (done.status, done.lines) == (2, [])
    assert "is empty" in done.said


def test_a_missing_file_is_an_error(solve: Solve) -> None:
    done = solve("--problems", str(solve.folder / "none.jsonl"), *SCRIPTED)
    assert done.status == 2
    assert "none.jsonl" in done.said
    assert done.said.count("\n") == 1


def test_a_prompt_longer_than_the_context_is_that_rows_error(solve: Solve) -> None:
    path = solve.folder / "p.jsonl"
    path.write_text(f'{GOOD}\n{{"id": "long", "numbers": [{", ".join(["100"] * 10)}], "target": 100}}\n')
    done = solve("--problems", str(path), *SCRIPTED, "--context", "14")
    assert done.status == 2
    assert "p.jsonl, line 2: problem 'long'" in done.said
    assert "context" in str(done.line("long")["reason"])
    assert str(done.line("long")["reason"]).startswith("input: ")
    good = done.line("good")["bill"]
    assert isinstance(good, dict)
    assert good["policy_tokens"] > 0


@pytest.mark.parametrize("limit", ["simulations", "tokens", "evaluator-tokens", "seconds"])
def test_budget_0_runs_nothing_and_says_so(limit: str, solve: Solve) -> None:
    path = solve.folder / "p.jsonl"
    path.write_text(GOOD)
    done = solve("--problems", str(path), "--policy", "scripted", "--json", f"--{limit}", "0")
    (line,) = done.lines
    assert done.status == 0
    assert (line["answer"], line["finished"], line["value"]) == (None, False, None)
    assert "the budget is 0" in str(line["reason"])
    assert isinstance(line["bill"], dict)
    assert set(line["bill"].values()) == {0}


@pytest.mark.parametrize(("limit", "name"), [("--simulations", "simulations"), ("--tokens", "policy_tokens")])
@pytest.mark.parametrize("method", ["mcts", "greedy", "best-of-n", "majority"])
def test_budget_1_is_kept(limit: str, name: str, method: str, solve: Solve) -> None:
    path = solve.folder / "p.jsonl"
    path.write_text(GOOD)
    done = solve("--problems", str(path), "--policy", "scripted", "--json", "--method", method, limit, "1")
    (line,) = done.lines
    assert done.status == 0
    assert isinstance(line["bill"], dict)
    assert line["bill"][name] <= 1
    assert limit == "--simulations" or not line["finished"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--width", "0"], "width is 0"),
        (["--simulations=-1"], "budget simulations is -1"),
        (["--temperature", "nan"], "temperature is nan"),
        (["--config", "/no/such.toml"], "/no/such.toml"),
        (["--model", "/no/such/folder", "--policy", "transformers"], "/no/such/folder"),
        (["--model", "nobody/no-such-model", "--policy", "transformers"], "nobody/no-such-model"),
    ],
)
def test_bad_options_are_one_line_with_a_remedy(arguments: list[str], said: str, solve: Solve) -> None:
    done = solve("numbers 8 3 5 target 29", "--json", *arguments)
    assert (done.status, done.lines) == (2, [])
    (line,) = done.said.splitlines()
    assert said in line
    assert ". " in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--method", "mtcs"], "'mcts'"), (["--task", "maths"], "'math'"), (["--simulatons", "3"], "--simulations")],
)
def test_unknown_words_are_answered_with_known_ones(arguments: list[str], said: str, solve: Solve) -> None:
    done = solve("numbers 8 3 5 target 29", *arguments)
    assert (done.status, done.lines) == (2, [])
    assert said in done.said


def test_unknown_commands_are_answered_with_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slove"]) == 2
    assert "did you mean 'solve'?" in capsys.readouterr().err
    assert main([]) == 2


def test_a_model_folder_without_a_tokenizer_is_named(solve: Solve) -> None:
    """S35: a folder is checked before anything is loaded."""
    folder = solve.folder / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}')
    (folder / "model.safetensors").write_bytes(b"\0" * 16)
    done = solve("numbers 8 3 5 target 29", "--json", "--policy", "transformers", "--model", str(folder))
    assert done.status == 2
    (line,) = done.said.splitlines()
    assert str(folder) in line
    assert "tokenizer" in line


def test_an_unwritable_output_stops_before_anything_runs(solve: Solve) -> None:
    file = solve.folder / "file"
    file.write_text("in the way")
    done = solve("numbers 8 3 5 target 29", *SCRIPTED, "--output", str(file / "out"))
    assert (done.status, done.lines) == (2, [])
    assert str(file / "out") in done.said
    assert file.read_text() == "in the way"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_named_and_is_no_internal_error(solve: Solve) -> None:
    out = solve.folder / "out"
    out.mkdir()
    (out / "results.jsonl").symlink_to("/dev/full")
    done = solve("numbers 8 3 5 target 29", *SCRIPTED, "--output", str(out), "--overwrite")
    assert done.status == 2
    assert "results.jsonl: No space left on device" in done.said
    assert "internal error" not in done.said


def test_results_in_the_way_of_a_folder_are_named(solve: Solve) -> None:
    out = solve.folder / "out"
    (out / "results.jsonl").mkdir(parents=True)
    done = solve("numbers 8 3 5 target 29", *SCRIPTED, "--output", str(out), "--overwrite")
    assert (done.status, done.lines) == (2, [])
    assert "results.jsonl: Is a directory" in done.said


def test_existing_results_are_not_overwritten_unasked(solve: Solve) -> None:
    out = solve.folder / "out"
    arguments = ["numbers 8 3 5 target 29", *SCRIPTED, "--output", str(out)]
    assert solve(*arguments).status == 0
    before = (out / "results.jsonl").read_bytes()
    done = solve(*arguments, "--seed", "1")
    assert (done.status, done.lines) == (2, [])
    assert "--overwrite" in done.said
    assert (out / "results.jsonl").read_bytes() == before
    assert solve(*arguments, "--seed", "1", "--overwrite").status == 0
    assert json.loads((out / "config.json").read_text())["options"]["seed"] == 1
    assert len(list((out / "traces").glob("*.parquet"))) == 1


def test_an_interrupted_run_keeps_what_is_finished(tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["--generate", "3000", "--policy", "scripted", "--simulations", "8", "--json", "--output", str(out)]
    process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    first = [process.stdout.readline() for _ in range(20)]
    process.send_signal(signal.SIGINT)
    rest, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in said
    assert "Traceback" not in said
    lines = [*first, *rest.splitlines(keepends=True)]
    assert 20 <= len(lines) < 3000
    stored = (out / "results.jsonl").read_text().splitlines(keepends=True)
    assert stored == lines
    from treewise.search.trace_parquet import read_traces

    traced = [trace.problem.id for shard in sorted((out / "traces").glob("*.parquet")) for trace in read_traces(shard)]
    assert traced == [json.loads(line)["id"] for line in lines]


def test_a_terminated_run_keeps_what_is_finished(tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["--generate", "3000", "--policy", "scripted", "--simulations", "8", "--json", "--output", str(out)]
    process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "Traceback" not in said
    assert list((out / "traces").glob("*.parquet"))


def test_a_reader_that_goes_early_is_no_traceback() -> None:
    arguments = ["--generate", "3000", "--policy", "scripted", "--simulations", "8", "--json"]
    process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    started = time.monotonic()
    said = process.stderr.read()
    assert process.wait(timeout=60) == 141
    process.stderr.close()
    assert time.monotonic() - started < 30
    assert "Traceback" not in said
    assert "BrokenPipe" not in said


def test_help_and_version_load_no_model_library() -> None:
    """Help is there at once: what takes seconds to import is not imported."""
    code = (
        "import sys\n"
        "from treewise.app.main import main\n"
        "assert main(['--version']) == 0\n"
        "assert main(['solve', '--help']) == 0\n"
        "heavy = {'torch', 'transformers', 'vllm', 'numba', 'pyarrow', 'networkx'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    environment = {**os.environ, "COLUMNS": "100"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("treewise ")
