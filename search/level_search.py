"""What the methods share that grow paths from the root to their end level by level: passes.

Without any limit in the budget one pass is made. With one, passes follow each other until the rest does not pay for another
path: later ones draw new steps, and what an earlier one found stays. Passes in a row that bring nothing new end the search too,
as a policy that always says the same would else be asked for ever. A method gives `_first_level` and `_next_level`;
`beam.py` is the shortest example.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from treewise.search.stepwise import StepwiseSearch
from treewise.search.types import SearchEnd

MOST_IN_VAIN = 3
"""Passes without a finished path, when no limit ends the search."""

MOST_STALE = 3
"""Passes in a row that brought no new step."""


class Share(NamedTuple):
    """Steps to ask for below one node."""

    node: int
    samples: int


class LevelSearch(StepwiseSearch):
    """A search in passes. Before anything has ended a pass may be interrupted to bring one path to its end."""

    _plan: list[Share] | None = None
    """The level that is to be asked for; None while it is under way."""
    _passes = 0
    _stale = 0
    """Passes in a row that brought no new step."""
    _size_before = 1
    """Of the tree, when the pass began."""

    # What a method gives.

    @abstractmethod
    def _first_level(self) -> list[Share]:
        """Begin a pass: what to ask for at the root."""

    @abstractmethod
    def _next_level(self) -> list[Share]:
        """What to ask for when the level is back: `last` has one want a share in the same order; an empty list ends the pass."""

    # What a method uses.

    def tips(self) -> list[int]:
        """Last nodes of all samples of the last level, in the order of asking, with repeats."""
        return [tip for want in self.last for tip in want.tips]

    def shared(self, nodes: Sequence[int]) -> list[Share]:
        """`width` steps for each of these nodes of one level, the best first; fewer where the budget does not pay for them."""
        if not nodes:
            return []
        total = self.within(self.width * len(nodes), self.solutions.tree.depth(nodes[0]))
        counts = [min(self.width, max(0, total - self.width * index)) for index in range(len(nodes))]
        return [Share(node, count) for node, count in zip(nodes, counts, strict=True) if count]

    # Inside.

    def _wave(self) -> None:
        if self._plan is None:
            self._plan = self._next_level() if self._passes else []
        while True:
            self._plan = [share for share in self._plan if self.is_open(share.node)]
            asked = [self._sample(node, samples) for node, samples in self._plan]
            if any(asked):
                self._plan = None
                return
            if any(self.is_open(share.node) for share in self._plan):
                return  # the budget does not pay for it
            end = self._end_of_passes()
            if end is not None:
                self._complete() if end is SearchEnd.COMPLETE else self._finish(end)
                return
            self._passes += 1
            self._size_before = self.solutions.tree.size
            self._plan = self._first_level()

    def _end_of_passes(self) -> SearchEnd | None:
        """Why no pass follows; None when one does."""
        if not self._passes:
            return None
        grown = self.solutions.tree.size > self._size_before
        self._stale = 0 if grown else self._stale + 1
        if self._stale >= MOST_STALE:
            return SearchEnd.COMPLETE
        if self.budget.unlimited:
            in_vain = not self.solutions.finished and self._passes < MOST_IN_VAIN
            return None if in_vain else SearchEnd.COMPLETE
        return SearchEnd.BUDGET if self.solutions.finished and self.pays_for(0) == 0 else None
