"""Greedy, best-of-n and majority in the frame of the tree searches: same tree, budget, bill and answers.

Each sample is a whole solution, split into steps afterwards; samples with a common start share nodes. Samples are sent as
far as the token budget can pay for in the worst case, the rest when earlier ones are back. It knows no model.
"""

from __future__ import annotations

from treewise.search.tree import ROOT
from treewise.search.tree_search import Errand, TreeSearch
from treewise.search.types import SearchEnd, Standing


class SamplingSearch(TreeSearch):
    """Independent whole solutions: `samples` of them, or one by the most likely tokens for method greedy."""

    _sent = 0

    @property
    def _samples(self) -> int:
        return 1 if self.settings.method == "greedy" else self.settings.samples

    def _next_asks(self) -> None:
        while self._sent < self._samples and not self.meter.spent() and self.meter.simulations_left() != 0:
            size = min(self._room(ROOT), self.step_tokens * self.max_steps)
            left = self.meter.tokens_left()
            if left is not None and left < size:
                if self.meter.reserved_tokens or left == 0:
                    break
                size = left
            self._sent += 1
            self.meter.start_simulation()
            self._propose(ROOT, count=1, max_tokens=size, steps=None, greedy=self.settings.method == "greedy")
        if not self._errands:
            self._finish(SearchEnd.COMPLETE if self._sent >= self._samples else SearchEnd.BUDGET)

    def _grown(self, errand: Errand) -> None:
        tips = errand.growth.tips if errand.growth is not None else []
        self._bill.unfinished += sum(self.solutions.standings[tip] is Standing.OPEN for tip in tips)
        self.meter.end_simulation(counted=True)
        self._bill.simulations = self.meter.simulations

    def _abandoned(self, errand: Errand) -> None:
        self.meter.end_simulation(counted=False)

    def _votes_left(self) -> int | None:
        limit = self.budget.simulations
        return (self._samples if limit is None else min(self._samples, limit)) - self.meter.simulations
