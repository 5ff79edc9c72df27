"""`treewise solve` as users call it: the fixed interface, every source, repeatability, verdicts, faults, a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from treewise.app.main import main
from treewise.policy.scripted import ScriptedPolicy, decode_bytes, text_step
from treewise.search.trace_parquet import read_traces
from treewise.search.types import (
    Evaluation,
    Ids,
    InputError,
    ModelNotFound,
    PolicyError,
    Prompt,
    Proposal,
    Step,
    StepRequest,
    TreewiseError,
)
from treewise.search.types import Path as Solution

ROWS = [
    {"id": "a", "numbers": [8, 3, 5], "target": 29},
    {"id": "b", "numbers": [4, 6, 1], "target": 24},
    {"id": "c", "numbers": [7, 7, 7], "target": 199},
    {"id": "d", "numbers": [9, 2, 10, 5], "target": 35},
]
"""`c` has no solution: (7 + 7) * 7 = 98 is the largest legal result of three sevens, since 343 is above 200."""

FIXED = ["--task", "countdown", "--method", "mcts", "--simulations", "32", "--tokens", "2000", "--seed", "0", "--json"]
BILL = {"policy_tokens", "evaluator_tokens", "cached_tokens", "rounds", "seconds", "simulations"}

Lines = list[dict[str, Any]]
Call = Callable[..., tuple[int, Lines, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """`treewise solve` in this process: status, lines, messages."""

    def run(*arguments: str) -> tuple[int, Lines, str]:
        status = main(["solve", *arguments])
        printed = capsys.readouterr()
        return status, [json.loads(line) for line in printed.out.splitlines()], printed.err

    return run


@pytest.fixture
def problems(tmp_path: Path) -> str:
    """A file of four Countdown problems."""
    path = tmp_path / "problems.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return str(path)


def exact(expression: str) -> Fraction:
    """The value of an expression, by Python's own parser over exact fractions."""
    assert re.fullmatch(r"[0-9+\-*/() ]+", expression)
    return eval(re.sub(r"(\d+)", r"Fraction(\1)", expression), {"Fraction": Fraction})


def without_seconds(lines: Lines) -> Lines:
    """The lines in the order of their ids, without wall-clock times."""
    kept = [{**line, "bill": {k: v for k, v in line["bill"].items() if k != "seconds"}} for line in lines]
    return sorted(kept, key=lambda line: str(line["id"]))


def test_the_fixed_interface(problems: str, call: Call) -> None:
    status, lines, _ = call("--problems", problems, *FIXED, "--policy", "scripted")
    assert status == 0
    assert sorted(line["id"] for line in lines) == ["a", "b", "c", "d"]
    for line in lines:
        assert list(line) == ["id", "answer", "finished", "verdict", "value", "reason", "bill"]
        assert line["bill"].keys() >= BILL
        assert line["reason"]
        assert 0 < line["bill"]["policy_tokens"] <= 2000
        assert 0 < line["bill"]["simulations"] <= 32
        assert line["finished"] == (line["answer"] is not None)
        assert line["verdict"] == ("correct" if line["finished"] else None)
        if line["finished"]:
            row = next(row for row in ROWS if row["id"] == line["id"])
            assert exact(line["answer"]) == row["target"]
            assert sorted(map(int, re.findall(r"\d+", line["answer"]))) == sorted(row["numbers"])  # type: ignore[call-overload]
    solved = {line["id"] for line in lines if line["finished"]}
    assert "c" not in solved
    assert solved


def test_every_source_gives_the_same_results(problems: str, call: Call, tmp_path: Path) -> None:
    _, lines, _ = call("--problems", problems, *FIXED, "--policy", "scripted")
    parquet = tmp_path / "problems.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), parquet)
    _, from_parquet, _ = call("--problems", str(parquet), *FIXED, "--policy", "scripted")
    assert without_seconds(from_parquet) == without_seconds(lines)
    command = [sys.executable, "-m", "treewise.app.main", "solve", "--problems", "-", *FIXED, "--policy", "scripted"]
    done = subprocess.run(command, input=Path(problems).read_bytes(), capture_output=True, check=True)
    assert without_seconds([json.loads(line) for line in done.stdout.splitlines()]) == without_seconds(lines)
    status, (line,), _ = call("numbers 8 3 5 target 29", *FIXED, "--policy", "scripted")
    assert (status, line["id"]) == (0, "command-line")


def test_generated_problems_are_those_of_the_generator(call: Call) -> None:
    from treewise.value.countdown_problems import generate

    _, lines, _ = call(
        "--generate", "6", "--numbers", "5", "--split", "validation", *FIXED, "--seed", "3", "--policy", "scripted"
    )
    wanted = [problem.id for problem in generate(6, numbers=5, split="validation", seed=3)]
    assert sorted(line["id"] for line in lines) == sorted(wanted)


def test_the_seed_decides(problems: str, call: Call) -> None:
    arguments = ["--problems", problems, "--policy", "scripted", "--simulations", "8", "--width", "4"]
    first, again, other = (without_seconds(call(*arguments, "--seed", seed)[1]) for seed in ("0", "0", "1"))
    assert first == again
    assert first != other


def test_concurrency_does_not_change_results(problems: str, call: Call) -> None:
    arguments = ["--problems", problems, "--policy", "scripted", "--simulations", "8"]
    one, many = (without_seconds(call(*arguments, "--concurrency", n)[1]) for n in ("1", "64"))
    assert one == many


@pytest.mark.parametrize(("concurrency", "most"), [("1", 1), ("2", 2), ("64", 4)])
def test_concurrency_bounds_the_problems_under_way(
    concurrency: str, most: int, problems: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    from treewise.policy.countdown_script import END, decode_words, encode_words, random_steps

    under_way: list[int] = []

    class Watched(ScriptedPolicy):
        def collect(self, *, wait: bool) -> list[Proposal]:
            prompts = {request.ids[: request.prompt_length] for ticket, request in self.requests if ticket in self._under_way}
            under_way.append(len(prompts))
            return super().collect(wait=wait)

    play(monkeypatch, Watched(random_steps, encode=encode_words, decode=decode_words, vocabulary_size=END + 1))
    call("--problems", problems, *FIXED, "--concurrency", concurrency)
    assert max(under_way) == most


@pytest.mark.parametrize("method", ["mcts", "greedy", "best-of-n", "majority"])
def test_every_method_runs_within_its_budget(method: str, problems: str, call: Call) -> None:
    status, lines, _ = call("--problems", problems, "--policy", "scripted", "--method", method)
    assert status == 0
    limit = {"mcts": 32, "greedy": 1}.get(method, 16)
    assert all(0 < line["bill"]["simulations"] <= limit for line in lines)


def test_method_auto_says_what_it_took_and_why_and_keeps_it(problems: str, call: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    _, lines, said = call("--problems", problems, "--policy", "scripted", "--method", "auto", "--output", str(out))
    options = json.loads((out / "config.json").read_text())["options"]
    assert (options["method"], options["simulations"]) == ("mcts", 32)
    assert f"method auto took mcts: {options['method_reason']}" in said
    (shard,) = (out / "traces").glob("*.parquet")
    for trace in read_traces(shard):
        assert trace.origin.method == "mcts"
        assert json.loads(trace.origin.config)["method_reason"] == options["method_reason"]
    _, again, _ = call("--config", str(out / "config.toml"))
    assert [line["answer"] for line in again] == [line["answer"] for line in lines]
    _, _, said = call("--problems", problems, "--policy", "scripted", "--method", "mcts", "--simulations", "2")
    assert "auto" not in said


def test_the_output_folder_holds_results_traces_and_config(problems: str, call: Call, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    _, lines, _ = call("--problems", problems, *FIXED, "--policy", "scripted", "--output", str(out))
    assert [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()] == lines
    config = json.loads((out / "config.json").read_text())
    assert config["options"]["simulations"] == 32
    traces = [trace for shard in sorted((out / "traces").glob("*.parquet")) for trace in read_traces(shard)]
    assert [trace.problem.id for trace in traces] == [line["id"] for line in lines]
    for trace, line in zip(traces, lines, strict=True):
        assert trace.origin.config_hash == config["hash"]
        assert json.loads(trace.origin.config) == config["deciding"]
        assert trace.outcome.text == line["answer"]
        assert trace.outcome.bill.policy_tokens == line["bill"]["policy_tokens"]
        assert (None if trace.verdict is None else trace.verdict.kind.value) == line["verdict"]


def test_the_stored_config_repeats_the_run(problems: str, call: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    _, lines, _ = call("--problems", problems, *FIXED, "--policy", "scripted", "--width", "3", "--output", str(out))
    _, again, _ = call("--config", str(out / "config.toml"))
    assert without_seconds(again) == without_seconds(lines)


def test_a_bad_row_leaves_status_2_and_good_results(problems: str, call: Call) -> None:
    with open(problems, "a") as file:
        file.write("not json\n")
    status, lines, said = call("--problems", problems, *FIXED, "--policy", "scripted")
    assert status == 2
    assert {line["id"] for line in lines} == {"a", "b", "c", "d", "line 5"}
    assert "line 5" in said


def boxed(ids: Ids, seed: int) -> tuple[Step, ...]:
    """Two steps, the last of which answers 72."""
    steps = (text_step("48 / 2 = 24\n\n"), text_step("48 + 24 is \\boxed{72}", end=True))
    return steps[1:] if decode_bytes(ids).endswith(steps[0].text) else steps


def play(monkeypatch: pytest.MonkeyPatch, policy: ScriptedPolicy) -> None:
    monkeypatch.setattr("treewise.app.models.build_policy", lambda options, task, **_: policy)


def test_verdicts_of_math_need_a_reference(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, ScriptedPolicy(boxed))
    path = tmp_path / "math.jsonl"
    rows = [
        {"id": "right", "problem": "48 and half of it?", "answer": "#### 72"},
        {"id": "wrong", "problem": "48 and half of it?", "answer": 71},
        {"id": "open", "problem": "48 and half of it?"},
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    status, lines, _ = call("--task", "math", "--model", "any", "--problems", str(path), "--simulations", "4")
    assert status == 0
    assert {line["id"]: (line["answer"], line["verdict"]) for line in lines} == {
        "right": ("72", "correct"),
        "wrong": ("72", "incorrect"),
        "open": ("72", None),
    }


def test_the_reference_never_reaches_the_policy(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = ScriptedPolicy(boxed)
    play(monkeypatch, policy)
    path = tmp_path / "math.jsonl"
    path.write_text('{"id": "x", "problem": "48 and half of it?", "answer": "987654321"}\n')
    call("--task", "math", "--model", "any", "--problems", str(path), "--simulations", "4")
    assert policy.requests
    assert not any("987654321" in policy.decode(request.ids) for _, request in policy.requests)


def test_a_failing_problem_is_status_1_and_the_others_go_on(problems: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """S22: broken infrastructure is said in the record and in the exit status, never a wrong answer or a silence."""
    from treewise.policy.countdown_script import END, decode_words, encode_words, random_steps

    def fault(ticket: int, request: StepRequest) -> PolicyError | None:
        return PolicyError("the backend lost it", "start anew") if "target 24 " in decode_words(request.ids) else None

    play(
        monkeypatch, ScriptedPolicy(random_steps, encode=encode_words, decode=decode_words, vocabulary_size=END + 1, fault=fault)
    )
    status, lines, said = call("--problems", problems, *FIXED)
    assert status == 1
    by_id = {line["id"]: line for line in lines}
    assert by_id["b"]["reason"].startswith("failed: ")
    assert "the backend lost it" in by_id["b"]["reason"]
    assert (by_id["b"]["answer"], by_id["b"]["verdict"]) == (None, None)
    assert "problem 'b' failed" in said
    assert all(by_id[name]["bill"]["simulations"] > 0 and "failed" not in by_id[name]["reason"] for name in "acd")


def test_an_evaluator_without_numbers_is_status_1(problems: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """S04: a value that is none ends the search with its reason, and is never a default."""

    class Broken:
        fingerprint = "broken"

        def evaluate(self, paths: list[Solution]) -> list[Evaluation]:
            return [Evaluation(float("nan")) for _ in paths]

    monkeypatch.setattr("treewise.app.models.build_evaluator", lambda options, task: Broken())
    status, lines, _ = call("--problems", problems, *FIXED, "--policy", "scripted")
    assert status == 1
    assert all(line["reason"].startswith(("failed: ", "no path ended in an answer: every path is")) for line in lines)
    assert any("nan" in line["reason"] for line in lines)


def test_a_dead_backend_ends_every_problem_with_its_reason(problems: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from treewise.policy.countdown_script import END, decode_words, encode_words, random_steps

    play(
        monkeypatch, ScriptedPolicy(random_steps, encode=encode_words, decode=decode_words, vocabulary_size=END + 1, fail_after=0)
    )
    status, lines, _ = call("--problems", problems, *FIXED)
    assert status == 1
    assert len(lines) == len(ROWS)
    assert all(line["reason"].startswith("failed: ") for line in lines)


def test_a_limit_of_steps_below_the_problems_is_said(problems: str, call: Call) -> None:
    """S28: no silent run of paths that cannot finish."""
    _, lines, said = call("--problems", problems, *FIXED, "--policy", "scripted", "--max-steps", "1")
    assert "max_steps is 1, but solutions here have up to 3 steps" in said
    assert not any(line["finished"] for line in lines)
    assert "max_steps" not in call("--problems", problems, *FIXED, "--policy", "scripted", "--max-steps", "3")[2]


def test_steps_longer_than_the_context_are_said(call: Call) -> None:
    """S44: the limit is lowered with a message, and the run goes on."""
    arguments = ["numbers 8 3 5 target 29", "--policy", "scripted", "--context", "40", "--step-tokens", "4000"]
    status, (line,), said = call(*arguments)
    assert status == 0
    assert "step_tokens is 4000, but the model's context is 40" in said
    assert line["bill"]["policy_tokens"] > 0


def test_a_terminal_gets_a_bar_and_a_table(problems: str) -> None:
    """S10: progress is seen while it runs; the table and summary stand at the end."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "treewise.app.main", "solve", "--problems", problems, "--policy", "scripted"]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "160", "NO_COLOR": "1"}
    process = subprocess.Popen(command, stdout=follower, stderr=follower, stdin=subprocess.DEVNULL, env=environment)
    os.close(follower)
    shown = b""
    while True:
        try:
            piece = os.read(leader, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(leader)
    assert process.wait(timeout=60) == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert "━" in text
    assert re.search(r"problem\s+answer\s+verdict\s+value\s+tokens\s+simulations\s+seconds\s+reason", text)
    assert len(re.findall(r"\d of 4 correct, .*policy tokens, .* tokens/s", text)) == 1
    assert '{"id"' not in text


def test_a_real_model_on_transformers(problems: str, tiny_model: Path, call: Call) -> None:
    status, lines, _ = call("--problems", problems, *FIXED, "--policy", "transformers", "--model", str(tiny_model))
    assert status == 0
    assert len(lines) == len(ROWS)
    assert all(0 < line["bill"]["policy_tokens"] <= 2000 for line in lines)


def test_sampling_options_reach_the_model(tiny_model: Path, call: Call) -> None:
    """Without randomness all samples of a solution are one: best-of-n has only duplicates."""
    arguments = ["numbers 8 3 5 target 29", "--policy", "transformers", "--model", str(tiny_model)]
    arguments += ["--method", "best-of-n", "--samples", "6", "--merge", "ids"]
    free, cold, narrow = (
        call(*arguments, *more)[1][0]["bill"]["duplicates"] for more in ([], ["--temperature", "0"], ["--top-p", "0.01"])
    )
    assert cold > free
    assert narrow > free


def test_the_embedded_model_solves_countdown(problems: str, call: Call) -> None:
    from treewise.policy.reasoner import embedded_model

    try:
        embedded_model()
    except ModelNotFound:
        pytest.skip("the embedded model is not built yet")
    status, lines, _ = call("--problems", problems, *FIXED, "--policy", "transformers")
    assert status == 0
    solved = {line["id"] for line in lines if line["verdict"] == "correct"}
    assert len(solved) >= 2
    assert "c" not in solved


@pytest.mark.parametrize("lines", [[], ["--json"]])
def test_one_line_on_standard_error_closes_a_run_without_a_table(lines: list[str], problems: str, call: Call) -> None:
    """Standard output holds JSON lines alone, and the counts are said all the same."""
    status, found, said = call("--problems", problems, "--policy", "scripted", "--simulations", "32", *lines)
    solved, tokens = sum(line["verdict"] == "correct" for line in found), sum(line["bill"]["policy_tokens"] for line in found)
    assert status == 0
    assert len(found) == len(ROWS)
    (closing,) = [line for line in said.splitlines() if " correct, " in line]
    wanted = f"treewise: {solved} of 4 correct, {4 - solved} unfinished, "
    assert closing.startswith(wanted)
    assert re.search(rf" {tokens:,} policy tokens, (at most [\d,]+ more in cancelled requests, )?\d+\.\d s ", closing)


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (PolicyError("no tokenizer", "start anew"), 1, "failed: no tokenizer"),
        (InputError("no words", "write some"), 2, "input: no"),
    ],
)
def test_a_prompt_that_cannot_be_encoded_ends_that_problem_alone(
    error: TreewiseError, status: int, reason: str, problems: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    from treewise.policy.countdown_script import END, decode_words, encode_words, random_steps

    class Choosy(ScriptedPolicy):
        def encode(self, prompt: Prompt) -> Ids:
            if "target 24" in prompt.raw:
                raise error
            return super().encode(prompt)

    play(monkeypatch, Choosy(random_steps, encode=encode_words, decode=decode_words, vocabulary_size=END + 1))
    found, lines, said = call("--problems", problems, *FIXED, "--concurrency", "1")
    assert found == status
    by_id = {line["id"]: line for line in lines}
    assert by_id.keys() == {"a", "b", "c", "d"}
    assert by_id["b"]["reason"].startswith(reason)
    assert (by_id["b"]["answer"], by_id["b"]["verdict"], by_id["b"]["bill"]["policy_tokens"]) == (None, None, 0)
    assert "problem 'b'" in said
    assert all(by_id[name]["bill"]["simulations"] > 0 and "failed" not in by_id[name]["reason"] for name in "acd")


@pytest.mark.vllm
@pytest.mark.slow
def test_a_real_model_on_vllm(problems: str, tiny_model: Path, tmp_path: Path) -> None:
    """Standard output holds nothing but the lines, whatever the engine's processes print."""
    out = tmp_path / "out"
    arguments = ["--problems", problems, *FIXED, "--policy", "vllm", "--model", str(tiny_model), "--output", str(out)]
    command = [sys.executable, "-m", "treewise.app.main", "solve", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(line["id"] for line in lines) == ["a", "b", "c", "d"]
    assert all(0 < line["bill"]["policy_tokens"] <= 2000 for line in lines)
    assert (out / "results.jsonl").read_text() == done.stdout
    assert "Traceback" not in done.stderr
