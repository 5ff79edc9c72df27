"""One real run on math problems: greedy, best of n by majority, and MCTS with a model folder of your own.

Takes long without a GPU and needs a model and problems that the project does not ship, so it is run by hand:
    python -m benchmarks.math_by_hand --model FOLDER --problems FILE.jsonl --count 20
Writes benchmarks/baselines/math_by_hand.json.
"""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from benchmarks.statistics import wilson
from treewise.app.config import ModelOptions
from treewise.app.models import build_policy
from treewise.search.budget import Budget
from treewise.search.driver import Driver
from treewise.search.methods import start_search
from treewise.search.settings import SearchSettings
from treewise.search.types import VerdictKind
from treewise.value.evaluators import JudgementEvaluator
from treewise.value.tasks import task_named


@dataclass(frozen=True)
class Arguments:
    """What is measured."""

    model: str
    """Model folder."""
    problems: Path
    """Rows of id, problem, answer."""
    count: int = 20
    """Problems, from the first."""
    samples: int = 4
    """Solutions of best-of-n, and simulations of MCTS."""
    tokens: int = 2000
    """Policy tokens a problem, for each method."""
    methods: tuple[Literal["greedy", "majority", "mcts"], ...] = ("greedy", "majority", "mcts")
    """What to run; rows of the others are kept from the last time."""
    policy: Literal["vllm", "transformers"] = "vllm"
    """Backend."""
    temperature: float = 0.7
    """Of sampling."""
    seed: int = 0
    """Seed of samples."""
    output: Path = Path(__file__).parent / "baselines" / "math_by_hand.json"
    """Where the figures go."""


def main(arguments: Arguments) -> None:
    """Measure and write."""
    task = task_named("math")
    with arguments.problems.open(encoding="utf-8") as lines:
        items = [task.read(json.loads(line)) for line in itertools.islice(lines, arguments.count)]
    references = {problem.id: reference for problem, reference in items}
    options = ModelOptions(task="math", policy=arguments.policy, model=arguments.model, temperature=arguments.temperature)
    policy = build_policy(options, task)
    methods = {
        "greedy": (SearchSettings(method="greedy"), Budget(tokens=arguments.tokens)),
        "majority": (
            SearchSettings(method="majority", samples=arguments.samples, prune=False),
            Budget(tokens=arguments.tokens),
        ),
        "mcts": (
            SearchSettings(choose="majority", prune=False),
            Budget(tokens=arguments.tokens, simulations=arguments.samples),
        ),
    }
    rows = earlier(arguments)
    for name in arguments.methods:
        settings, budget = methods[name]
        began, right, finished, tokens, cached, read = time.monotonic(), 0, 0, 0, 0, 0
        searches = (
            start_search(
                problem,
                policy.encode(task.prompt(problem)),
                task=task,
                settings=settings,
                budget=budget,
                seed=arguments.seed,
                context_length=policy.context_length,
            )
            for problem, _ in items
        )
        for search in Driver(policy, JudgementEvaluator(task)).run(searches, concurrency=arguments.count):
            answer = search.answer()
            if answer.error is not None:
                raise answer.error
            finished += answer.finished
            tokens += answer.bill.policy_tokens
            cached += answer.bill.cached_tokens
            read += answer.bill.prompt_tokens
            if answer.text is not None:
                verdict = task.verify(search.problem, answer.text, references[search.problem.id])
                right += verdict.kind is VerdictKind.CORRECT
        seconds = time.monotonic() - began
        row = {"method": name, "problems": len(items), "right": right, "interval": wilson(right, len(items))}
        row |= {"finished": finished, "policy_tokens": tokens, "prompt_tokens": read, "cached_tokens": cached, "seconds": seconds}
        rows = [kept for kept in rows if kept["method"] != name] + [row]
        print(json.dumps(row), flush=True)
        write(arguments, rows)
    policy.close()


def earlier(arguments: Arguments) -> list[dict[str, object]]:
    """Rows of the last run that this one does not measure."""
    if not arguments.output.exists():
        return []
    rows: list[dict[str, object]] = json.loads(arguments.output.read_text())["rows"]
    return [row for row in rows if row["method"] not in arguments.methods]


def write(arguments: Arguments, rows: list[dict[str, object]]) -> None:
    """Write what is measured so far: each method takes minutes."""
    record = {"command": "python -m benchmarks.math_by_hand --model FOLDER --problems FILE.jsonl", "rows": rows}
    record |= {"count": arguments.count, "tokens": arguments.tokens, "temperature": arguments.temperature, "seed": arguments.seed}
    arguments.output.parent.mkdir(exist_ok=True)
    arguments.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Arguments))
