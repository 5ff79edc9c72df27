"""Belief search: expand where the exact posterior, given every reading and outcome so far, says a right solution is likeliest.

Each wave takes the open nodes of largest worth: posterior that the path is right, times a discount for each earlier
expansion, times a gain a level that makes up for part of what depth costs a posterior. It stops when the posterior of an
answer is high enough, and answers with the likeliest one. What an evaluator's readings are worth is learned from them.

Source: ours (no system surveyed has it); `belief_kernels.py` names the message passing.
"""

from __future__ import annotations

import numpy as np

from treewise.search.answer import Choice
from treewise.search.belief import Belief, Posterior
from treewise.search.stepwise import StepwiseSearch
from treewise.search.tree_search import Errand
from treewise.search.types import Evaluation, Finish, SearchEnd, Standing

MOST_SAMPLES = 24
"""Samples below one node."""


class BeliefSearch(StepwiseSearch):
    """A best-first search by exact posteriors."""

    _belief: Belief
    _seen: tuple[int, Posterior] | None = None

    @property
    def belief(self) -> Belief:
        """What is believed of the tree so far."""
        if "_belief" not in self.__dict__:
            self._belief = Belief()
        return self._belief

    def posterior(self) -> Posterior:
        """Return what is believed now of every node and answer."""
        self._keep_up()
        stamp = self._bill.rounds * 1_000_003 + self.belief.size + self.belief.readings
        if self._seen is None or self._seen[0] != stamp:
            self._seen = (stamp, self.belief.posterior())
        return self._seen[1]

    def _wave(self) -> None:
        posterior = self.posterior()
        if max(posterior.answers.values(), default=0.0) > self.settings.belief_stop:
            self._finish(SearchEnd.CONFIDENT)
            return
        asked = 0
        for node in self._ranked(posterior):
            asked += self._sample(int(node), self.width) > 0
            if asked >= self._lanes_now():
                break

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
                lanes = min(lanes, limit / (2.0 * path), 4.0 * left / path)
        return max(1, int(lanes))

    def _read(self, node: int, evaluation: Evaluation) -> None:
        self._keep_up()
        finished = self.solutions.standings[node] is Standing.FINISHED
        if evaluation.readings:
            path = self.solutions.tree.path(node)[1:].tolist()
            for step, reading in zip(path, evaluation.readings, strict=True):
                self.belief.observe(step, reading, settled=finished)
        else:
            self.belief.observe(node, evaluation.value, settled=finished)
        if finished:
            self.belief.finish(node, self.solutions.judgements[node].answer or "")

    def _sampled(self, errand: Errand) -> None:
        assert errand.growth is not None  # set before values are asked for
        self._keep_up()
        for node in errand.growth.new:
            cut = Finish(self.solutions.tokens.finish(node)) in (Finish.LENGTH, Finish.ERROR)
            if self.solutions.standings[node] is Standing.DEAD and not cut:
                self.belief.fail(node)

    def _keep_up(self) -> None:
        """Give the belief the nodes that the tree has got since."""
        tree = self.solutions.tree
        while self.belief.size < tree.size:
            self.belief.add(tree.parent(self.belief.size))

    def _choice(self) -> Choice | None:
        if self.settings.choose is not None:
            return super()._choice()
        candidates = self._candidates()
        candidates = [c for c in candidates if self._proven(c.node)] or candidates
        if not candidates:
            return None
        posterior = self.posterior()
        best = max(candidates, key=lambda c: (posterior.answers.get(c.text, 0.0), posterior.right[c.node], -c.node))
        return Choice(best, posterior.answers.get(best.text, 0.0))

    def _settled(self) -> bool:
        """By its posterior alone, in `_wave`."""
        return False if self.settings.choose is None else super()._settled()
