"""What the methods share that grow a tree in waves: paying for steps, counting ends, and always an answer.

A wave asks for continuations of some nodes and is over when all of them are valued; the next one is then chosen with all of
that known. What the budget cannot pay for in the worst case yet is asked for when earlier requests are back. Other searches
use the engine meanwhile. While nothing has finished, as many tokens are kept back as it takes to bring one path to its end,
so that a search whose budget is too small for its method still answers. `level_search.py` builds on it; `hybrid.py` is a short
example.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field

from treewise.search.answer import aggregate
from treewise.search.budget import Budget
from treewise.search.pace import Pace
from treewise.search.seeds import lot
from treewise.search.settings import SearchSettings
from treewise.search.tree import ROOT, State
from treewise.search.tree_search import Errand, TreeSearch
from treewise.search.types import Ids, Problem, SearchEnd, Standing, Task

KEPT_BACK = 1.5
"""Expected tokens from a path to its end are multiplied by this when they are kept back for it."""


@dataclass(slots=True)
class Want:
    """Continuations of one node that a wave wants."""

    node: int
    left: int
    """How many are not asked for yet."""
    steps: int | None
    """Steps of each; None is to the end."""
    tips: list[int] = field(default_factory=list)
    """Last node of each that is back, new or known, in the order of asking."""


class StepwiseSearch(TreeSearch):
    """A search in waves. One simulation of the budget is one path that ended."""

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
        self.pace = Pace(max_steps=self.max_steps, step_tokens=self.step_tokens)
        self.wants: list[Want] = []
        """Of the wave under way, in the order of `_sample`."""
        self.last: list[Want] = []
        """Of the wave before, for `_wave`: all that it brought."""
        self._senders: dict[int, Want] = {}
        """Whose an errand is."""

    # What a method gives.

    @abstractmethod
    def _wave(self) -> None:
        """Ask for the next wave through `_sample`; nothing is under way. Asking for nothing ends the search."""

    def _sampled(self, errand: Errand) -> None:
        """Some of what the wave wants is in the tree and valued, in the order of asking; `errand.growth` says which."""

    # What a method uses.

    def is_open(self, node: int) -> bool:
        """Whether steps may still follow."""
        return self.solutions.standings[node] is Standing.OPEN

    def is_dead(self, node: int) -> bool:
        """Whether the path ended without an answer."""
        return self.solutions.standings[node] is Standing.DEAD

    def value(self, node: int) -> float:
        """The evaluator's value of a node in [0, 1]: the root counts as 0.5, a dead path as 0."""
        value = self.solutions.tree.value(node)
        if value != value:
            return 0.5 if self.is_open(node) else 0.0
        return value

    def score(self, node: int) -> float:
        """What the path to a node is worth in [0, 1]: the values of its steps, aggregated as the settings say."""
        if self.settings.aggregate == "last" or node == ROOT:
            return self.value(node)
        return aggregate([self.value(step) for step in self.solutions.tree.path(node)[1:].tolist()], self.settings.aggregate)

    def ranked(self, nodes: Iterable[int]) -> list[int]:
        """The nodes without repeats, best score first; equal ones in an order drawn by the seed."""
        keyed = {node: (-self.score(node), lot(self.seed, self.problem.id, "rank", node)) for node in nodes}
        return sorted(keyed, key=lambda node: keyed[node])

    def pays_for(self, depth: int) -> int | None:
        """Paths from `depth` to their end that the rest of the budget is expected to pay for; None without a limit."""
        tokens, simulations = self.meter.tokens_left(), self.meter.simulations_left()
        if tokens is None:
            return simulations
        paths = int(tokens / self.pace.likely_tokens(depth))
        return paths if simulations is None else min(paths, simulations)

    def within(self, count: int, depth: int) -> int:
        """Of `count` paths from `depth`, as many as the rest of the budget pays for; at least 1."""
        paths = self.pays_for(depth)
        return count if paths is None else max(1, min(count, paths))

    def _sample(self, node: int, count: int, *, steps: int | None = 1) -> int:
        """Ask for `count` continuations of an open node, now or when what is under way is back.

        Returns `count`; 0 when the context is full, or nothing is under way and the budget does not pay for one.
        """
        if count < 1 or not self.is_open(node) or self.meter.evaluator_spent():
            return 0
        if self._room(node) < 1:
            self._cut(node, f"the context of {self.context_length} tokens is full")
            return 0
        want = Want(node, count, steps)
        self._send(want)
        if not self._errands:
            return 0
        self.wants.append(want)
        return count

    def _complete(self) -> None:
        """End, as there is no more that the method would do; but while nothing has finished, paths that wait are tried."""
        if not self.solutions.finished:
            self._run_out(fresh_only=True)
        if not self._errands:
            self._finish(SearchEnd.COMPLETE)

    # Inside.

    def _next_asks(self) -> None:
        for want in self.wants:
            if want.left:
                self._send(want)
        if self._errands:
            return
        if not self.meter.spent() and self.meter.tokens_left() != 0:
            self.last, self.wants = self.wants, []
            self._wave()
            if not self._errands and not self.done and not self.solutions.finished and self.budget.tokens is not None:
                self._run_out()
        if not self._errands and not self.done:
            unspent = not self.meter.spent() and not any(self.is_open(n) for n in range(self.solutions.tree.size))
            self._finish(SearchEnd.EXHAUSTED if unspent else SearchEnd.BUDGET)

    def _send(self, want: Want) -> None:
        """Ask for as much of a want as can be paid for now."""
        if self.meter.evaluator_spent():
            return
        depth = self.solutions.tree.depth(want.node)
        whole = want.steps is None
        size = min(self._room(want.node), self.step_tokens * (max(1, self.max_steps - depth) if whole else 1))
        expected = min(size, self.pace.path_tokens(depth) if whole else self.pace.step_tokens)
        count, tokens, simulations = want.left, self.meter.tokens_left(), self.meter.simulations_left()
        if simulations is not None:
            count = min(count, simulations)
        if tokens is not None:
            if not self._errands and expected <= tokens < size:
                size = tokens
            spare = tokens - (0.0 if whole else self._kept_back(depth))
            count = min(count, int(spare / expected), tokens // size)
        if count < 1:
            return
        want.left -= count
        for _ in range(count):
            self.meter.start_simulation()
        self._senders[id(self._propose(want.node, count=count, max_tokens=size, steps=want.steps))] = want

    def _kept_back(self, depth: int) -> float:
        """Tokens to keep for bringing one path to its end after a step at `depth`; none once something has finished."""
        last = depth + 1 >= self.max_steps
        return 0.0 if last or self.solutions.finished else KEPT_BACK * self.pace.path_tokens(depth + 1)

    def _run_out(self, *, fresh_only: bool = False) -> None:
        """Bring the best open path to its end in one request; with `fresh_only`, of those that nothing follows yet."""
        if self.meter.simulations_left() == 0 or self.meter.evaluator_spent():
            return
        tree, left = self.solutions.tree, self.meter.tokens_left()
        nodes = [n for n in range(tree.size) if self.is_open(n) and self._room(n) >= 1]
        if fresh_only:
            nodes = [n for n in nodes if n not in self._asked and tree.state(n) is State.NEW]
        if not nodes:
            return
        payable = [n for n in nodes if left is None or self.pace.path_tokens(tree.depth(n)) <= left]
        best = max(payable or nodes, key=lambda n: (self.score(n), tree.depth(n), -n) if payable else (tree.depth(n), -n))
        size = min(self._room(best), self.step_tokens * (self.max_steps - tree.depth(best)))
        self.meter.start_simulation()
        self._propose(best, count=1, max_tokens=size if left is None else min(left, size), steps=None)

    def _grown(self, errand: Errand) -> None:
        growth = errand.growth
        assert growth is not None  # set before values are asked for
        self.pace.grown(tokens=growth.tokens, steps=growth.steps)
        ended = [tip for tip in growth.tips if not self.is_open(tip)]
        for tip in ended:
            self.pace.ended(self.solutions.tree.depth(tip))
        for index in range(errand.samples):
            self.meter.end_simulation(counted=index < len(ended))
        self._bill.simulations = self.meter.simulations
        want = self._senders.pop(id(errand), None)
        if want is None or want.steps is None:
            self._bill.unfinished += len(growth.tips) - len(ended)
        if want is not None:
            want.tips += growth.tips
        self._sampled(errand)

    def _abandoned(self, errand: Errand) -> None:
        self._senders.pop(id(errand), None)
        for _ in range(errand.samples):
            self.meter.end_simulation(counted=False)

    def _votes_left(self) -> int | None:
        left = self.meter.simulations_left()
        return None if left is None else left + self.meter.reserved_simulations


def fresh(nodes: Iterable[int]) -> list[int]:
    """Return the nodes without repeats, in order of first mention: samples that merged stand for one step."""
    return list(dict.fromkeys(nodes))
