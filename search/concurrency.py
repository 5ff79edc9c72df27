"""How many problems to search side by side, and how many lanes to give a tree, from batch size, settings and budget.

The engine is full when the samples that searches have under way exceed its batch. Lanes follow the budget alone and never the
engine: they decide the result. It knows no engine and no method, only the options that bound what a search asks for at once.
"""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

from treewise.search.budget import Budget
from treewise.search.settings import LANES, READ_BY, WIDTHS, SearchSettings
from treewise.search.types import Policy, Task

OVERSUBSCRIBED = 1.5
"""Samples that may be under way, for each that the engine takes at once: some searches always wait for values."""
FEWEST, MOST = 2, 1024
"""Problems side by side: one alone would leave the engine idle at its end, more fill the memory with prefixes."""
UNKNOWN = 64
"""Problems side by side where the policy does not say its batch size."""
SIMULATIONS_A_LANE = 32
"""With 16 lanes for 128 expansions, 8 a lane, WU-UCT kept 0.945 of 0.946; this is four times more careful."""
MOST_LANES = 32


@runtime_checkable
class Batching(Protocol):
    """A policy that knows how much it does at once."""

    @property
    def batch_size(self) -> int | None:
        """Samples generated at the same time, at most; None where that is not known."""
        ...


def problems_at_once(policy: Policy, *, settings: SearchSettings, budget: Budget, task: Task) -> int:
    """Return how many problems keep the policy's batch full."""
    size = policy.batch_size if isinstance(policy, Batching) else None
    if size is None:
        return UNKNOWN
    samples = samples_at_once(settings, budget=budget, step_tokens=settings.step_tokens or task.step_tokens)
    return min(MOST, max(FEWEST, math.ceil(OVERSUBSCRIBED * size / samples)))


def samples_at_once(settings: SearchSettings, *, budget: Budget, step_tokens: int) -> int:
    """Return about how many samples one search has under way, at most; at least 1."""
    method = settings.method
    width = settings.width or WIDTHS.get(method, 1)
    if method in READ_BY["beams"]:
        most = settings.beams * width
    elif method in READ_BY["samples"]:
        most = settings.samples
    else:
        most = width * lanes_for(settings, budget)
    if budget.simulations is not None:
        most = min(most, budget.simulations)
    if budget.tokens is not None:
        most = min(most, budget.tokens // step_tokens)
    return max(1, most)


def lanes_for(settings: SearchSettings, budget: Budget) -> int:
    """Return the lanes of one tree: as set, else the method's default, and more where the budget has many simulations."""
    if settings.lanes is not None:
        return settings.lanes
    default = LANES.get(settings.method, 1)
    if settings.method != "mcts" or budget.simulations is None:
        return default
    return max(default, min(MOST_LANES, budget.simulations // SIMULATIONS_A_LANE))
