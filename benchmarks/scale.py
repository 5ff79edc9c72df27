"""Does cost stay linear in one large tree, and memory flat over many problems?

Run: python -m benchmarks.scale
Writes benchmarks/baselines/scale.json.

MCTS over the stubs of `benchmarks.payload`, which keep nothing here. One tree: processor time a simulation in each of ten equal
parts of the search. Many problems: memory of the process (resident set) after each tenth of the problems, ended searches
dropped as they come.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path as File

import psutil
import tyro

from benchmarks.payload import Arguments as Load
from benchmarks.payload import Stub, start_searches
from treewise.search.driver import Driver
from treewise.search.settings import SearchSettings

PARTS = 10
SETTINGS = SearchSettings(method="mcts", prune=False)


@dataclass(frozen=True)
class Arguments:
    """What is measured."""

    simulations: int = 100_000
    """Simulations in the one tree."""
    problems: int = 10_000
    """Problems in the queue."""
    each: int = 16
    """Simulations of each of these."""
    concurrency: int = 64
    """Problems side by side."""
    output: File = File(__file__).parent / "baselines" / "scale.json"
    """Where the figures go."""


def one_tree(simulations: int) -> dict[str, object]:
    """Return microseconds a simulation in each tenth of one search."""
    stub = Stub(Load(), keeps=False)
    marks: list[float] = []
    (search,) = start_searches(stub, problems=1, simulations=simulations, settings=SETTINGS)

    def note(_: object) -> None:
        while search.bill.simulations >= len(marks) * simulations / PARTS and len(marks) <= PARTS:
            marks.append(time.process_time())

    for _ in Driver(stub, stub).run([search], on_progress=note):
        pass
    note(None)
    parts = [round(1e6 * PARTS * (later - earlier) / simulations, 1) for earlier, later in pairwise(marks)]
    nodes = search.solutions.tree.size
    return {"simulations": simulations, "nodes": nodes, "microseconds": parts, "last_over_second": round(parts[-1] / parts[1], 3)}


def many_problems(arguments: Arguments) -> dict[str, object]:
    """Return the process's memory in MiB after each tenth of the problems."""
    stub = Stub(Load(), keeps=False)
    process, memory = psutil.Process(), []
    queue = start_searches(stub, problems=arguments.problems, simulations=arguments.each, settings=SETTINGS)
    for ended, _ in enumerate(Driver(stub, stub).run(queue, concurrency=arguments.concurrency), 1):  # type: ignore[arg-type]
        if ended % (arguments.problems // PARTS) == 0:
            gc.collect()
            memory.append(round(process.memory_info().rss / 2**20, 1))
    grown = 2**20 * (memory[-1] - memory[0]) / (arguments.problems * (1 - 1 / PARTS))
    return {"problems": arguments.problems, "mebibytes": memory, "bytes_a_problem": round(grown, 1)}


def main(arguments: Arguments) -> None:
    """Measure and write."""
    one_tree(1000)  # compiles
    rows = {"queue": many_problems(arguments), "tree": one_tree(arguments.simulations)}
    print(json.dumps(rows, indent=1))
    settings = asdict(arguments) | {"output": arguments.output.name}
    record = {"command": "python -m benchmarks.scale", "settings": settings} | rows
    arguments.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Arguments)))
