"""Every search method on the scripted worlds under hard budgets of policy steps: who finds the right answer, in how many rounds?

Run: python -m benchmarks.methods_worlds [--methods mcts "mcts:lanes=1,backup=max"] [--worlds clean both] [--seeds 300]
Writes benchmarks/baselines/methods_worlds.json (rows measured before are kept) and prints a table. 95 % Wilson intervals.

A method is told the prompt, the budget and nothing else: no depth, no noise, no share. Tune on other seeds than those of the
figures: `--first-seed 0`. The simulated clock of `world_models` gives seconds a problem, the policy's
idle share, how full its passes and the evaluator's calls are, and problems a second.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tyro

from benchmarks.statistics import wilson
from benchmarks.world_models import Clock, OpenWorlds, WorldEvaluator, WorldPolicy, WorldTask, simulated_driver
from benchmarks.worlds import WORLDS, WorldServer, WorldSpec
from treewise.search.budget import Budget
from treewise.search.methods import METHODS, start_search
from treewise.search.settings import SearchSettings
from treewise.search.types import InputError

TEST_SEED = 1_000_000
"""First seed of the published figures; tuning uses those below."""

PLENTY = 100_000
"""Samples of the methods that draw whole solutions: the budget ends them."""

DRAWERS = ("best-of-n", "majority")
"""Methods that take the number of samples."""

KEY = ("method", "world", "budget", "first_seed", "seeds")
"""Fields that name a row."""


@dataclass(frozen=True)
class Arguments:
    """What is measured."""

    methods: tuple[str, ...] = tuple(METHODS)
    """Methods, each with settings of its own if need be: `mcts:lanes=1,backup=max`."""
    worlds: tuple[str, ...] = tuple(WORLDS)
    """Worlds."""
    budgets: tuple[int, ...] = (128, 512)
    """Policy steps a problem."""
    seeds: int = 300
    """Problems a world."""
    first_seed: int = TEST_SEED
    """Seed of the first problem."""
    concurrency: int = 64
    """Problems side by side."""
    output: Path = Path(__file__).parent / "baselines" / "methods_worlds.json"
    """Where the figures go."""


def parse_method(word: str) -> SearchSettings:
    """Return the settings that a word like `mcts:lanes=1,backup=max` stands for. Raises InputError.

    >>> parse_method("mcts:lanes=1").lanes
    1
    """
    name, _, rest = word.partition(":")
    if name not in METHODS:
        raise InputError(f"method is {name!r}", f"give one of {', '.join(METHODS)}")
    options: dict[str, Any] = {"samples": PLENTY} if name in DRAWERS else {}
    for pair in filter(None, rest.split(",")):
        key, _, value = pair.partition("=")
        try:
            options[key] = json.loads(value)
        except json.JSONDecodeError:
            options[key] = value
    try:
        return SearchSettings(method=name, **options)
    except TypeError as error:
        raise InputError(f"{word!r} has a setting that does not exist", str(error)) from error


def measure(
    server: WorldServer, spec: WorldSpec, settings: SearchSettings, *, budget: int, seeds: Iterable[int], concurrency: int
) -> dict[str, Any]:
    """Return one row: what a method reaches in one kind of world. Raises when a search fails or passes its budget."""
    clock, task = Clock(), WorldTask()
    worlds = OpenWorlds(server, {spec.name: spec})
    policy, evaluator = WorldPolicy(worlds, clock=clock), WorldEvaluator(worlds, clock=clock)
    problems = {(read := task.read({"world": spec.name, "seed": seed})[0]).id: (read, seed) for seed in seeds}
    searches = (
        start_search(
            problem, policy.encode(task.prompt(problem)), task=task, settings=settings, budget=Budget(tokens=budget),
            seed=seed, context_length=policy.context_length,
        )
        for problem, seed in problems.values()
    )  # fmt: skip
    began, right, found, unfinished, rounds, steps, seconds = time.monotonic(), 0, 0, 0, 0, 0, 0.0
    for search in simulated_driver(policy, evaluator, clock=clock).run(searches, concurrency=concurrency):
        answer = search.answer()
        if answer.error is not None:
            raise answer.error
        handle = worlds.handle(worlds.open(problems[answer.problem_id][0].text))
        if not answer.bill.policy_tokens <= handle.steps <= budget:
            raise InputError(f"a search took {handle.steps} steps of {budget} and says {answer.bill.policy_tokens}")
        rounds += answer.bill.rounds
        steps += handle.steps
        seconds += answer.bill.seconds
        finished = worlds.answers[handle]
        unfinished += answer.text is None and bool(finished)
        right += answer.text is not None and handle.verdict(answer.text)
        found += any(handle.verdict(text) for text in sorted(finished))
        handle.close()
    count = len(problems)
    low, high = wilson(right, count)
    return {
        "right": right,
        "percent": 100 * right / count,
        "interval": [100 * low, 100 * high],
        "found_percent": 100 * found / count,
        "unfinished": unfinished,
        "rounds": rounds / count,
        "steps": steps / count,
        "seconds": seconds / count,
        "policy_idle": 1 - policy.busy / clock.now,
        "samples_a_pass": policy.samples / policy.passes,
        "paths_a_reading": evaluator.paths / evaluator.calls if evaluator.calls else 0.0,
        "problems_per_second": count / clock.now,
        "wall_seconds": time.monotonic() - began,
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as Markdown: a table a budget, a line a method, a column a world."""
    lines = []
    for budget in sorted({row["budget"] for row in rows}):
        mine = {(row["method"], row["world"]): row for row in rows if row["budget"] == budget}
        worlds = list(dict.fromkeys(world for _, world in mine))
        lines += [f"{budget} policy steps: right in per cent (95 % interval), rounds, steps; * unfinished answers", ""]
        lines += [f"| method | {' | '.join(worlds)} |", "|---" * (1 + len(worlds)) + "|"]
        for method in dict.fromkeys(method for method, _ in mine):
            cells = [_cell(mine[method, world]) if (method, world) in mine else "" for world in worlds]
            lines.append(f"| {method} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def _cell(row: dict[str, Any]) -> str:
    low, high = row["interval"]
    stars = f" *{row['unfinished']}" if row["unfinished"] else ""
    return f"{row['percent']:.1f} ({low:.0f} to {high:.0f}), {row['rounds']:.0f} r, {row['steps']:.0f} s{stars}"


def merged(old: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all rows; a new one replaces an old one of the same key, in its place."""
    rows = {tuple(row[field] for field in KEY): row for row in [*old, *new]}
    return list(rows.values())


def main(arguments: Arguments) -> None:
    """Measure, write after every row, print the table."""
    unknown = [name for name in arguments.worlds if name not in WORLDS]
    if unknown:
        raise InputError(f"worlds {', '.join(unknown)} do not exist", f"give some of {', '.join(WORLDS)}")
    configurations = {word: parse_method(word) for word in arguments.methods}
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    before = json.loads(arguments.output.read_text())["rows"] if arguments.output.exists() else []
    rows: list[dict[str, Any]] = []
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    with WorldServer() as server:
        for budget in arguments.budgets:
            for word, settings in configurations.items():
                for world in arguments.worlds:
                    row: dict[str, Any] = {"method": word, "world": world, "budget": budget}
                    row |= {"first_seed": arguments.first_seed, "seeds": arguments.seeds}
                    spec, concurrency = WORLDS[world], arguments.concurrency
                    row |= measure(server, spec, settings, budget=budget, seeds=seeds, concurrency=concurrency)
                    rows.append(row)
                    print(json.dumps(row), flush=True)
                    record = {
                        "command": "python -m benchmarks.methods_worlds",
                        "worlds": {name: asdict(spec) for name, spec in WORLDS.items()},
                        "rows": merged(before, rows),
                    }
                    arguments.output.write_text(json.dumps(record, indent=1) + "\n")
    print("\n" + table(rows))


if __name__ == "__main__":
    main(tyro.cli(Arguments))
