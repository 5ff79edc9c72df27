"""Particle filtering: `samples` partial solutions move on one step a level and are drawn anew by their weights.

A particle's weight is softmax of the log-odds of its score. Resampling is systematic: one random offset, so that a particle of
weight w is drawn floor(N w) or ceil(N w) times. Finished particles stay in the draw. A dead particle has weight 0; when all
are dead, the last level that lived is moved on once more, then the one before it.

Source: Puri et al. 2025, arXiv:2502.01618, algorithm 1 (particle filtering against a process reward model); systematic
resampling: Carpenter, Clifford & Fearnhead 1999.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from treewise.search.level_search import LevelSearch, Share
from treewise.search.rebase import softmax
from treewise.search.seeds import lot
from treewise.search.tree import ROOT

LEAST_ODDS = 1e-6
"""Scores are kept so far from 0 and 1."""


class ParticleSearch(LevelSearch):
    """See the module's text."""

    _finished: list[int]
    """Particles that do not move any more."""
    _lived: list[list[Share]]
    """What moved on at each level so far and may do so once more."""
    _draws = 0

    def _first_level(self) -> list[Share]:
        self._finished, self._lived = [], []
        return self._move([Share(ROOT, self.within(self.settings.samples, 0))])

    def _next_level(self) -> list[Share]:
        alive = self._finished + [node for node in self.tips() if not self.is_dead(node)]
        if not alive:
            return self._lived.pop() if self._lived else []
        going = [node for node in alive if self.is_open(node)]
        if not going:
            return []
        count = self.within(self.settings.samples, self.solutions.tree.depth(going[0]))
        weights: dict[int, float] = {}
        for node, weight in zip(alive, softmax([log_odds(self.score(n)) for n in alive], self.settings.balance), strict=True):
            weights[node] = weights.get(node, 0.0) + weight
        drawn = systematic(list(weights.values()), count, lot(self.seed, self.problem.id, "particles", self._draws))
        self._draws += 1
        shares = [Share(node, copies) for node, copies in zip(weights, drawn, strict=True) if copies]
        self._finished = [node for node, copies in shares if not self.is_open(node) for _ in range(copies)]
        return self._move([share for share in shares if self.is_open(share.node)])

    def _move(self, shares: list[Share]) -> list[Share]:
        self._lived.append(shares)
        return shares


def log_odds(score: float) -> float:
    """Return ln(p / (1 - p)) of a score in [0, 1], which is kept `LEAST_ODDS` away from either end."""
    p = min(max(score, LEAST_ODDS), 1 - LEAST_ODDS)
    return math.log(p / (1 - p))


def systematic(weights: Sequence[float], count: int, offset: float) -> list[int]:
    """Return how often each is drawn when `count` points, 1 / `count` apart from `offset` / `count` on, fall into the weights.

    `weights` sum to 1; `offset` is in [0, 1), and uniform if each is to be drawn `count` times its weight on average.

    >>> systematic([0.5, 0.25, 0.25], 4, 0.5)
    [2, 1, 1]
    """
    counts, end, start = [], 0.0, 0
    last = max(index for index, weight in enumerate(weights) if weight > 0)
    for index, weight in enumerate(weights):
        end += weight
        upto = count if index >= last else min(count, max(0, math.ceil(end * count - offset)))
        counts.append(upto - start)
        start = upto
    return counts
