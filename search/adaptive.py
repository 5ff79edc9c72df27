"""AB-MCTS-A over reasoning steps: at every node Thompson sampling decides between a new step and one of those that are there.

A wave takes one step for each lane. A lane goes down by draws (`arms.py`) to a node of which another step is wanted; when that
step is back, it draws anew from the same node on, until a path ends, and then begins at the root again. So paths are followed
to their end, but a step that turns out bad is dropped at once. Work under way counts in the draws of the other lanes.

Right in per cent on the scripted worlds (clean / noisy / deceptive / both), 4 lanes, seeds 0 to 59, none unfinished:

| a lane goes on from | backup | 128 steps | 512 steps |
|---|---|---|---|
| the same node | best | 70 / 38 / 25 / 17 | 98 / 77 / 77 / 45 |
| the new step, whatever it scored | best | 22 / 22 / 15 / 7 | 97 / 53 / 68 / 30 |
| the root, as published | best | 45 / 33 / 3 / 13 | 98 / 93 / 35 / 35 |
| the same node | all | 0 / 0 / 0 / 0 | 0 / 0 / 0 / 2 |
| the new step, whatever it scored | all | 2 / 7 / 7 / 2 | 22 / 5 / 28 / 7 |
| the root, as published | all, as published | 0 / 0 / 0 / 2 | 5 / 3 / 2 / 2 |

Source: Inoue et al. 2025, arXiv:2503.04412, section 3.3. There a node is a whole answer and every step of the search starts at
the root. This file knows no model, no task beyond its judgements, and no clock.
"""

from __future__ import annotations

import math

from treewise.search.arms import Arms
from treewise.search.budget import Budget
from treewise.search.mcts import PATIENCE
from treewise.search.seeds import lot
from treewise.search.settings import SearchSettings
from treewise.search.stepwise import StepwiseSearch
from treewise.search.tree import ROOT
from treewise.search.tree_search import Errand
from treewise.search.types import Ids, Problem, SearchEnd, Task


class AdaptiveSearch(StepwiseSearch):
    """AB-MCTS-A; see the module's text."""

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
        draws = int(lot(seed, problem.id, "arms", 0) * 2**53)
        self.arms = Arms(posterior=settings.arm_posterior, backup=settings.arm_backup, seed=draws)
        self._decisions = 0
        self._starts: list[int] = []
        """Where the lanes of the last wave go on."""
        self._asked_in_wave: list[int] = []
        """Nodes that count as worked at."""
        self._stale: dict[int, int] = {}
        """Steps in a row that were copies, a node."""

    def _wave(self) -> None:
        starts, self._starts = self._starts, []
        self._forget_wave()
        asked = 0
        while asked < self._lanes_now():
            node = self._decide(starts[asked] if asked < len(starts) else ROOT)
            if node < 0:
                if not asked:
                    self._finish(SearchEnd.EXHAUSTED)
                break
            if self._sample(node, 1):
                asked += 1
                self.arms.start(node)
                self._asked_in_wave.append(node)
            elif self.is_open(node):
                break
            else:
                self.arms.close(node)

    def _decide(self, start: int) -> int:
        """Return the node of which a step is wanted next; -1 if the tree is used up."""
        self._decisions += 1
        node = self.arms.decide(self._decisions, start=start)
        return self.arms.decide(self._decisions) if node < 0 and start != ROOT else node

    def _sampled(self, errand: Errand) -> None:
        growth, tree = errand.growth, self.solutions.tree
        assert growth is not None  # set before values are asked for
        for child in growth.new:
            if self.is_open(child):
                self.arms.add(tree.parent(child), child, self.value(child))
        for child in [*growth.new, *(tip for tip in growth.tips if tip not in growth.new)]:
            self.arms.tell(tree.parent(child), self.value(child))
        node = errand.node
        self._stale[node] = 0 if growth.new else self._stale.get(node, 0) + 1
        if self._stale[node] >= PATIENCE * (1 + len(tree.children(node))):
            self.arms.close(node)
        self._starts.append(node if any(self.is_open(tip) for tip in growth.tips) else ROOT)

    def _lanes_now(self) -> int:
        """Lanes allowed now: at most half of the paths that the rest of the budget pays for."""
        paths = self.pays_for(0)
        return self.lanes if paths is None else max(1, min(self.lanes, math.ceil(paths / 2)))

    def _forget_wave(self) -> None:
        for node in self._asked_in_wave:
            self.arms.end(node)
        self._asked_in_wave.clear()

    def _finish(self, end: SearchEnd) -> None:
        super()._finish(end)
        self._forget_wave()
