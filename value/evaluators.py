"""Evaluators without a model: a constant, and what the task itself can see of a path. They read no token."""

from __future__ import annotations

from collections.abc import Sequence

from treewise.search.types import Evaluation, InputError, Path, Standing, Task


class ConstantEvaluator:
    """Gives every path the same value, so that a search is led by its priors and visits alone."""

    def __init__(self, value: float = 0.5) -> None:
        """`value` is a probability in [0, 1]. Raises InputError otherwise."""
        self._value = _probability(value, name="value")

    @property
    def fingerprint(self) -> str:
        return f"constant:{self._value!r}"

    def evaluate(self, paths: Sequence[Path]) -> list[Evaluation]:
        """Return the constant for each path."""
        return [Evaluation(self._value) for _ in paths]


class JudgementEvaluator:
    """Gives 1 to a path that its task proves right, 0 to a dead one and `prior` to all others, without any reference."""

    def __init__(self, task: Task, *, prior: float = 0.5) -> None:
        """`prior` is a probability in [0, 1]. Raises InputError otherwise."""
        self._task = task
        self._prior = _probability(prior, name="prior")

    @property
    def fingerprint(self) -> str:
        return f"judgement:{self._task.name}:{self._prior!r}"

    def evaluate(self, paths: Sequence[Path]) -> list[Evaluation]:
        """Return one evaluation a path, in order."""
        return [Evaluation(self._value(path)) for path in paths]

    def _value(self, path: Path) -> float:
        judgement = self._task.judge(path)
        if judgement.standing is Standing.DEAD:
            return 0.0
        return 1.0 if judgement.standing is Standing.FINISHED and judgement.proven else self._prior


def _probability(value: float, *, name: str) -> float:
    """The value as a float. Raises InputError outside [0, 1]; NaN is outside."""
    if not 0.0 <= value <= 1.0:
        raise InputError(f"{name} is {value!r}", "Use a probability in [0, 1]")
    return float(value)
