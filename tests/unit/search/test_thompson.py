"""Draws of arms: against conjugate updates one score at a time, and against the moments of the distributions in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treewise.search import thompson
from treewise.search.thompson import BETA, GAUSSIAN, draw, gamma, gaussian_posterior, posterior_mean, uniform

DRAWS = 20_000
SCORES = ([], [0.3], [0.9, 0.1, 0.4], [0.7] * 12)


def sums(scores: list[float]) -> tuple[float, float, float]:
    return float(len(scores)), sum(scores), sum(x * x for x in scores)


def one_at_a_time(scores: list[float]) -> tuple[float, float, float, float]:
    """The normal-inverse-chi-squared posterior, each score folded into the one before (Murphy 2007, eq. 144 to 147 at n = 1)."""
    m, kappa, nu, square = thompson.PRIOR_MEAN, thompson.PRIOR_COUNT, thompson.PRIOR_FREEDOM, thompson.PRIOR_SQUARE
    for x in scores:
        square = (nu * square + kappa * (m - x) ** 2 / (kappa + 1)) / (nu + 1)
        m, kappa, nu = (kappa * m + x) / (kappa + 1), kappa + 1, nu + 1
    return m, kappa, nu, square


def check_moments(found: np.ndarray, *, mean: float, variance: float, kurtosis: float = 9.0) -> None:
    """Sample mean and variance within 5 standard errors; `kurtosis` bounds the fourth moment over the squared variance."""
    assert abs(found.mean() - mean) < 5 * math.sqrt(variance / found.size)
    assert abs(found.var() - variance) < 5 * variance * math.sqrt((kurtosis - 1) / found.size)


@pytest.mark.parametrize("scores", SCORES)
def test_the_gaussian_posterior_is_that_of_one_update_a_score(scores: list[float]) -> None:
    assert gaussian_posterior(*sums(scores)) == pytest.approx(one_at_a_time(scores), rel=1e-12)
    assert posterior_mean(GAUSSIAN, *sums(scores)[:2]) == pytest.approx(one_at_a_time(scores)[0], rel=1e-12)


@pytest.mark.parametrize("pending", [0.0, 3.0])
@pytest.mark.parametrize("scores", SCORES[1:])
def test_gaussian_draws_are_student_t(scores: list[float], pending: float) -> None:
    """Centre m, variance tau^2 / kappa * nu / (nu - 2); work under way adds to kappa and nu and leaves centre and tau."""
    m, kappa, nu, square = one_at_a_time(scores)
    kappa, nu = kappa + pending, nu + pending
    found = np.array([draw(GAUSSIAN, key, *sums(scores), pending) for key in range(DRAWS)])
    variance = square / kappa * nu / (nu - 2)
    if nu > 4:
        check_moments(found, mean=m, variance=variance, kurtosis=3 + 6 / (nu - 4) + 6)
    scaled = (found - m) / math.sqrt(square / kappa)
    assert abs(np.median(scaled)) < 5 * 0.5 / math.sqrt(DRAWS) / 0.35  # the density at the centre is above 0.35


@pytest.mark.parametrize("pending", [0.0, 3.0])
@pytest.mark.parametrize("scores", SCORES)
def test_beta_draws_have_the_moments_of_beta(scores: list[float], pending: float) -> None:
    count, total, squares = sums(scores)
    a, b = 0.5 + total, 0.5 + count - total
    more = 1 + pending / (a + b)
    found = np.array([draw(BETA, key, count, total, squares, pending) for key in range(DRAWS)])
    assert ((found > 0) & (found < 1)).all()
    size = (a + b) * more
    check_moments(found, mean=a / (a + b), variance=a * b / (a + b) ** 2 / (size + 1))
    assert posterior_mean(BETA, count, total) == pytest.approx(a / (a + b))


@pytest.mark.parametrize("shape", [0.25, 0.5, 1.0, 2.5, 40.0])
def test_gamma_draws_have_mean_and_variance_of_their_shape(shape: float) -> None:
    found = np.array([gamma(key, shape) for key in range(DRAWS)])
    check_moments(found, mean=shape, variance=shape, kurtosis=3 + 6 / shape)


def test_gamma_of_shape_one_is_exponential() -> None:
    found = np.sort([gamma(key, 1.0) for key in range(DRAWS)])
    steps = np.arange(1, DRAWS + 1) / DRAWS
    assert np.abs(1 - np.exp(-found) - steps).max() < 1.95 / math.sqrt(DRAWS)  # Kolmogorov: exceeded once in 1,000


def test_uniform_numbers_fill_the_unit_interval() -> None:
    for found in (
        np.sort([uniform(key, 0) for key in range(DRAWS)]),
        np.sort([uniform(7, index) for index in range(DRAWS)]),
    ):
        assert 0 < found[0] < found[-1] < 1
        assert np.abs(found - np.arange(1, DRAWS + 1) / DRAWS).max() < 1.95 / math.sqrt(DRAWS)


@pytest.mark.parametrize("kind", [GAUSSIAN, BETA])
def test_a_draw_is_a_function_of_its_key(kind: int) -> None:
    first = [draw(kind, key, 3.0, 1.4, 0.98, 0.0) for key in range(50)]
    assert first == [draw(kind, key, 3.0, 1.4, 0.98, 0.0) for key in range(50)]
    assert len(set(first)) == 50
