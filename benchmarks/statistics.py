"""Intervals and estimators that the benchmarks share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def wilson(successes: int, trials: int, *, z: float = 1.959964) -> tuple[float, float]:
    """Return the 95 % Wilson score interval of a share.

    Source: Wilson 1927; Brown, Cai & DasGupta 2001, eq. 4.

    >>> [round(x, 4) for x in wilson(8, 10)]
    [0.4902, 0.9433]
    """
    if trials == 0:
        return 0.0, 1.0
    share, square = successes / trials, z * z
    centre = (share + square / (2 * trials)) / (1 + square / trials)
    half = z * math.sqrt(share * (1 - share) / trials + square / (4 * trials * trials)) / (1 + square / trials)
    return max(0.0, centre - half), min(1.0, centre + half)


def pass_at(k: int, *, samples: int, correct: int) -> float:
    """Return the chance that at least one of `k` samples drawn from `samples` without replacement is right.

    Source: Chen et al. 2021, arXiv:2107.03374, eq. 1.

    >>> pass_at(1, samples=4, correct=1)
    0.25
    """
    if samples - correct < k:
        return 1.0
    return 1.0 - math.prod((samples - correct - i) / (samples - i) for i in range(k))


def bootstrap(values: Sequence[float], *, seed: int = 0, rounds: int = 2000) -> tuple[float, float]:
    """Return the 95 % percentile bootstrap interval of a mean over problems (Efron 1979)."""
    data = np.asarray(values, dtype=np.float64)
    rng = np.random.default_rng(seed)
    means = data[rng.integers(0, len(data), size=(rounds, len(data)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)
