"""Counts verdicts: how many answers were right, wrong, undecided or missing. Knows no task."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from treewise.search.types import Verdict, VerdictKind


class Tally(NamedTuple):
    """Counts over a set of problems."""

    correct: int
    incorrect: int
    undecided: int
    """An answer was given and could not be checked."""
    unanswered: int
    """Nothing finished."""

    @property
    def problems(self) -> int:
        """All problems counted."""
        return sum(self)

    @property
    def accuracy(self) -> float | None:
        """Share in [0, 1] of all problems shown correct; None when there is no problem."""
        return self.correct / self.problems if self.problems else None


def tally(verdicts: Iterable[Verdict | None]) -> Tally:
    """Return the counts of the verdicts, one a problem; None stands for a problem without an answer.

    >>> tally([Verdict(VerdictKind.CORRECT), Verdict(VerdictKind.INCORRECT), None]).accuracy
    0.3333333333333333
    """
    counts = dict.fromkeys(VerdictKind, 0)
    unanswered = 0
    for verdict in verdicts:
        if verdict is None:
            unanswered += 1
        else:
            counts[verdict.kind] += 1
    return Tally(counts[VerdictKind.CORRECT], counts[VerdictKind.INCORRECT], counts[VerdictKind.UNDECIDED], unanswered)
