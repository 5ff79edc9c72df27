"""How fast are AB-MCTS-A's decisions, and does their cost stay flat in a large tree?

A simulation: one decision from the root, one new node with a random score, its backup. Trees of up to `DEPTH` levels; ours with
both backups, treequest's ABMCTSA in an environment of its own, in turn, so that a busy machine slows all alike. Processor time.

Run: python -m benchmarks.adaptive [--rounds 3] [--peers build/peers]
Writes benchmarks/baselines/adaptive.json.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import get_args

import tyro

from benchmarks.engine_peers import value
from treewise.search.arms import ArmBackup, Arms

DEPTH = 8
SIZES = (100, 1_000, 10_000, 100_000)
PEER_SIZES = (100, 1_000)
"""treequest walks all scores of an arm with every new one: 10,000 simulations take more than 8 minutes."""
PEER = "treequest==0.3.3"


@dataclass(frozen=True)
class Arguments:
    """What is measured."""

    rounds: int = 3
    """Rounds over all programs and sizes."""
    peers: Path = Path("build/peers")
    """Folder for the peer's environment; made on the first run."""
    output: Path = Path(__file__).parent / "baselines" / "adaptive.json"
    """Where the figures go."""


def ours(simulations: int, *, backup: ArmBackup, seed: int) -> float:
    """Return the processor seconds of one tree."""
    arms, depth = Arms(backup=backup, seed=seed), [0]
    began = time.process_time()
    for number in range(simulations):
        node = arms.decide(number)
        child = len(depth)
        depth.append(depth[node] + 1)
        score = value(seed << 32 | child)
        if depth[child] < DEPTH:
            arms.add(node, child, score)
        arms.tell(node, score)
    return time.process_time() - began


def environment(folder: Path) -> Path:
    """Return the interpreter of treequest's environment, made if it is not there."""
    python = (folder / "treequest" / "bin" / "python").absolute()
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / "treequest")], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", PEER], check=True)
    return python


def theirs(python: Path, simulations: int) -> float:
    """Return the processor seconds of one of treequest's trees."""
    command = [str(python), "-m", "benchmarks.engine_peers", "treequest ab-mcts-a", str(simulations), "1"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    (seconds,) = json.loads(done.stdout.splitlines()[-1])
    return float(seconds)


def main(arguments: Arguments) -> None:
    """Measure in turn, write, print a table."""
    python = environment(arguments.peers)
    rates: dict[tuple[str, int], list[float]] = defaultdict(list)
    for backup in get_args(ArmBackup):
        ours(10, backup=backup, seed=0)  # compiles
    for number in range(arguments.rounds):
        for size in SIZES:
            for backup in get_args(ArmBackup):
                rates[f"treewise, backup {backup}", size].append(size / ours(size, backup=backup, seed=number))
            if size in PEER_SIZES:
                rates["treequest", size].append(size / theirs(python, size))
    rows = [
        {"program": program, "simulations": size, "per_second": median(found), "lowest": min(found), "highest": max(found)}
        for (program, size), found in rates.items()
    ]
    surroundings = {"python": platform.python_version(), "cpus": os.cpu_count(), "load": os.getloadavg()[0], "peer": PEER}
    record = {"command": "python -m benchmarks.adaptive", "rounds": arguments.rounds, **surroundings, "rows": rows}
    arguments.output.write_text(json.dumps(record, indent=1) + "\n")
    print(f"| program | {' | '.join(f'{size:,}' for size in SIZES)} |")
    print("|---" * (1 + len(SIZES)) + "|")
    for program in dict.fromkeys(program for program, _ in rates):
        cells = [f"{median(rates[program, size]):,.0f}" if (program, size) in rates else "" for size in SIZES]
        print(f"| {program} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main(tyro.cli(Arguments))
