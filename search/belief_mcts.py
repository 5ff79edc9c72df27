"""MCTS with belief backup: a child's Q is the posterior that the path to it is right, given every reading in the tree.

A reading is folded into its ancestors, one message a level; a descent reads the posteriors of the children that it passes. So a
simulation costs its depth, as with any backup, and Q is never stale.
"""

from __future__ import annotations

from treewise.search.belief import Walk
from treewise.search.believing import Believing
from treewise.search.mcts import MCTSSearch
from treewise.search.tree import State
from treewise.search.tree_search import Errand
from treewise.search.types import SearchEnd


class BeliefMCTS(Believing, MCTSSearch):
    """MCTS whose values are posteriors."""

    def _next_asks(self) -> None:
        self._keep_up()
        self.belief.learn()
        if self.belief.most_probable_answer() > self.settings.belief_stop:
            self._finish(SearchEnd.CONFIDENT)
            return
        super()._next_asks()

    def _grown(self, errand: Errand) -> None:
        self._take_in(errand)
        super()._grown(errand)

    def _descend(self, start: int) -> int:
        tree = self.solutions.tree
        if tree.exhausted(start):
            return -1
        walk = self._walk(start)
        while not tree.wants_work(walk.node, self._rule):
            child = self._show(walk)
            if child < 0:
                break
            walk.enter(child)
        return walk.node

    def _select(self, node: int) -> int:
        return self._show(self._walk(node))

    def _walk(self, node: int) -> Walk:
        self._keep_up()
        walk = self.belief.walk()
        for step in self.solutions.tree.path(node)[1:].tolist():
            walk.enter(step)
        return walk

    def _show(self, walk: Walk) -> int:
        """Let the rule see the posteriors of the children of where the walk stands, and return its choice."""
        tree = self.solutions.tree
        if tree.state(walk.node) is not State.EXPANDED:
            return -1
        children = tree.children(walk.node).tolist()
        for child, right in zip(children, walk.right(children), strict=True):
            tree.set_best(child, right)
        return tree.select_child(walk.node, self._rule)
