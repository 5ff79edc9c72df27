"""Depth first with backtracking: the best step of those just drawn is followed, the others wait behind it.

Steps whose score is below `threshold` are set aside; they are taken up, best first, only when nothing else is left.

Source: Yao et al. 2023, arXiv:2305.10601, algorithm 2 (tree of thoughts, ToT-DFS), with the evaluator in the place of the
language model that values thoughts; there, what is below the threshold is never taken up.
"""

from __future__ import annotations

from heapq import heappop, heappush

from treewise.search.level_search import LevelSearch, Share
from treewise.search.tree import ROOT


class DepthFirstSearch(LevelSearch):
    """A pass ends when every state has been expanded once."""

    _stack: list[int]
    """Open states to come, the next one last."""
    _aside: list[tuple[float, int]]
    """Heap of those below the threshold: minus score, node."""

    def _first_level(self) -> list[Share]:
        self._stack, self._aside = [], []
        return self.shared([ROOT])

    def _next_level(self) -> list[Share]:
        for node in reversed(self.ranked(node for node in self.tips() if self.is_open(node))):
            if self.score(node) < self.settings.threshold:
                heappush(self._aside, (-self.score(node), node))
            else:
                self._stack.append(node)
        if self._stack:
            return self.shared([self._stack.pop()])
        return self.shared([heappop(self._aside)[1]]) if self._aside else []
