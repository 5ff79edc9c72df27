"""Gumbel search at the root: random numbers, sequential halving, the improved policy.

Pure functions of arrays; it knows no tree. The rule below the root is in `scoring.py`.

Source: Danihelka, Guez, Schrittwieser & Silver 2022, "Policy improvement by planning with Gumbel", algorithm 2 and eq. 8-11; the
order of visits follows mctx (`seq_halving.py`), sequential halving Karnin et al. 2013.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treewise.search.types import InputError


def considered_visits(simulation: int, *, considered: int, simulations: int) -> int:
    """Return how many visits a root child must have to be chosen in a simulation, counted from 0, of `simulations` in all.

    Each round goes over the children left so often that it takes its share of the simulations, then keeps half of them; the
    last two stay. O(log considered).

    >>> [considered_visits(simulation, considered=4, simulations=8) for simulation in range(8)]
    [0, 0, 0, 0, 1, 1, 2, 2]
    """
    _check_counts(considered, simulations)
    if considered == 1:
        return simulation
    rounds = math.ceil(math.log2(considered))
    visits, left = 0, considered
    while left > 2:
        repeats = max(1, simulations // (rounds * left))
        if simulation < repeats * left:
            break
        simulation -= repeats * left
        visits += repeats
        left = max(2, left // 2)
    return visits + simulation // left


def _check_counts(considered: int, simulations: int) -> None:
    if considered < 1 or simulations < 1:
        raise InputError(f"{considered} actions considered over {simulations} simulations", "give at least 1 of each")


def root_gumbels(count: int, *, seed: int, problem_id: str) -> NDArray[np.float64]:
    """Return standard Gumbel numbers, `[count]`, by hash of seed, problem and index: a longer draw begins with the shorter."""
    found = np.empty(count)
    for index in range(count):
        key = f"gumbel\x1f{seed}\x1f{problem_id}\x1f{index}".encode("utf-8", "surrogatepass")
        bits = int.from_bytes(blake2b(key, digest_size=8).digest(), "little") >> 12
        found[index] = -math.log(-math.log((bits + 0.5) / 2.0**52))
    return found


def improved_policy(scores: ArrayLike) -> NDArray[np.float64]:
    """Return softmax(scores), `[K]`, for scores = logit + sigma(completed Q). Raises InputError when all are minus infinity.

    Source: Danihelka et al. 2022, eq. 11.
    """
    array = np.asarray(scores, np.float64)
    top = array.max(initial=-math.inf)
    if not math.isfinite(top):
        raise InputError(f"scores are {array.tolist()}", "at least one must be finite, and none infinite or NaN")
    weights: NDArray[np.float64] = np.exp(array - top)
    weights /= weights.sum()
    return weights


@dataclass(frozen=True)
class RootPlan:
    """Sequential halving over the root's children."""

    gumbels: NDArray[np.float64]
    """[K] one for each child."""
    considered: int
    """Most children considered, in [1, K]."""
    simulations: int
    """Simulations planned."""

    @classmethod
    def make(cls, gumbels: ArrayLike, *, considered: int, simulations: int) -> RootPlan:
        """Return the plan for K children. Raises InputError when a number is not finite or a count is below 1."""
        numbers = np.array(gumbels, np.float64)
        if numbers.ndim != 1 or numbers.size == 0 or not np.isfinite(numbers).all():
            raise InputError(f"Gumbel numbers are {numbers.tolist()}", "give one finite number a child")
        _check_counts(considered, simulations)
        return cls(numbers, min(considered, numbers.size), simulations)

    def next_child(self, scores: NDArray[np.float64], counts: NDArray[np.int64], enterable: NDArray[np.bool_]) -> int | None:
        """Return the index of the child to visit next; None if none may be entered.

        The number of simulations so far is the sum of `counts`, work in flight included. Where no enterable child has the
        planned count (a subtree was exhausted, or one simulation brought several visits), the nearest lower count stands
        in, else the nearest higher one.

        Args:
            scores: `[K']` logit + sigma(completed Q), K' >= K; children without a Gumbel number are left out.
            counts: `[K']` visits, unfinished ones included.
            enterable: `[K']`.
        """
        known = self.gumbels.size
        allowed = enterable[:known]
        if not allowed.any():
            late = np.flatnonzero(enterable)
            return int(late[np.argmax(scores[late])]) if late.size else None
        seen = counts[:known]
        simulation = min(int(seen.sum()), self.simulations - 1)
        planned = considered_visits(simulation, considered=self.considered, simulations=self.simulations)
        possible = seen[allowed]
        lower = possible[possible <= planned]
        count = lower.max() if lower.size else possible.min()
        return self._best(scores, allowed & (seen == count))

    def final_child(self, scores: NDArray[np.float64], visits: NDArray[np.integer]) -> int:
        """Return the index of the best child among the most visited ones."""
        seen = visits[: self.gumbels.size]
        return self._best(scores, seen == seen.max())

    def _best(self, scores: NDArray[np.float64], allowed: NDArray[np.bool_]) -> int:
        """The allowed child of the greatest gumbel + score; one of prior 0 only where there is no other."""
        total = self.gumbels + np.maximum(scores[: self.gumbels.size], -1e9)
        return int(np.argmax(np.where(allowed, total, -math.inf)))
