"""Wide, then back: a first wave of `samples` whole solutions, then new ends for their most promising prefixes.

After the first wave the open prefixes of all solutions are continued best first: `width` whole continuations each, `lanes`
prefixes at once. A prefix has another turn only after all that had fewer. What the continuations bring are prefixes too.

Source: ours. Continuing from inside whole solutions is how OmegaPRM grows its tree (Luo et al. 2024, arXiv:2406.06592); here
an evaluator's score says where.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

from treewise.search.budget import Budget
from treewise.search.seeds import lot
from treewise.search.settings import SearchSettings
from treewise.search.stepwise import StepwiseSearch
from treewise.search.tree import ROOT
from treewise.search.tree_search import Errand
from treewise.search.types import Ids, Problem, Task

MOST_STALE = 4
"""Turns in a row that brought a prefix nothing new, after which it is left."""


class Prefix(NamedTuple):
    """A partial solution that waits for its turn; the least is the next."""

    turns: int
    """That it has had."""
    minus_score: float
    draw: float
    """Decides among equals."""
    node: int
    stale: int
    """Of its turns, the last so many brought nothing new."""


class HybridSearch(StepwiseSearch):
    """At most half of the budget goes to the first wave."""

    _drawn = 0
    """Of the first wave."""

    def __init__(
        self,
        problem: Problem,
        prompt_ids: Ids,
        *,
        task: Task,
        settings: SearchSettings,
        budget: Budget,
        seed: int,
        context_length: int,
    ) -> None:
        super().__init__(
            problem, prompt_ids, task=task, settings=settings, budget=budget, seed=seed, context_length=context_length
        )
        self._waiting: list[Prefix] = []
        """Heap."""
        self._turns: dict[int, Prefix] = {ROOT: self._prefix(ROOT)}
        """Whose turn it is."""

    def _wave(self) -> None:
        wide = self._wide()
        if wide:
            self._drawn += self._sample(ROOT, wide, steps=None)
            return
        for prefix in self._turns.values():
            if self.is_open(prefix.node) and prefix.stale < MOST_STALE:
                heappush(self._waiting, prefix._replace(turns=prefix.turns + 1))
        self._turns = {}
        while self._waiting and len(self.wants) < self._lanes_now():
            prefix = heappop(self._waiting)
            asked = self._sample(prefix.node, self.within(self.width, self.solutions.tree.depth(prefix.node)), steps=None)
            if asked:
                self._turns[prefix.node] = prefix._replace(stale=prefix.stale + 1)
            elif self.is_open(prefix.node):
                heappush(self._waiting, prefix)
                return
        if not self.wants:
            self._complete()

    def _sampled(self, errand: Errand) -> None:
        assert errand.growth is not None  # set before values are asked for
        for node in errand.growth.new:
            if self.is_open(node):
                heappush(self._waiting, self._prefix(node))
        if errand.growth.new and errand.node in self._turns:
            self._turns[errand.node] = self._turns[errand.node]._replace(stale=0)

    def _wide(self) -> int:
        """Whole solutions that the first wave lacks; at first as few as half of the budget pays for in the worst case."""
        tokens, simulations = self.budget.tokens, self.budget.simulations
        wide = self.settings.samples - self._drawn
        if tokens is not None:
            wide = min(wide, int((tokens / 2 - self.meter.tokens) / self.pace.path_tokens(0)))
        if simulations is not None:
            wide = min(wide, simulations // 2 - self._drawn)
        return max(wide, 0 if self._drawn else 1)

    def _prefix(self, node: int) -> Prefix:
        return Prefix(0, -self.score(node), lot(self.seed, self.problem.id, "rank", node), node, 0)

    def _lanes_now(self) -> int:
        """Fewer as the budget runs out, so that what one turn tells is of use to the next."""
        paths = self.pays_for(0)
        return self.lanes if paths is None else max(1, min(self.lanes, paths // (2 * self.width)))
