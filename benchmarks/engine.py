"""How fast is the tree engine, does its cost stay flat, and what does a node cost in memory?

One tree, 8 children a node, a stub model, the shipped kernels in a compiled loop and called one by one from Python, side by side
with mctx, OpenSpiel, treequest and llm-reasoners: each from the package index in an environment of its own under --peers, timed
in a process of its own, in turn, so that a busy machine slows all alike. Then 256 trees of 1,000 simulations each, in turn.

Run: python -m benchmarks.engine [--rounds 3] [--peers build/peers]
Writes benchmarks/baselines/engine.json.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numba
import numpy as np
import tyro
from numpy.typing import NDArray

from treewise.search import kernels, scoring
from treewise.search.kernels import Columns
from treewise.search.rules import Rule, RuleParams
from treewise.search.tree import ROOT, Tree

ACTIONS = 8
SIZES = (100, 1_000, 10_000, 100_000)
REQUIREMENTS = {
    "open_spiel": ("open_spiel==2.0.2",),
    "mctx": ("mctx==0.0.71",),
    "treequest": ("treequest==0.3.3",),
    "llm-reasoners": ("--no-deps", "llm-reasoners==1.0.2", "numpy", "tqdm"),
}
PEER_SIZES = {"open_spiel": 100_000, "mctx": 10_000, "treequest": 10_000, "llm-reasoners": 1_000}
"""Largest tree of each peer: beyond it a run takes minutes."""
COMPILED, FROM_PYTHON = "treewise, compiled loop", "treewise, called from Python"


@dataclass(frozen=True)
class Arguments:
    """What is measured."""

    rounds: int = 3
    """Rounds over all programs and sizes."""
    repeats: int = 3
    """Trees a program, size and round; peers grow one from 10,000 simulations on."""
    seed: int = 0
    """Of the stub model."""
    peers: Path = Path("build/peers")
    """Folder for the peers' environments; made on the first run."""
    output: Path = Path(__file__).parent / "baselines" / "engine.json"
    """Where the figures go."""


@numba.njit
def _mix(number: np.uint64) -> np.uint64:
    z = number + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@numba.njit
def stub(seed: int, node: int, weights: NDArray[np.float64]) -> float:
    """Write the stub's priors of a node and return its value in [0, 1)."""
    key = _mix(np.uint64(seed) * np.uint64(0x2545F4914F6CDD1D) + np.uint64(node))
    for index in range(weights.size):
        weights[index] = 1.0 + float((key >> np.uint64(8 * index)) & np.uint64(255))
    return float(_mix(key) >> np.uint64(11)) * 2.0**-53


@numba.njit  # not cached on disk: numba would not notice that the kernels inlined here have changed
def simulate(
    t: Columns, size: int, rule: RuleParams, count: int, seed: int, weights: NDArray[np.float64], copies: NDArray[np.int64]
) -> tuple[int, int]:
    """Select, expand, evaluate and back up until `count` simulations are done or the arrays are full; (new size, done)."""
    for done in range(count):
        if size + weights.size > t.parent.size:
            return size, done
        leaf = scoring.descend(t, ROOT, rule)
        value = stub(seed, leaf, weights)
        size = kernels.append_children(t, size, leaf, weights, copies)
        t.value[leaf] = value
        kernels.backup(t, leaf, value)
    return size, count


def grow_compiled(tree: Tree, simulations: int, *, rule: RuleParams, seed: int) -> None:
    """Grow a tree in the compiled loop; Python comes in only where the arrays need room."""
    weights, copies = np.empty(ACTIONS), np.ones(ACTIONS, np.int64)
    while simulations:
        tree.reserve(tree.size + ACTIONS)
        tree.size, done = simulate(tree._columns, tree.size, rule, simulations, seed, weights, copies)
        simulations -= done


def grow_from_python(tree: Tree, simulations: int, *, rule: RuleParams, seed: int) -> None:
    """Grow a tree through the methods of `Tree`, one call at a time."""
    weights = np.empty(ACTIONS)
    for _ in range(simulations):
        leaf = tree.descend(rule)
        tree.mark(leaf)
        value = stub(seed, leaf, weights)
        tree.add_children(leaf, weights)
        tree.set_value(leaf, value)
        tree.unmark(leaf)
        tree.backup(leaf, value)


def time_ours(name: str, simulations: int, repeats: int, *, seed: int) -> list[float]:
    """Return seconds a tree."""
    rule = Rule(exploration=1.25).params()
    grow = grow_compiled if name == COMPILED else grow_from_python
    grow(Tree(), 10, rule=rule, seed=seed)
    seconds = []
    for repeat in range(repeats):
        tree = Tree()
        began = time.perf_counter()
        grow(tree, simulations, rule=rule, seed=seed + repeat)
        seconds.append(time.perf_counter() - began)
    return seconds


def cost_ratio(name: str, pairs: int, *, seed: int) -> list[float]:
    """Return the cost of a simulation in a tree of 100,000 over that in one of 1,000, with its interval.

    In processor time of this thread and in turn, so that other work on the machine does not count.
    """
    rule, grow = Rule(exploration=1.25).params(), grow_compiled if name == COMPILED else grow_from_python
    grow(Tree(), 10, rule=rule, seed=seed)
    cost: dict[int, list[float]] = {1_000: [], 100_000: []}
    for pair in range(pairs):
        for size, costs in cost.items():
            trees = [Tree() for _ in range(20 if size == 1_000 else 1)]
            began = time.thread_time()
            for index, tree in enumerate(trees):
                grow(tree, size, rule=rule, seed=seed + 100 * pair + index)
            costs.append((time.thread_time() - began) / (size * len(trees)))
    return ratio_interval(cost[100_000], cost[1_000])


def install_peer(name: str, folder: Path) -> Path | None:
    """Return the interpreter of the peer's environment, made if need be; None where it cannot be installed."""
    home = folder.resolve() / name
    interpreter, ready = home / "bin" / "python", home / "ready"
    if not ready.exists():
        commands = [
            [sys.executable, "-m", "venv", str(home)],
            [str(interpreter), "-m", "pip", "install", "-q", *REQUIREMENTS[name]],
        ]
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{name} is left out, it cannot be installed: {done.stderr.strip().splitlines()[-1:]}", flush=True)
                return None
        ready.touch()
    return interpreter


def time_peer(name: str, interpreter: Path, simulations: int, repeats: int) -> list[float]:
    """Return seconds a tree. Raises RuntimeError with the peer's own message when it fails."""
    script = Path(__file__).with_name("engine_peers.py")
    command = [str(interpreter), str(script), name, str(simulations), str(repeats)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=script.parent, env={**os.environ, "JAX_PLATFORMS": "cpu"}
    )
    if done.returncode:
        raise RuntimeError(f"{name} failed at {simulations} simulations: {done.stderr[-2000:]}")
    seconds: list[float] = json.loads(done.stdout.splitlines()[-1])
    return seconds


def ratio_interval(above: list[float], below: list[float], *, seed: int = 0) -> list[float]:
    """Return the ratio of medians with its 95 % percentile bootstrap interval (Efron 1979)."""
    rng = np.random.default_rng(seed)
    a, b = np.asarray(above), np.asarray(below)
    drawn = np.median(rng.choice(a, (4000, a.size)), axis=1) / np.median(rng.choice(b, (4000, b.size)), axis=1)
    return [float(np.median(a) / np.median(b)), *(float(x) for x in np.quantile(drawn, [0.025, 0.975]))]


def measure_many(*, trees: int, simulations: int, seed: int) -> dict[str, float]:
    """Grow many trees in turn, one simulation at a time from Python, and report the longest pause and the memory a node.

    A simulation counts as undisturbed when the system did not take the processor away during it.
    """
    rule = Rule(exploration=1.25).params()
    grow_from_python(Tree(), 10, rule=rule, seed=seed)
    grown = [Tree() for _ in range(trees)]
    longest = longest_undisturbed = 0.0
    undisturbed = 0
    began = time.perf_counter()
    for _ in range(simulations):
        for index, tree in enumerate(grown):
            switches, start = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw, time.perf_counter()
            grow_from_python(tree, 1, rule=rule, seed=seed + index)
            pause = time.perf_counter() - start
            longest = max(longest, pause)
            if resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw == switches:
                undisturbed += 1
                longest_undisturbed = max(longest_undisturbed, pause)
    return {
        "trees": trees,
        "simulations_each": simulations,
        "seconds": time.perf_counter() - began,
        "longest_pause_ms": longest * 1e3,
        "longest_pause_undisturbed_ms": longest_undisturbed * 1e3,
        "undisturbed": undisturbed / (trees * simulations),
        "bytes_per_node": sum(tree.nbytes() for tree in grown) / sum(tree.size for tree in grown),
        "most_bytes_per_node": max(tree.nbytes() / tree.size for tree in grown),
    }


def main(arguments: Arguments) -> None:
    """Measure, print a table, write."""
    interpreters = {}
    for name in REQUIREMENTS:
        interpreter = install_peer(name, arguments.peers)
        if interpreter is not None:
            interpreters[name] = interpreter
    seconds: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for turn in range(arguments.rounds):
        for size in SIZES:
            for name in (COMPILED, FROM_PYTHON):
                seconds[name][size] += time_ours(name, size, arguments.repeats, seed=arguments.seed + 1000 * turn)
            for name, interpreter in interpreters.items():
                if size <= PEER_SIZES[name]:
                    seconds[name][size] += time_peer(name, interpreter, size, arguments.repeats if size < 10_000 else 1)
        print(f"round {turn + 1} of {arguments.rounds}", flush=True)

    programs = {
        name: {str(size): {"seconds": runs, "per_second": size / float(np.median(runs))} for size, runs in sizes.items()}
        for name, sizes in seconds.items()
    }
    speed = {
        name: {str(size): ratio_interval(runs, seconds[COMPILED][size]) for size, runs in seconds[name].items()}
        for name in interpreters
    }
    pairs = arguments.rounds * arguments.repeats
    flat = cost_ratio(COMPILED, pairs, seed=arguments.seed)
    flat_python = cost_ratio(FROM_PYTHON, arguments.rounds, seed=arguments.seed)
    many = measure_many(trees=256, simulations=1000, seed=arguments.seed)

    width = max(map(len, programs)) + 2
    print("\nsimulations a second".ljust(width) + "".join(f"{size:>12,}" for size in SIZES))
    for name, sizes in programs.items():
        cells = [f"{sizes[str(s)]['per_second']:>12,.0f}" if str(s) in sizes else " " * 11 + "-" for s in SIZES]
        print(name.ljust(width) + "".join(cells))
    for name, ratios in speed.items():
        cells = [f"{int(size):,}: {r[0]:.1f} [{r[1]:.1f}, {r[2]:.1f}]" for size, r in ratios.items()]
        print(f"{COMPILED} / {name}: " + ", ".join(cells))
    print(f"cost a simulation at 100,000 / at 1,000: {flat[0]:.2f} [{flat[1]:.2f}, {flat[2]:.2f}] (goal: at most 1.5)")
    print(f"  called from Python: {flat_python[0]:.2f} [{flat_python[1]:.2f}, {flat_python[2]:.2f}]")
    print("256 trees: " + ", ".join(f"{name} {number:.4g}" for name, number in many.items()))

    record = {
        "command": "python -m benchmarks.engine "
        + f"--rounds {arguments.rounds} --repeats {arguments.repeats} --seed {arguments.seed}",
        "commit": _commit(),
        "seed": arguments.seed,
        "machine": {"system": platform.system(), "machine": platform.machine(), "cores": os.cpu_count()},
        "versions": {
            "python": platform.python_version(),
            "numpy": version("numpy"),
            "numba": version("numba"),
            **{name: next(r for r in REQUIREMENTS[name] if "==" in r).split("==")[1] for name in interpreters},
        },
        "programs": programs,
        "times_faster_than": speed,
        "cost_100000_over_1000": flat,
        "cost_100000_over_1000_from_python": flat_python,
        "many_trees": many,
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(record, indent=1) + "\n")


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    )
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    main(tyro.cli(Arguments))
