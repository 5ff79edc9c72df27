"""REBASE: each level's samples are shared among its nodes by a softmax of their scores, `samples` paths in all.

A path that ends lowers the number of samples left. With temperature to 0 all go to the best node, with a large one all nodes
get the same.

Source: Wu et al. 2024, arXiv:2408.00724 (REBASE, reward balanced search). There widths are rounded one by one; here by
largest remainders, so that they sum to what is left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from treewise.search.level_search import LevelSearch, Share
from treewise.search.stepwise import fresh
from treewise.search.tree import ROOT


class RebaseSearch(LevelSearch):
    """See the module's text."""

    _left = 0
    """Paths of the pass that have not ended."""

    def _first_level(self) -> list[Share]:
        self._left = self.settings.samples
        return [Share(ROOT, self.within(self._left, 0))]

    def _next_level(self) -> list[Share]:
        tips = self.tips()
        going = self.ranked(tip for tip in fresh(tips) if self.is_open(tip))
        self._left -= sum(not self.is_open(tip) for tip in tips)
        if not going or self._left < 1:
            return []
        count = self.within(self._left, self.solutions.tree.depth(going[0]))
        counts = apportioned(softmax([self.score(node) for node in going], self.settings.balance), count)
        return [Share(node, count) for node, count in zip(going, counts, strict=True) if count]


def softmax(scores: Sequence[float], temperature: float) -> list[float]:
    """Return exp(score / temperature) over its sum, at least one score; temperature 0 shares among the largest.

    >>> softmax([0.5, 0.5], 0.1)
    [0.5, 0.5]
    """
    top = max(scores)
    if temperature == 0:
        weights = [float(score == top) for score in scores]
    else:
        weights = [math.exp((score - top) / temperature) for score in scores]
    total = sum(weights)
    return [weight / total for weight in weights]


def apportioned(shares: Sequence[float], total: int) -> list[int]:
    """Return whole numbers that sum to `total`, each within 1 of its share of it; shares sum to 1.

    Source: largest remainders (Hamilton's apportionment); equal remainders go to the first.

    >>> apportioned([0.5, 0.25, 0.25], 5)
    [3, 1, 1]
    """
    exact = [share * total for share in shares]
    counts = [math.floor(part) for part in exact]
    by_remainder = sorted(range(len(exact)), key=lambda index: counts[index] - exact[index])
    for index in by_remainder[: total - sum(counts)]:
        counts[index] += 1
    return counts
