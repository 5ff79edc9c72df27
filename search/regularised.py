"""The regularised policy that MCTS visit counts approach, solved exactly.

Pure function; it knows no tree. Source: Grill et al. 2020, "Monte-Carlo tree search as regularized policy optimization",
eq. 5 to 8 and appendix B.3 (bounds of alpha).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treewise.search.types import InputError


class RegularisedPolicy(NamedTuple):
    """pi = multiplier * prior / (alpha - q)."""

    policy: NDArray[np.float64]
    """[K] sums to 1."""
    multiplier: float
    """lambda = c sqrt(sum n) / (K + sum n)."""
    alpha: float
    """The normaliser, above every q whose prior is positive; NaN when the multiplier is 0."""


def regularised_policy(prior: ArrayLike, q: ArrayLike, visits: ArrayLike, *, c: float) -> RegularisedPolicy:
    """Return the policy that maximises q . pi - lambda KL(prior, pi).

    At lambda = 0 (no visits, or c = 0) it is the prior without visits, and else all mass on the best q.

    Args:
        prior: `[K]` probabilities; those of value 0 get no mass.
        q: `[K]` values.
        visits: `[K]` visit counts.
        c: Exploration constant, at least 0.

    Raises:
        InputError: Shapes differ, a number is not finite or negative, or the prior is all zeros.
    """
    p, values, n = (np.asarray(x, np.float64) for x in (prior, q, visits))
    if p.ndim != 1 or p.shape != values.shape or p.shape != n.shape:
        raise InputError(f"shapes {p.shape}, {values.shape}, {n.shape} of prior, q and visits", "give one of each a child")
    if not (np.isfinite(p).all() and np.isfinite(values).all() and np.isfinite(n).all() and math.isfinite(c)):
        raise InputError("prior, q, visits or c hold a number that is not finite", "check what they come from")
    if (p < 0).any() or p.sum() <= 0 or (n < 0).any() or c < 0:
        raise InputError("prior, visits and c must not be negative, and some prior must be positive", "check what they come from")
    p = p / p.sum()
    total = float(n.sum())
    multiplier = c * math.sqrt(total) / (p.size + total)
    if total == 0.0:
        return RegularisedPolicy(p, 0.0, math.nan)
    allowed = p > 0
    if multiplier == 0.0:
        greedy = np.zeros(p.size)
        greedy[int(np.argmax(np.where(allowed, values, -math.inf)))] = 1.0
        return RegularisedPolicy(greedy, 0.0, math.nan)
    scaled, levels = multiplier * p[allowed], values[allowed]
    top = float(levels.max())
    low, high = float((scaled - (top - levels)).max()), multiplier
    while high > low:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if float((scaled / (middle + (top - levels))).sum()) >= 1.0:
            low = middle
        else:
            high = middle
    gap = 0.5 * (low + high)
    policy = np.zeros(p.size)
    policy[allowed] = scaled / (gap + (top - levels))
    return RegularisedPolicy(policy / policy.sum(), multiplier, top + gap)
