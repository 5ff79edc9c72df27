"""Draws from the posterior of an arm's mean, for Thompson sampling: Gaussian scores of unknown spread, or Beta ones in [0, 1].

An arm is three numbers: how many scores, their sum, the sum of their squares. Work under way counts as scores that come in as
expected: the posterior narrows and its centre stays (WU-UCT's idea, Liu et al. 2020, in a Bayesian's words). Every draw is a
function of its key alone: there is no generator and no state. The kernels allocate nothing and know no tree.

Sources: Inoue et al. 2025, arXiv:2503.04412, section 3.3 (AB-MCTS-A). Normal-inverse-chi-squared: Murphy 2023, "Probabilistic
Machine Learning: Advanced Topics", section 3.4.3.3. Gamma draws: Marsaglia & Tsang 2000. SplitMix64: Steele, Lea & Flood 2014.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from treewise.search.kernels import compiled, inlined

Key: TypeAlias = "int | np.uint64"
"""What a draw follows from, in [0, 2**64)."""

GAUSSIAN, BETA = range(2)

PRIOR_MEAN, PRIOR_COUNT, PRIOR_FREEDOM, PRIOR_SQUARE = 0.5, 1.0, 4.0, 0.01
"""m, kappa, nu and tau**2 of the Gaussian prior. Values are probabilities, hence 0.5. The reference implementation has 0, 1, 1
and 0.1: with these 68 / 26 / 35 / 13 % in place of 98 / 77 / 77 / 45 % (scripted worlds, 512 steps, as in `adaptive.py`)."""
PRIOR_HALF = 0.5
"""Both parameters of the Beta prior (Jeffreys)."""

_GOLDEN, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class Gaussian(NamedTuple):
    """Parameters of a normal-inverse-chi-squared distribution."""

    mean: float
    kappa: float
    nu: float
    tau_squared: float


@inlined
def mixed(seed: Key, number: int) -> np.uint64:
    """Return a hash of two numbers (SplitMix64)."""
    z = np.uint64(seed) + (np.uint64(number) + np.uint64(1)) * _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


@inlined
def uniform(key: Key, index: int) -> float:
    """Return the `index`-th number of a key, uniform in (0, 1)."""
    return (float(mixed(key, index) >> np.uint64(12)) + 0.5) / 4503599627370496.0


@inlined
def normal(key: Key, index: int) -> float:
    """Return a standard normal number, of two uniform ones (Box & Muller 1958)."""
    radius = np.sqrt(-2.0 * np.log(uniform(key, index)))
    return float(radius * np.cos(2.0 * np.pi * uniform(key, index + 1)))


@compiled
def gamma(key: Key, shape: float) -> float:
    """Return a number of the Gamma distribution of this shape, above 0, and of scale 1."""
    boost = 1.0
    if shape < 1.0:
        boost = uniform(key, 0) ** (1.0 / shape)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / np.sqrt(9.0 * d)
    index = 1
    while True:
        x = normal(key, index)
        v = (1.0 + c * x) ** 3
        if v > 0.0 and np.log(uniform(key, index + 2)) < 0.5 * x * x + d - d * v + d * np.log(v):
            return float(d * v * boost)
        index += 3


@inlined
def gaussian_posterior(count: float, total: float, squares: float) -> Gaussian:
    """Return the posterior of `count` scores with this sum and sum of squares."""
    if count <= 0.0:
        return Gaussian(PRIOR_MEAN, PRIOR_COUNT, PRIOR_FREEDOM, PRIOR_SQUARE)
    average = total / count
    deviations = max(0.0, squares - total * average)
    kappa, nu = PRIOR_COUNT + count, PRIOR_FREEDOM + count
    mean = (PRIOR_COUNT * PRIOR_MEAN + total) / kappa
    shift = count * PRIOR_COUNT * (PRIOR_MEAN - average) ** 2 / kappa
    return Gaussian(mean, kappa, nu, (PRIOR_FREEDOM * PRIOR_SQUARE + deviations + shift) / nu)


@inlined
def posterior_mean(kind: int, count: float, total: float) -> float:
    """Return the posterior's expected score."""
    if kind == BETA:
        return (PRIOR_HALF + total) / (2.0 * PRIOR_HALF + count)
    return (PRIOR_COUNT * PRIOR_MEAN + total) / (PRIOR_COUNT + count)


@compiled
def draw(kind: int, key: Key, count: float, total: float, squares: float, pending: float) -> float:
    """Return a draw of the mean score of an arm with `pending` scores still to come, in [0, 1] for BETA."""
    if kind == BETA:
        a, b = PRIOR_HALF + total, PRIOR_HALF + max(0.0, count - total)
        more = 1.0 + pending / (a + b)
        x, y = gamma(mixed(key, 0), a * more), gamma(mixed(key, 1), b * more)
        return x / (x + y)
    p = gaussian_posterior(count, total, squares)
    nu = p.nu + pending
    variance = nu * p.tau_squared / (2.0 * gamma(mixed(key, 0), 0.5 * nu))
    return float(p.mean + np.sqrt(variance / (p.kappa + pending)) * normal(mixed(key, 1), 0))
