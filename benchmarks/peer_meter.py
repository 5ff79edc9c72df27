"""What every peer's adapter shares: one scripted world under a hard budget of policy steps, and the loop over jobs.

An adapter is run by the interpreter of its peer's environment, as a module from the repository's root. It gets a job as JSON on
its standard input and prints one JSON row a world. Nothing of Treewise is imported here; numpy, because every peer has it.

A round is one call of the peer to its policy, however many samples it asks for at once: a peer that asks for one path after
another pays one round each.
"""

from __future__ import annotations

import json
import math
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias

from benchmarks.worlds import WORLDS, Tags, WorldHandle, WorldServer, WorldSpec, WorldStep

LONGEST = 8
"""Steps of a chain in the four worlds: told to those peers that plan in candidates and not in steps."""

AGGREGATES: dict[str, Callable[[Sequence[float]], float]] = {
    "last": lambda readings: readings[-1],
    "mean": fmean,
    "min": min,
    "prod": math.prod,
    "sum": sum,
}
"""How the readings of a path's steps become one reward."""


def beam_steps(kept: int, each: int) -> int:
    """Return the policy steps of a beam search to the end of the chains that keeps `kept` states and extends each `each` times.

    >>> beam_steps(4, 4)
    116
    """
    steps, states = 0, 1
    for _ in range(LONGEST):
        states = min(kept, states) * each
        steps += states
    return steps


def widest(budget: int, steps: Callable[[int], int]) -> int:
    """Return the largest width of at least 1 whose steps fit into the budget.

    >>> widest(128, lambda width: beam_steps(width, 4))
    4
    """
    return max((width for width in range(1, budget + 1) if steps(width) <= budget), default=1)


Options: TypeAlias = Mapping[str, Any]
"""The knobs of one configuration."""


class BudgetSpent(RuntimeError):
    """More policy steps were asked for than are left: the adapter's mistake."""


class Meter:
    """One world under one budget, as a peer's policy and process reward model see it."""

    def __init__(self, handle: WorldHandle, budget: int) -> None:
        self.handle = handle
        self.budget = budget
        self.rounds = 0
        self.ended: dict[Tags, str | None] = {}
        """Every path proposed so far that has ended, with its answer."""
        self._drawn: dict[Tags, int] = {}
        self._readings: dict[Tags, tuple[float, ...]] = {(): ()}

    @property
    def left(self) -> int:
        """Policy steps left."""
        return self.budget - self.handle.steps

    def sample(self, wants: Sequence[tuple[Tags, int]]) -> list[list[WorldStep]]:
        """Return as many next steps of each path as wanted, all in one round. Raises BudgetSpent."""
        self.rounds += 1
        return self._sample(wants)

    def chains(self, count: int) -> list[list[WorldStep]]:
        """Return whole chains from the root, all in one round: one request each, which runs to the end. Raises BudgetSpent."""
        self.rounds += 1
        return self._run_on([()] * count)

    def complete(self, paths: Sequence[Tags]) -> list[Tags]:
        """Return the paths run on to the ends of their chains, in the round that made them, as far as the budget goes."""
        rest = self._run_on(paths, as_far=True)
        return [(*path, *(step.tag for step in steps)) for path, steps in zip(paths, rest, strict=True)]

    def read(self, paths: Sequence[Tags]) -> None:
        """Have the paths' readings fetched, in one message."""
        whole = self.handle.spec.rescoring
        missing = {path if whole else path[:end]: None for path in paths for end in range(1, len(path) + 1)}
        asked = [path for path in missing if path not in self._readings]
        for path, readings in zip(asked, self.handle.score(asked) if asked else [], strict=True):
            self._readings[path] = tuple(readings) if whole else (*self._readings[path[:-1]], readings[0])

    def readings(self, path: Tags) -> tuple[float, ...]:
        """Return the reading of every step of a path."""
        self.read([path])
        return self._readings[path]

    def reward(self, path: Tags, aggregate: str) -> float:
        """Return the readings of the path's steps as one number."""
        return float(AGGREGATES[aggregate](self.readings(path)))

    def _run_on(self, paths: Sequence[Tags], *, as_far: bool = False) -> list[list[WorldStep]]:
        chains: list[list[WorldStep]] = [[] for _ in paths]
        growing = [index for index, path in enumerate(paths) if path not in self.ended]
        while growing:
            if as_far:
                growing = growing[: self.left]
            heads = [(*paths[index], *(step.tag for step in chains[index])) for index in growing]
            for index, (step,) in zip(growing, self._sample([(head, 1) for head in heads]), strict=True):
                chains[index].append(step)
            growing = [index for index in growing if not chains[index][-1].ended]
        return chains

    def _sample(self, wants: Sequence[tuple[Tags, int]]) -> list[list[WorldStep]]:
        total = sum(count for _, count in wants)
        if total > self.left:
            raise BudgetSpent(f"{total} policy steps were asked for with {self.left} of {self.budget} left")
        asks = []
        for path, count in wants:
            first = self._drawn.get(path, 0)
            self._drawn[path] = first + count
            asks.append((self.handle, path, range(first, first + count)))
        found = self.handle.server.propose_many(asks)
        for (_, path, _), steps in zip(asks, found, strict=True):
            self.ended.update(((*path, step.tag), step.answer) for step in steps if step.ended)
        return found


class Outcome(NamedTuple):
    """What a peer returned."""

    path: Tags | None
    """The chain it chose; None when it returned nothing."""
    kept: int | None = None
    """Nodes of its tree, where it grows one: fewer than the steps used when it throws some away."""


Search: TypeAlias = "Callable[[Meter, Options], Outcome]"
"""One of a peer's methods."""


def play(server: WorldServer, spec: WorldSpec, seed: int, *, budget: int, search: Search, options: Options) -> dict[str, Any]:
    """Return what one search in one world came to."""
    import numpy as np

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  the peers draw from this generator
    meter = Meter(server.open(spec, seed), budget)
    outcome = search(meter, options)
    answer = None if outcome.path is None else meter.ended.get(outcome.path)
    some = any(found is not None for found in meter.ended.values())
    row = {
        "right": answer is not None and meter.handle.verdict(answer),
        "rounds": meter.rounds,
        "steps": meter.handle.steps,
        "unfinished": answer is None,
        "unfinished_needlessly": answer is None and some,
        "kept": outcome.kept,
    }
    meter.handle.close()
    return row


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return counts and means over the searches in one world."""
    row: dict[str, Any] = {name: sum(row[name] for row in rows) for name in ("right", "unfinished", "unfinished_needlessly")}
    row |= {name: fmean(row[name] for row in rows) for name in ("rounds", "steps")}
    if rows[0]["kept"] is not None:
        row["kept"] = sum(row["kept"] for row in rows) / sum(row["steps"] for row in rows)
    return row


def serve(methods: Mapping[str, Search]) -> None:
    """Do the job on the standard input: method, options, budget, worlds, first_seed, seeds and, for tests, changes to worlds."""
    job = json.load(sys.stdin)
    search = methods[job["method"]]
    with WorldServer() as server:
        for world in job["worlds"]:
            spec = replace(WORLDS[world], **job.get("changes", {}))
            began = time.process_time()
            rows = [
                play(server, spec, seed, budget=job["budget"], search=search, options=job["options"])
                for seed in range(job["first_seed"], job["first_seed"] + job["seeds"])
            ]
            row = {"world": world, "searches": len(rows), **summary(rows), "seconds": time.process_time() - began}
            print(json.dumps(row), flush=True)
