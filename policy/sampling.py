"""How tokens are drawn: temperature and nucleus, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from treewise.search.types import InputError


@dataclass(frozen=True, slots=True)
class Sampling:
    """Settings of the distribution that steps are drawn from; recorded log-probabilities are under this distribution.

    At temperature 0 the most likely token is taken, and log-probabilities are the model's own (temperature 1).
    """

    temperature: float = 1.0
    """0, or 0.01 to 10."""
    top_p: float = 1.0
    """Only the most likely tokens that together have this probability are drawn; in (0, 1]."""

    def __post_init__(self) -> None:
        if not (self.temperature == 0 or 0.01 <= self.temperature <= 10):
            raise InputError(f"temperature is {self.temperature}", "Give 0 for the most likely token, or 0.01 to 10")
        if not 0 < self.top_p <= 1:
            raise InputError(f"top_p is {self.top_p}", "Give a number above 0, at most 1")


def continued_seed(seed: int, position: int) -> int:
    """Return the seed in [0, 2**63) with which a sample goes on after `position` tokens; at 0 the seed itself.

    A generator seeded again with the same number would repeat the same draws.
    """
    if position == 0:
        return seed
    return int.from_bytes(blake2b(f"{seed}:{position}".encode(), digest_size=8).digest(), "little") >> 1
