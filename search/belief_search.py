"""Belief search: expand where the exact posterior, given every reading and outcome so far, says a right solution is likeliest.

Each wave takes the open nodes of largest worth: posterior that the path is right, times a discount for each earlier
expansion, times a gain a level that makes up for part of what depth costs a posterior. It stops when the posterior of an
answer is high enough, and answers with the likeliest one. What an evaluator's readings are worth is learned from them.

Source: ours (no system surveyed has it); `belief_kernels.py` names the message passing.
"""

from __future__ import annotations

import numpy as np

from treewise.search.belief import Posterior
from treewise.search.believing import Believing
from treewise.search.stepwise import StepwiseSearch
from treewise.search.tree_search import Errand
from treewise.search.types import SearchEnd

MOST_SAMPLES = 24
"""Samples below one node."""
PATIENCE = 4.0
"""Waves in a row in which no path ends, in depths of a path, after which the deepest path is followed to its end."""


class BeliefSearch(Believing, StepwiseSearch):
    """A best-first search by exact posteriors."""

    _endless = 0
    """Waves in a row in which no path ended."""
    _ended = 0
    """Paths that had ended at the last wave."""

    def _wave(self) -> None:
        posterior = self.posterior()
        if max(posterior.answers.values(), default=0.0) > self.settings.belief_stop:
            self._finish(SearchEnd.CONFIDENT)
            return
        ranked, asked = self._ranked(posterior), 0
        self._endless = self._endless + 1 if self.meter.simulations == self._ended else 0
        self._ended = self.meter.simulations
        if self._endless > PATIENCE * self.pace.depth:  # where no reading speaks for going deeper, worth alone goes wide for ever
            depth = self.solutions.tree.columns()["depth"]
            deepest = sorted(ranked, key=lambda node: -int(depth[node]))
            asked += any(self._sample(node, 1, steps=None) for node in deepest)
        for node in ranked:
            if asked >= self._lanes_now():
                break
            asked += self._sample(node, self.width) > 0

    def _ranked(self, posterior: Posterior) -> list[int]:
        """Open nodes, the one of largest worth first; ties go to the older."""
        tree, settings = self.solutions.tree, self.settings
        nodes = [n for n in range(tree.size) if self.is_open(n) and self._asked.get(n, 0) < MOST_SAMPLES]
        if not nodes:
            return []
        columns = tree.columns()
        depth = np.array([columns["depth"][n] for n in nodes], np.float64)
        expansions = np.array([self._asked.get(n, 0) / self.width for n in nodes])
        with np.errstate(divide="ignore"):
            worth = np.log(posterior.right[nodes])
        worth += expansions * np.log(settings.belief_discount)
        worth -= depth * settings.belief_depth_gain * np.log(self.belief.model.success)
        return [nodes[i] for i in np.argsort(-worth, kind="stable")]

    def _lanes_now(self) -> int:
        """Lanes allowed now: half of the paths that the whole budget pays for; fewer where the rest is short."""
        lanes = float(self.lanes)
        for limit, left, path in (
            (self.budget.tokens, self.meter.tokens_left(), self.width * self.pace.path_tokens(0)),
            (self.budget.simulations, self.meter.simulations_left(), 1.0),
        ):
            if limit is not None and left is not None:
                lanes = min(lanes, limit / (2.0 * path), 2.0 * left / path)
        return max(1, int(lanes))

    def _sampled(self, errand: Errand) -> None:
        self._take_in(errand)
