"""How good is the embedded policy alone? Greedy accuracy and pass@1, 8 and 64 on Countdown's test split, per count of numbers.

Run: python -m benchmarks.policy_quality [--model FOLDER] [--problems 200] [--policy vllm]
Writes benchmarks/baselines/policy_quality.json and, with --record FILE, the same figures into the model's folder.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import tyro

from benchmarks.statistics import bootstrap, pass_at, wilson
from treewise.app.config import ModelOptions
from treewise.app.models import build_policy
from treewise.search.budget import Budget
from treewise.search.driver import Driver
from treewise.search.methods import start_search
from treewise.search.settings import SearchSettings
from treewise.search.tree_search import TreeSearch
from treewise.search.types import Policy, Problem
from treewise.value.countdown_problems import generate
from treewise.value.evaluators import JudgementEvaluator
from treewise.value.tasks import task_named


@dataclass(frozen=True)
class Arguments:
    """What is measured."""

    model: str | None = None
    """Model folder; the embedded policy if left out."""
    policy: Literal["vllm", "transformers"] = "vllm"
    """Backend: vllm or transformers."""
    problems: int = 200
    """Problems a count of numbers."""
    counts: tuple[int, ...] = (3, 4, 5, 6)
    """Counts of numbers."""
    samples: int = 64
    """Solutions a problem at temperature 1."""
    seed: int = 0
    """Seed of problems and samples."""
    output: Path = Path(__file__).parent / "baselines" / "policy_quality.json"
    """Where the figures go."""


def right_counts(policy: Policy, searches: list[TreeSearch]) -> tuple[list[int], int]:
    """Return how many samples of each search are proven right, in the order given, and the tokens generated."""
    driver = Driver(policy, JudgementEvaluator(task_named("countdown")))
    tokens = 0
    right: dict[str, int] = {}
    for search in driver.run(searches, concurrency=64):
        if search.answer().error is not None:
            raise search.answer().error
        tokens += search.bill.policy_tokens
        tree = search.solutions
        right[search.problem.id] = sum(tree.tree.multiplicity(n) for n in tree.finished if tree.judgements[n].proven)
    return [right[search.problem.id] for search in searches], tokens


def main(arguments: Arguments) -> None:
    """Measure and write."""
    task = task_named("countdown")
    policy = build_policy(ModelOptions(policy=arguments.policy, model=arguments.model), task)
    rows = []
    for count in arguments.counts:
        problems = generate(arguments.problems, numbers=count, split="test", seed=arguments.seed)

        def begin(method: str, samples: int, problems: list[Problem] = problems) -> list[TreeSearch]:
            changes = {"samples": samples} if method == "best-of-n" else {}
            settings = SearchSettings(method=method, stop_when_proven=False, choose="majority", **changes)
            return [
                start_search(
                    p,
                    policy.encode(task.prompt(p)),
                    task=task,
                    settings=settings,
                    budget=Budget(),
                    seed=arguments.seed,
                    context_length=policy.context_length,
                )
                for p in problems
            ]

        greedy, _ = right_counts(policy, begin("greedy", 1))
        began = time.monotonic()
        right, tokens = right_counts(policy, begin("best-of-n", arguments.samples))
        seconds = time.monotonic() - began
        row: dict[str, object] = {"numbers": count, "problems": len(problems)}
        row["greedy"] = [sum(greedy) / len(greedy), *wilson(sum(greedy), len(greedy))]
        for k in (1, 8, 64):
            if k <= arguments.samples:
                chances = [pass_at(k, samples=arguments.samples, correct=c) for c in right]
                row[f"pass@{k}"] = [sum(chances) / len(chances), *bootstrap(chances)]
        row["tokens_per_solution"] = tokens / (len(problems) * arguments.samples)
        row["tokens_per_second"] = tokens / seconds
        rows.append(row)
        print(json.dumps(row), flush=True)
    policy.close()
    record = {"command": "python -m benchmarks.policy_quality", "settings": asdict(arguments), "rows": rows}
    record["settings"].update(model=arguments.model or "embedded", output=arguments.output.name)
    arguments.output.parent.mkdir(exist_ok=True)
    arguments.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Arguments)))
