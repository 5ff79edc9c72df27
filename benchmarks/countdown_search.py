"""Is searching worth its tokens today? MCTS against best-of-n on Countdown's test split at equal token budgets.

Both may stop at the first answer that the task proves; a problem counts as solved when that happens within the budget. Every
budget is a run of its own, since MCTS plans with it. 95 % Wilson intervals.

Run: python -m benchmarks.countdown_search [--problems 200] [--policy vllm]
Writes benchmarks/baselines/countdown_search.json.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field, replace
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
from treewise.search.types import Policy, Problem
from treewise.value.countdown import Split
from treewise.value.countdown_problems import generate
from treewise.value.evaluators import JudgementEvaluator
from treewise.value.tasks import task_named

PLENTY = 100_000
"""Samples that best-of-n may draw: the token budget ends it."""


@dataclass(frozen=True)
class Arguments:
    """What is measured."""

    policy: Literal["vllm", "transformers"] = "vllm"
    """Backend."""
    model: str | None = None
    """Model folder; the embedded policy if left out."""
    problems: int = 200
    """Problems a count of numbers."""
    counts: tuple[int, ...] = (4, 5, 6)
    """Counts of numbers."""
    budgets: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048)
    """Policy tokens a problem."""
    split: Split = "test"
    """validation while tuning, test for the figures."""
    seed: int = 0
    """Seed of problems and samples."""
    settings: SearchSettings = field(default_factory=SearchSettings)
    """Of MCTS."""
    output: Path = Path(__file__).parent / "baselines" / "countdown_search.json"
    """Where the figures go."""


def solved(policy: Policy, problems: list[Problem], *, settings: SearchSettings, tokens: int, seed: int) -> dict[str, float]:
    """Return how many problems are solved, the tokens used a problem, and seconds for all."""
    task = task_named("countdown")
    searches = (
        start_search(
            problem,
            policy.encode(task.prompt(problem)),
            task=task,
            settings=settings,
            budget=Budget(tokens=tokens),
            seed=seed,
            context_length=policy.context_length,
        )
        for problem in problems
    )
    began, right, used, rounds = time.monotonic(), 0, 0, 0
    for search in Driver(policy, JudgementEvaluator(task)).run(searches, concurrency=64):
        answer = search.answer()
        if answer.error is not None:
            raise answer.error
        right += answer.finished
        used += answer.bill.policy_tokens
        rounds += answer.bill.rounds
    count = len(problems)
    return {"solved": right, "tokens": used / count, "rounds": rounds / count, "seconds": time.monotonic() - began}


def main(arguments: Arguments) -> None:
    """Measure and write."""
    task = task_named("countdown")
    policy = build_policy(ModelOptions(policy=arguments.policy, model=arguments.model), task)
    best_of = replace(SearchSettings(method="best-of-n"), samples=PLENTY)
    rows = []
    for count in arguments.counts:
        problems = generate(arguments.problems, numbers=count, split=arguments.split, seed=arguments.seed)
        for tokens in arguments.budgets:
            for name, settings in (("mcts", arguments.settings), ("best-of-n", best_of)):
                row = {"numbers": count, "budget": tokens, "method": name, "problems": len(problems)}
                row |= solved(policy, problems, settings=settings, tokens=tokens, seed=arguments.seed)
                row["share"] = row["solved"] / len(problems)
                row["interval"] = wilson(int(row["solved"]), len(problems))
                rows.append(row)
                print(json.dumps(row), flush=True)
    policy.close()
    settings_record = asdict(arguments) | {"model": arguments.model or "embedded", "output": arguments.output.name}
    record = {"command": "python -m benchmarks.countdown_search", "settings": settings_record, "rows": rows}
    arguments.output.parent.mkdir(exist_ok=True)
    arguments.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Arguments))
