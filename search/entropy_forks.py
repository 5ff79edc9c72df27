"""Forks where the policy was least sure: `samples` whole solutions, then new ends from the starts of their surprising steps.

Each round every solution's tree is forked at its `forks` most surprising steps that were not forked before, with `width` whole
continuations each. Without any limit in the budget there is one round, else rounds follow each other until the budget
ends. Made for training data: its leaves share prefixes where the policy had a choice.

A policy gives no entropies, but the log-probability of every token it drew: minus that is the token's surprisal, whose mean
over draws is the entropy. A step's surprisal is that of its most surprising token, and the fork is at the step's start, since
nodes are whole steps.

Source: Hou et al. 2025, arXiv:2506.11902 (TreeRL, EPTree), which forks at the tokens of highest entropy.
"""

from __future__ import annotations

from treewise.search.stepwise import StepwiseSearch, fresh
from treewise.search.tree import ROOT


class EntropyForkSearch(StepwiseSearch):
    """The trees of the first solutions may share steps; a step is forked once, by the first of them to come to it."""

    _trees: list[dict[int, None]]
    """Steps of each first solution and of what was forked off it, in the order of coming."""
    _forkers: list[int]
    """Whose each of the last wave's wants is."""
    _forked: set[int]
    _rounds = -1
    """Rounds of forks asked for; -1 before the first solutions are."""

    def _wave(self) -> None:
        if self._rounds < 0:
            self._trees, self._forkers, self._forked = [], [], set()
            if self._sample(ROOT, self._solutions(), steps=None):
                self._rounds = 0
            return
        self._take()
        if self._rounds and self.budget.unlimited:
            self._complete()
            return
        forks = [(owner, step) for owner in range(len(self._trees)) for step in self._to_fork(owner)]
        if not forks:
            self._complete()
            return
        self._rounds += 1
        self._forked.update(step for _, step in forks)
        for owner, step in sorted(forks, key=lambda fork: -self.surprisal(fork[1])):
            if self._sample(self.solutions.tree.parent(step), self.width, steps=None):
                self._forkers.append(owner)

    def surprisal(self, node: int) -> float:
        """The largest surprisal of a step's tokens in nats, at least 0; 0 where the policy gave no log-probabilities."""
        return max((-logprob for logprob in self.solutions.tokens.logprobs(node) if logprob == logprob), default=0.0)

    def _solutions(self) -> int:
        """First solutions: `samples`, or as many as leave the budget for one round of forks."""
        paths = self.pays_for(0)
        a_tree = 1 + self.settings.forks * self.width
        return self.settings.samples if paths is None else max(1, min(self.settings.samples, paths // a_tree))

    def _take(self) -> None:
        """Give what the last wave brought to its trees."""
        if not self._trees:
            tips = fresh(tip for want in self.last for tip in want.tips)
            self._trees = [{} for _ in tips]
            brought = list(enumerate(tips))
        else:
            brought = [(owner, tip) for owner, want in zip(self._forkers, self.last, strict=True) for tip in want.tips]
        for owner, tip in brought:
            self._trees[owner].update(dict.fromkeys(self.solutions.tree.path(tip)[1:].tolist()))
        self._forkers = []

    def _to_fork(self, owner: int) -> list[int]:
        steps = [step for step in self._trees[owner] if step not in self._forked]
        return sorted(steps, key=lambda step: -self.surprisal(step))[: self.settings.forks]
