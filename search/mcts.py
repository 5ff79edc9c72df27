"""Monte-Carlo tree search over reasoning steps.

One simulation: descend by the rule to a leaf, ask for its continuations, value what is new, choose a child by the same rule
and go on, until the path finishes (`run_to="finish"`), or stop after one expansion (`run_to="leaf"`). Every finished or dead
node is backed up once, when it is made. Lanes are simulations under way at once; they are kept apart by in-flight counts
(WU-UCT, Liu et al. 2020, arXiv:1810.11755, or virtual loss). A lane that meets a node under expansion asks for one more
child of it. With `widening_k` > 0 a node gets further children as its visits grow (Coulom 2007; Couetoux et al. 2011).

This file knows no model, no task beyond its judgements, and no clock.
"""

from __future__ import annotations

import math
from hashlib import blake2b

import numpy as np

from treewise.search.budget import Budget
from treewise.search.gumbel import root_gumbels
from treewise.search.pace import Pace
from treewise.search.settings import SearchSettings
from treewise.search.trace_nodes import NodeTable
from treewise.search.tree import ROOT, State
from treewise.search.tree_search import Errand, TreeSearch
from treewise.search.types import Ids, InputError, Problem, SearchEnd, Standing, Task

PATIENCE = 4
"""A node is taken to have no further children after so many proposals in a row, times one more than its children, that
brought only copies: a child of the same probability as the others is then missed once in about 50 nodes."""


def tie_seed(run: int, problem_id: str) -> int:
    """Return the seed in [1, 2**63) by which one search draws among equal children."""
    key = f"ties\x1f{run}\x1f{problem_id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little") >> 1 | 1


class MCTSSearch(TreeSearch):
    """MCTS as a state machine; see the module's text."""

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
        ties = tie_seed(seed, problem.id) if settings.ties == "seeded" else 0
        self._rule = settings.build_rule(tie_seed=ties).params()
        self._parked: list[int] = []
        """Nodes of lanes that wait for tokens to come free."""
        self._expanding: dict[int, int] = {}
        """Proposals under way a node."""
        self._stale: dict[int, int] = {}
        """Proposals in a row that brought nothing new, a node."""
        self._planned = False
        """Whether the root has a plan of Gumbel."""
        self._pace = Pace(max_steps=self.max_steps, step_tokens=self.step_tokens)
        if settings.rule == "gumbel" and budget.simulations is None:
            raise InputError("rule 'gumbel' plans its root visits", "give a budget of simulations")

    def take_over(self, nodes: NodeTable) -> None:
        """Start with the nodes of an earlier search; `warm_start` gives them their values and visits. Seeds of siblings go on
        from the samples that each node has. Raises TraceError when the prompt is another."""
        self.solutions.restore(nodes)
        self._proof = bool(nodes.proven.any())
        lengths, copies = np.diff(nodes.id_offsets), nodes.multiplicity
        for node in range(1, len(nodes)):
            parent = int(nodes.parent[node])
            self._asked[parent] = self._asked.get(parent, 0) + int(copies[node])
            self._pace.grown(tokens=int(lengths[node] * copies[node]), steps=int(copies[node]))
            if nodes.standing[node] is not Standing.OPEN:
                self._pace.ended(int(nodes.depth[node]))

    def _next_asks(self) -> None:
        parked, self._parked = self._parked, []
        for node in parked:
            self._expand(node)
        while not self.done and self._may_start():
            node = self._descend(ROOT)
            if node < 0:
                break
            self.meter.start_simulation()
            self.solutions.tree.mark(node)
            self._expand(node)
            if self._parked:
                break
        if not self.done and not self._errands and not self._parked:
            self._finish(SearchEnd.BUDGET if self.meter.spent() else SearchEnd.EXHAUSTED)

    def _grown(self, errand: Errand) -> None:
        growth, tree = errand.growth, self.solutions.tree
        assert growth is not None  # set before a proposal's values are asked for
        node = errand.node
        self._returned(node)
        self._stale[node] = 0 if growth.new else self._stale.get(node, 0) + 1
        if node == ROOT and self.settings.rule == "gumbel" and growth.new:
            gumbels = root_gumbels(len(tree.children(ROOT)), seed=self.seed, problem_id=self.problem.id)
            tree.plan_gumbel(gumbels, considered=self.settings.considered, simulations=self.budget.simulations or 1)
            self._planned = True
        never_wider = self.settings.widening_k == 0 and node not in self._expanding
        if never_wider or self._stale[node] >= PATIENCE * (1 + len(tree.children(node))):
            tree.close(node)
        ended = [n for n in growth.new if self.solutions.standings[n] is not Standing.OPEN]
        self._pace.grown(tokens=growth.tokens, steps=growth.steps)
        for end in ended:
            self._pace.ended(tree.depth(end))
        if any(self.solutions.standings[n] is Standing.FINISHED for n in ended):
            self._end_simulation(node)
        else:
            self._go_on(node)

    def _abandoned(self, errand: Errand) -> None:
        self._returned(errand.node)
        self._end_simulation(errand.node, counted=False)

    def _finish(self, end: SearchEnd) -> None:
        if not self.done:
            super()._finish(end)
            for node in self._parked:
                self._give_up(node)
            self._parked.clear()

    def _select(self, node: int) -> int:
        """Return the child that the rule chooses; -1 if there is none."""
        return self.solutions.tree.select_child(node, self._rule)

    def _descend(self, start: int) -> int:
        """Return the node below `start` where work is wanted; -1 when it is exhausted."""
        return self.solutions.tree.descend(self._rule, start=start)

    def _go_on(self, node: int) -> None:
        """Choose a child of a node just expanded and carry the simulation on from there, or end it."""
        tree = self.solutions.tree
        tree.unmark(node)  # score before marking: a lane does not see itself
        child = self._select(node)
        if child >= 0 and self.settings.run_to == "leaf":
            tree.backup(child, tree.value(child))
        elif child >= 0:
            leaf = self._descend(child)
            if leaf >= 0:
                tree.mark(leaf)
                self._expand(leaf)
                return
        tree.mark(node)
        self._end_simulation(node)

    def _expand(self, node: int) -> None:
        """Ask for children of `node` on behalf of the lane that stands there; park it when it must wait for tokens."""
        tree = self.solutions.tree
        if self.solutions.standings[node] is not Standing.OPEN:
            self._end_simulation(node)
            return
        if self.meter.evaluator_spent():
            self._give_up(node)
            return
        room = min(self.step_tokens, self._room(node))
        if room < 1:
            if node not in self._expanding and tree.state(node) is not State.EXPANDED:
                self._cut(node, f"the context of {self.context_length} tokens is full")
            self._end_simulation(node)
            return
        fresh = tree.state(node) is State.NEW
        want = 1
        if fresh:
            want = self.settings.considered if node == ROOT and self.settings.rule == "gumbel" else self.width
        left = self.meter.tokens_left()
        if left is not None:
            want = max(1, min(want, int(left / self._pace.path_tokens(tree.depth(node))), left // room))
            if room > left:
                if self.meter.reserved_tokens:
                    self._parked.append(node)
                    return
                if left == 0:
                    self._give_up(node)
                    return
                room = left
        if fresh:
            tree.set_in_flight(node)
        self._expanding[node] = self._expanding.get(node, 0) + 1
        self._propose(node, count=want, max_tokens=room)

    def _returned(self, node: int) -> None:
        """One proposal for `node` is no longer under way."""
        self._expanding[node] -= 1
        if not self._expanding[node]:
            del self._expanding[node]
            if self.solutions.tree.state(node) is State.IN_FLIGHT:
                self.solutions.tree.set_new(node)

    def _end_simulation(self, node: int, *, counted: bool = True) -> None:
        self.solutions.tree.unmark(node)
        self.meter.end_simulation(counted=counted)
        self._bill.simulations = self.meter.simulations

    def _give_up(self, node: int) -> None:
        """End a simulation that the budget does not let finish."""
        self._bill.unfinished += 1
        self._end_simulation(node, counted=False)

    def _may_start(self) -> bool:
        """Whether one more simulation may start now."""
        left = self.meter.simulations_left()
        if self._parked or self.meter.spent() or left == 0 or self.meter.tokens_left() == 0:
            return False
        return self.meter.reserved_simulations < self._lanes()

    def _lanes(self) -> int:
        """Lanes allowed now: fewer as the budget runs out, since parallel lanes choose with less knowledge.

        Half of the paths that the rest of the budget pays for may be under way at once.
        """
        lanes = self.lanes
        if self.budget.simulations is not None:
            lanes = min(lanes, math.ceil((self.budget.simulations - self.meter.simulations) / 2))
        if self.budget.tokens is not None:
            lanes = min(lanes, math.ceil((self.budget.tokens - self.meter.tokens) / (2 * self._pace.path_tokens(0))))
        return max(1, lanes)

    def _votes_left(self) -> int | None:
        """A simulation ends with its first expansion that finishes a new path, of at most `width` samples; on the way there each
        level may have brought one more copy of a path that was finished before."""
        left = self.meter.simulations_left()
        most = max(self.width, self.settings.considered) if self.settings.rule == "gumbel" else self.width
        return None if left is None else (left + self.meter.reserved_simulations) * (most + self.max_steps - 1)

    def _planned_step(self) -> int | None:
        return self.solutions.tree.planned_child(self._rule) if self._planned else None
