"""How far do the peers' searches come on the scripted worlds, at the same hard budgets of policy steps?

Every peer comes from the package index, in an environment of its own under --peers, and runs in a process of its own against
the worlds of `benchmarks.worlds`, on the seeds of `benchmarks.methods_worlds`. Three rows a method and budget: its defaults;
tuned, the configuration that is right most often over all worlds together; and per world, the best one of each world: that is
more than anybody knows beforehand. Tuning goes through the knobs one after the other, keeps what helps, and ends after
--trials configurations, on seeds of its own.

Run: python -m benchmarks.peers_worlds [--only its_hub] [--seeds 300]
Writes benchmarks/baselines/peers_worlds.json as it goes (what is there already is not run again, unless --fresh) and prints a
table. 95 % Wilson intervals.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from benchmarks.peer_knobs import METHODS, PEERS, Method, Options
from benchmarks.statistics import wilson

ROOT = Path(__file__).parent.parent
WORLDS = ("clean", "noisy", "deceptive", "both")


@dataclass(frozen=True)
class Arguments:
    """What is measured."""

    only: tuple[str, ...] = tuple(PEERS)
    """Peers."""
    budgets: tuple[int, ...] = (128, 512)
    """Policy steps a problem."""
    seeds: int = 300
    """Problems a world."""
    first_seed: int = 1_000_000
    """Seed of the first problem."""
    tuning_seeds: int = 60
    """Problems a world while tuning."""
    tuning_first_seed: int = 500_000
    """Seed of the first of these."""
    trials: int = 12
    """Configurations tried a method and budget."""
    fresh: bool = False
    """Forget what was measured before."""
    peers: Path = Path("build/peers")
    """Folder for the peers' environments; made on the first run."""
    output: Path = Path(__file__).parent / "baselines" / "peers_worlds.json"
    """Where the figures go."""


def install(name: str, folder: Path) -> Path:
    """Return the interpreter of a peer's environment, made if need be. Raises RuntimeError with pip's message."""
    home = folder.resolve() / name
    interpreter, ready = home / "bin" / "python", home / "ready"
    if not ready.exists():
        for command in (
            [sys.executable, "-m", "venv", str(home)],
            [str(interpreter), "-m", "pip", "install", "-q", *PEERS[name].requirements],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{name} cannot be installed: {done.stderr.strip()[-2000:]}")
        ready.touch()
    return interpreter


def run_peer(interpreter: Path, adapter: str, job: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the row of each world. Raises RuntimeError with the peer's message when it fails."""
    done = subprocess.run(
        [str(interpreter), "-m", adapter],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        raise RuntimeError(f"{adapter} failed at {dict(job)}: {done.stderr[-2000:]}")
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {row.pop("world"): row for row in rows}


def trials_of(method: Method, trials: int, measure: Callable[[Options], float]) -> Iterator[Options]:
    """Yield the configurations tried: the default, then each knob's other values at the best of the other knobs, over and over.

    `measure` returns what is to be large. Ends after `trials` configurations, or when a whole turn has changed nothing.
    """
    best = method.defaults()
    yield best
    top, tried = measure(best), [best]
    changed = True
    while changed:
        changed = False
        for name, values in method.knobs.items():
            for value in values:
                candidate = best | {name: value}
                if candidate in tried:
                    continue
                if len(tried) == trials:
                    return
                tried.append(candidate)
                yield candidate
                score = measure(candidate)
                if score > top:
                    top, best, changed = score, candidate, True


def goodness(rows: Mapping[str, Mapping[str, Any]]) -> float:
    """Return what tuning wants large: right answers over all worlds; among equals, fewer unfinished ones."""
    searches = sum(row["searches"] for row in rows.values())
    right, unfinished = (sum(row[name] for row in rows.values()) for name in ("right", "unfinished"))
    return float(right - unfinished / (searches + 1))


class Record:
    """The JSON file: what was measured, by what it was asked."""

    def __init__(self, path: Path, *, fresh: bool) -> None:
        self.path = path
        old = json.loads(path.read_text()) if path.exists() and not fresh else {}
        self.rows: list[dict[str, Any]] = old.get("rows", [])

    def find(self, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the rows measured for exactly this."""
        return [row for row in self.rows if asked.items() <= row.items()]

    def add(self, rows: Sequence[dict[str, Any]]) -> None:
        """Keep rows, and write."""
        self.rows += rows
        self.rows.sort(key=lambda row: [m.title for m in METHODS].index(f"{row['peer']} {row['method']}"))
        record = {
            "command": "python -m benchmarks.peers_worlds",
            "commit": _commit(),
            "versions": {
                "python": platform.python_version(),
                **{name: next(r for r in peer.requirements if "==" in r).split("==")[1] for name, peer in PEERS.items()},
            },
            "rows": self.rows,
        }
        self.path.parent.mkdir(exist_ok=True)
        scratch = self.path.with_suffix(".tmp")
        lines = ",\n".join(json.dumps(row) for row in self.rows)
        text = json.dumps(record | {"rows": []}, indent=1).replace('"rows": []', f'"rows": [\n{lines}\n]')
        scratch.write_text(text + "\n")
        scratch.replace(self.path)


class Bench:
    """Measures configurations, each once."""

    def __init__(self, arguments: Arguments, interpreters: Mapping[str, Path]) -> None:
        self.arguments = arguments
        self.interpreters = interpreters
        self.record = Record(arguments.output, fresh=arguments.fresh)

    def measure(
        self, method: Method, options: Options, *, budget: int, tuning: bool, worlds: Sequence[str] = WORLDS
    ) -> dict[str, dict[str, Any]]:
        """Return the row of each world."""
        arguments = self.arguments
        seeds = (arguments.tuning_seeds if tuning else arguments.seeds) // method.thinned
        first_seed = arguments.tuning_first_seed if tuning else arguments.first_seed
        asked = {"peer": method.peer, "method": method.name, "options": options, "budget": budget}
        asked |= {"first_seed": first_seed, "seeds": seeds}
        rows = {row["world"]: row for row in self.record.find(asked) if row["world"] in worlds}
        missing = [world for world in worlds if world not in rows]
        if missing:
            job = {"method": method.name, "options": options, "budget": budget, "worlds": missing}
            job |= {"first_seed": first_seed, "seeds": seeds}
            found = run_peer(self.interpreters[method.peer], PEERS[method.peer].adapter, job)
            fresh = [asked | {"world": world} | found[world] | rates(found[world]) for world in missing]
            self.record.add(fresh)
            rows |= {row["world"]: row for row in fresh}
            figures = "  ".join(f"{world} {rows[world]['share']:.1%}" for world in worlds)
            print(f"{'tuning' if tuning else 'test'} {method.title} {budget} {json.dumps(options)}: {figures}", flush=True)
        return rows

    def tune(self, method: Method, budget: int) -> tuple[Options, dict[str, Options]]:
        """Return the best configuration over all worlds, and the best of each world."""
        seen: list[tuple[Options, dict[str, dict[str, Any]]]] = []

        def measure(options: Options) -> float:
            seen.append((options, self.measure(method, options, budget=budget, tuning=True)))
            return goodness(seen[-1][1])

        for _ in trials_of(method, self.arguments.trials, measure):
            pass
        seen.sort(key=lambda pair: goodness(pair[1]), reverse=True)  # stable: among equals the first one tried
        of_world = {world: max(seen, key=lambda pair: goodness({world: pair[1][world]}))[0] for world in WORLDS}
        return seen[0][0], of_world


def _commit() -> str:
    done = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False, cwd=ROOT)
    return done.stdout.strip() or "unknown"


def rates(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the share of right answers with its interval."""
    return {"share": row["right"] / row["searches"], "interval": wilson(row["right"], row["searches"])}


def line(title: str, configuration: str, budget: int, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a row of the table."""
    cells = []
    for world in WORLDS:
        low, high = rows[world]["interval"]
        cells.append(f"{100 * rows[world]['share']:.1f} ({100 * low:.0f} to {100 * high:.0f})")
    means = [sum(row[name] for row in rows.values()) / len(rows) for name in ("rounds", "steps")]
    cells += [f"{mean:.0f}" for mean in means]
    cells.append(" / ".join(str(row["unfinished"]) for row in (rows[world] for world in WORLDS)))
    cells.append(" / ".join(str(row["unfinished_needlessly"]) for row in (rows[world] for world in WORLDS)))
    kept = [row["kept"] for row in rows.values() if "kept" in row]
    cells.append(f"{100 * sum(kept) / len(kept):.0f}" if kept else "")
    return f"| {title} | {budget} | {configuration} | " + " | ".join(cells) + " |"


def main(arguments: Arguments) -> None:
    """Measure, write, print the table."""
    interpreters = {}
    for name in arguments.only:
        interpreters[name] = install(name, arguments.peers)
    bench = Bench(arguments, interpreters)
    columns = ("method", "steps", "configuration", *WORLDS, "rounds", "steps used", "unfinished", "needlessly", "kept")
    table = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for method in (method for method in METHODS if method.peer in interpreters):
        for budget in arguments.budgets:
            tuned, of_world = bench.tune(method, budget)
            configurations: dict[str, dict[str, Options]] = {
                "defaults": dict.fromkeys(WORLDS, method.defaults()),
                "tuned": dict.fromkeys(WORLDS, tuned),
                "per world": of_world,
            }
            for name, changes in method.extra.items():
                configurations[name] = dict.fromkeys(WORLDS, method.defaults() | changes)
            shown: list[dict[str, Options]] = []
            for name, options in configurations.items():
                if options in shown:
                    continue
                shown.append(options)
                rows: dict[str, dict[str, Any]] = {}
                for group in {json.dumps(choice): choice for choice in options.values()}.values():
                    worlds = [world for world in WORLDS if options[world] == group]
                    rows |= bench.measure(method, group, budget=budget, tuning=False, worlds=worlds)
                table.append(line(method.title, name, budget, rows))
    print("\n".join(table))


if __name__ == "__main__":
    main(tyro.cli(Arguments))
