"""What the searches share that keep a belief about their tree: telling it, answering by it."""

from __future__ import annotations

from treewise.search.answer import Choice
from treewise.search.belief import Belief, Posterior
from treewise.search.tree_search import Errand, TreeSearch
from treewise.search.types import Evaluation, Finish, Standing


class Believing(TreeSearch):
    """To be mixed into a search, before its own class."""

    _belief: Belief | None = None
    _seen: tuple[int, Posterior] | None = None
    _held: list[tuple[int, float, bool]] | None = None
    """Readings that are all equal so far, with their nodes and whether these are finished. A scale that always shows the same
    weighs nothing: they are told to the belief once one differs."""
    _informed = False
    """Whether two open nodes have been read differently."""

    @property
    def belief(self) -> Belief:
        """What is believed of the tree so far."""
        if self._belief is None:
            self._belief = Belief()
        return self._belief

    def posterior(self) -> Posterior:
        """Return what is believed now of every node and answer."""
        self._keep_up()
        if self._seen is None or self._seen[0] != self.belief.version or len(self._seen[1].states) != self.belief.size:
            self._seen = (self.belief.version, self.belief.posterior())
        return self._seen[1]

    def _read(self, node: int, evaluation: Evaluation) -> None:
        self._keep_up()
        finished = self.solutions.standings[node] is Standing.FINISHED
        if evaluation.readings:
            path = self.solutions.tree.path(node)[1:].tolist()
            for step, reading in zip(path, evaluation.readings, strict=True):
                self.belief.observe(step, reading, settled=finished)
        else:
            self._weigh(node, evaluation.value, finished)
        if finished:
            self.belief.finish(node, self.solutions.judgements[node].answer or "")

    def _weigh(self, node: int, reading: float, finished: bool) -> None:
        """Tell the belief a reading, or hold it back while all are the same."""
        held = self._held = self._held or []
        if self._informed or (held and finished and reading != held[0][1]):
            self.belief.observe(node, reading, settled=finished)
            return
        held.append((node, reading, finished))
        if reading != held[0][1]:
            self._informed = True
            for earlier, seen, settled in held:
                self.belief.observe(earlier, seen, settled=settled)
            held.clear()

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
        return Choice(best, 1.0 if self._proven(best.node) else posterior.answers.get(best.text, 0.0))

    def _settled(self) -> bool:
        """Ended by the answer's posterior alone, where the method looks at it."""
        return False if self.settings.choose is None else super()._settled()

    def _take_in(self, errand: Errand) -> None:
        """Tell the belief which new paths are known to be wrong; a path that was only cut says nothing."""
        assert errand.growth is not None  # set before values are asked for
        self._keep_up()
        for node in errand.growth.new:
            cut = Finish(self.solutions.tokens.finish(node)) in (Finish.LENGTH, Finish.ERROR)
            if self.solutions.standings[node] is Standing.DEAD and not cut:
                self.belief.fail(node)
