"""What a belief takes an evaluator to be: how its readings look on right and wrong steps, and how often a step is right."""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from treewise.search.types import InputError


@dataclass(frozen=True, slots=True)
class EmissionModel:
    """Readings of steps that look right and of steps that look wrong are Gaussian; a step is right at a fixed rate.

    The field order is the layout of `belief_kernels`.
    """

    right_mean: float = 0.8
    """Mean reading of a step that looks right."""
    wrong_mean: float = 0.4
    """Mean reading of a step that looks wrong; below `right_mean`."""
    right_spread: float = 0.2
    """Standard deviation of the readings of steps that look right."""
    wrong_spread: float = 0.2
    """Standard deviation of the others."""
    success: float = 0.7
    """Probability that a step after right ones is right."""
    hidden: float = 0.2
    """Share of wrong steps that look right until their path has ended."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.wrong_mean < self.right_mean <= 1.0:
            raise InputError(
                f"means {self.wrong_mean!r} (wrong) and {self.right_mean!r} (right)", "give 0 <= wrong_mean < right_mean <= 1"
            )
        for name in ("right_spread", "wrong_spread"):
            if not 0.0 < getattr(self, name) < 10.0:
                raise InputError(f"{name} is {getattr(self, name)!r}", "give a positive number")
        for name in ("success", "hidden"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise InputError(f"{name} is {getattr(self, name)!r}", "give a probability between 0 and 1")

    def parameters(self) -> NDArray[np.float64]:
        """The same as an array for the kernels."""
        return np.array(astuple(self), np.float64)


STARTS = (EmissionModel(), EmissionModel(0.7, 0.3, 0.1, 0.1, 0.6, 0.1))
"""Where learning starts from: a blurred evaluator and a sharp one. Neither is the model of a world that is measured."""
