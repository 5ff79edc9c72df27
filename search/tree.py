"""`Tree`: the search tree as a struct of numpy arrays, append-only, grown in place; no Python object a node.

It checks arguments and owns memory; `kernels.py` and `scoring.py` do the work. It knows no tokens, no model and no search
method. A node is an integer id in order of creation, `ROOT` = 0. At float32 a node takes 45 bytes and at most a sixteenth
more for room to grow.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from treewise.search import kernels, scoring
from treewise.search.gumbel import RootPlan
from treewise.search.kernels import CLOSED, EXHAUSTED, NO_NODE, STATE_MASK, Columns
from treewise.search.rules import GUMBEL, RuleParams
from treewise.search.types import EvaluatorError, InputError

ROOT = 0
MOST_COPIES = 65535
"""Most identical samples that one node stands for."""

Ids: TypeAlias = NDArray[np.int64]


class State(IntEnum):
    """How far a node is."""

    NEW = kernels.NEW
    """No children wanted yet."""
    IN_FLIGHT = kernels.IN_FLIGHT
    """Its first children are asked for."""
    EXPANDED = kernels.EXPANDED
    """It has children."""
    TERMINAL = kernels.TERMINAL
    """Finished or dead; never has children."""


_STATES = tuple(State)
"""By number: making one takes 0.3 microseconds, looking it up next to nothing."""


class Tree:
    """Nodes, statistics and states of one search."""

    def __init__(self, *, capacity: int = 64, dtype: DTypeLike = np.float32, edges: bool = False) -> None:
        """Create the root.

        Args:
            capacity: Nodes to make room for at once, at least 1; it grows by itself.
            dtype: float32 or float64, for weights, values, best and deviations; sums of returns are always float64.
            edges: Keep a reward and a discount a step; without, returns are backed up unchanged.
        """
        if capacity < 1:
            raise InputError(f"tree capacity is {capacity}", "give at least 1")
        real = np.dtype(dtype)
        if real not in (np.float32, np.float64):
            raise InputError(f"tree dtype is {real}", "give float32 or float64")
        step = capacity if edges else 0
        self._columns = Columns(
            parent=np.full(capacity, NO_NODE, np.int32),
            first_child=np.full(capacity, NO_NODE, np.int32),
            next_sibling=np.full(capacity, NO_NODE, np.int32),
            visits=np.zeros(capacity, np.int32),
            in_flight=np.zeros(capacity, np.uint16),
            multiplicity=np.ones(capacity, np.uint16),
            status=np.zeros(capacity, np.uint8),
            value_sum=np.zeros(capacity, np.float64),
            deviations=np.zeros(capacity, real),
            weight=np.ones(capacity, real),
            value=np.full(capacity, np.nan, real),
            best=np.full(capacity, np.nan, real),
            reward=np.zeros(step, real),
            discount=np.ones(step, real),
        )
        self._edges = edges
        self._plan: RootPlan | None = None
        self.size = 1
        """Nodes, the root included."""

    def __len__(self) -> int:
        return self.size

    # Growing.

    def add_children(self, node: int, weights: ArrayLike, *, multiplicity: ArrayLike | None = None) -> int:
        """Append one child a weight behind the children that `node` has; return the first new id, the others follow it.

        The priors of all siblings are their weights over the sum of weights, or equal where every weight is 0. A closed node
        takes children that come late, and may be entered again for them.

        Args:
            node: Any node that is not TERMINAL; it becomes EXPANDED.
            weights: `[K]`, K >= 1, finite, at least 0.
            multiplicity: `[K]` samples that each child stands for, at least 1; 1 each if not given.

        Raises:
            InputError: A weight or multiplicity is out of range, or the node is terminal.
        """
        state = self.state(node)
        new = np.array(weights, np.float64, ndmin=1)
        copies = np.ones(new.size, np.int64) if multiplicity is None else np.array(multiplicity, np.int64, ndmin=1)
        if state is State.TERMINAL:
            raise InputError(f"node {node} is terminal and cannot have children", "expand open nodes only")
        if new.ndim != 1 or new.size == 0 or copies.shape != new.shape:
            message = f"weights of shape {new.shape} and multiplicities of shape {copies.shape} for children of node {node}"
            raise InputError(message, "give one of each a child, and at least one child")
        self.reserve(self.size + new.size)
        first, size = self.size, kernels.append_children(self._columns, self.size, node, new, copies)
        if size < 0:
            message = f"children of node {node} have weights {new.tolist()} and multiplicities {copies.tolist()}"
            raise InputError(message, f"give finite weights of at least 0, and numbers in [1, {MOST_COPIES}]")
        self.size = size
        if self._columns.status[node] & EXHAUSTED:
            kernels.refresh(self._columns, node)
        return first

    def add_multiplicity(self, child: int, weight: float) -> None:
        """Count one more identical sample of `child`: multiplicity + 1, prior weight + `weight`."""
        self._check(child)
        if child == ROOT or not math.isfinite(weight) or weight < 0:
            raise InputError(
                f"another copy of node {child} with weight {weight}", "give a child and a finite weight of at least 0"
            )
        if self._columns.multiplicity[child] < MOST_COPIES:
            self._columns.multiplicity[child] += 1
        self._columns.weight[child] += weight

    def reserve(self, nodes: int) -> None:
        """Make room for `nodes` nodes in all. Raises InputError above 2**31 - 1."""
        room = self._columns.parent.size
        if nodes <= room:
            return
        if nodes > np.iinfo(np.int32).max:
            raise InputError(f"a tree of {nodes} nodes", "node ids end at 2**31 - 1: give the search a smaller budget")
        self._resize(min(max(nodes, room + room // 16), np.iinfo(np.int32).max))

    def trim(self) -> None:
        """Give back the room that is kept for growth."""
        self._resize(self.size)

    def nbytes(self) -> int:
        """Return the bytes allocated for all arrays, room for growth included."""
        return sum(column.nbytes for column in self._columns)

    def _resize(self, room: int) -> None:
        # In place (realloc): the same array objects stay valid, and nothing outside this class holds a view of them.
        for name in Columns._fields:
            if self._edges or name not in ("reward", "discount"):
                getattr(self._columns, name).resize(room, refcheck=False)

    def subtree_ids(self, node: int) -> Ids:
        """Return the ids of `node` and all its descendants, `[K]` rising: entry k is node k of `subtree(node)`."""
        self._check(node)
        numbers = np.empty(self.size, np.int32)
        kernels.number_below(self._columns, self.size, node, numbers)
        return np.flatnonzero(numbers != NO_NODE)

    def subtree(self, node: int) -> Tree:
        """Return a tree of its own with `node` as the root and its descendants: re-rooting, with compaction.

        All statistics and states are kept and nothing else is: no memory is held for the other nodes, and a plan of Gumbel, which
        belongs to a root, is not taken along. Linear in this tree's size. This tree stays as it is.

        Raises:
            InputError: Simulations are under way through `node`.
        """
        if self.in_flight(node):
            raise InputError(f"node {node} has {self.in_flight(node)} simulations under way", "re-root when they are back")
        numbers = np.empty(self.size, np.int32)
        count = kernels.number_below(self._columns, self.size, node, numbers)
        rows = np.flatnonzero(numbers != NO_NODE)
        kept = {name: getattr(self._columns, name)[rows] for name in Columns._fields if getattr(self._columns, name).size}
        for name in ("parent", "first_child", "next_sibling"):
            column = kept[name]
            kept[name] = np.where(column == NO_NODE, NO_NODE, numbers[column]).astype(np.int32)
        kept["parent"][ROOT] = kept["next_sibling"][ROOT] = NO_NODE
        tree = Tree(dtype=self._columns.weight.dtype, edges=self._edges)
        tree._columns = tree._columns._replace(**kept)
        tree.size = count
        return tree

    # What becomes of nodes.

    def set_value(self, node: int, value: float) -> None:
        """Set the evaluator's own value of `node`. Raises EvaluatorError when it is not finite."""
        self._check(node)
        if not math.isfinite(value):
            raise EvaluatorError(f"the value of node {node} is {value}", "the evaluator must give a finite number")
        self._columns.value[node] = value
        kernels.refresh(self._columns, node)

    def set_edge(self, node: int, *, reward: float, discount: float) -> None:
        """Set reward and discount of the step into `node`. Raises InputError in a tree without edges."""
        self._check(node)
        if not self._edges or not math.isfinite(reward) or not math.isfinite(discount):
            raise InputError(
                f"reward {reward} and discount {discount} of node {node}", "give finite numbers to a Tree(edges=True)"
            )
        self._columns.reward[node] = reward
        self._columns.discount[node] = discount
        if node != ROOT:
            kernels.refresh(self._columns, self.parent(node))

    def set_terminal(self, node: int) -> None:
        """Mark `node` finished or dead: it is exhausted, and so are ancestors that are closed and hold nothing else."""
        self._check(node)
        if self._columns.first_child[node] != NO_NODE:
            raise InputError(f"node {node} has children and cannot be terminal", "close it instead")
        self._set_state(node, State.TERMINAL)
        kernels.refresh(self._columns, node)

    def close(self, node: int) -> None:
        """Record that no more children of `node` are wanted. A node without children is then a dead end: exhausted."""
        self._check(node)
        self._columns.status[node] |= CLOSED
        kernels.refresh(self._columns, node)

    def set_in_flight(self, node: int) -> None:
        """Record that the first children of a NEW node are asked for. Raises InputError in any other state."""
        self._change(node, State.NEW, State.IN_FLIGHT)

    def set_new(self, node: int) -> None:
        """Take `set_in_flight` back. Raises InputError unless the node is IN_FLIGHT."""
        self._change(node, State.IN_FLIGHT, State.NEW)

    def _change(self, node: int, before: State, after: State) -> None:
        if self.state(node) is not before:
            raise InputError(f"node {node} is {self.state(node).name}", f"only a node that is {before.name} becomes {after.name}")
        self._set_state(node, after)

    def _set_state(self, node: int, state: State) -> None:
        status = int(self._columns.status[node])
        self._columns.status[node] = (status & ~STATE_MASK) | int(state)

    # Choosing.

    def descend(self, rule: RuleParams, *, start: int = ROOT) -> int:
        """Go down from `start` by the rule and return the node where work is wanted; -1 if `start` is exhausted.

        It is NEW, IN_FLIGHT or TERMINAL, or EXPANDED and wants one more child: because progressive widening grants it, or because
        it is not closed and all its children are exhausted. Nothing is changed: score first, then `mark`.
        """
        self._check(start)
        if self._planned(start, rule):
            if self._columns.status[start] & EXHAUSTED and not rule[0]["revisit_terminals"]:
                return NO_NODE
            child = self.select_child(start, rule)
            return start if child < 0 else scoring.descend(self._columns, child, rule)
        return scoring.descend(self._columns, start, rule)

    def wants_work(self, node: int, rule: RuleParams) -> bool:
        """Whether a descent by the rule would stop at `node`: it is not expanded, or wants one more child."""
        self._check(node)
        return self.state(node) is not State.EXPANDED or bool(scoring.may_widen(self._columns, node, rule))

    def set_best(self, node: int, best: float) -> None:
        """Replace the best value below `node` by one that was computed elsewhere, until the next backup through it."""
        self._check(node)
        self._columns.best[node] = best

    def select_child(self, node: int, rule: RuleParams) -> int:
        """Return the child that the rule chooses among those that are not exhausted; -1 if there is none."""
        self._check(node)
        if self._columns.first_child[node] == NO_NODE:
            return NO_NODE
        if not self._planned(node, rule):
            return scoring.select(self._columns, node, rule)
        assert self._plan is not None
        children = self.children(node)
        counts = self._columns.visits[children].astype(np.int64) + self._columns.in_flight[children]
        enterable = (self._columns.status[children] & EXHAUSTED) == 0
        if rule[0]["revisit_terminals"]:
            enterable[:] = True
        index = self._plan.next_child(self.completed_scores(node, rule), counts, enterable)
        return NO_NODE if index is None else int(children[index])

    def plan_gumbel(self, gumbels: ArrayLike, *, considered: int, simulations: int) -> None:
        """Choose among the root's children by sequential halving whenever the rule is Gumbel.

        Args:
            gumbels: `[K]` standard Gumbel numbers, one for each of the root's children at this time. Children that come later
                are not considered until the next plan.
            considered: Most children considered, at least 1.
            simulations: Simulations planned for the whole search, at least 1.

        Raises:
            InputError: One of these is out of range, or the length is not the number of children.
        """
        plan = RootPlan.make(gumbels, considered=considered, simulations=simulations)
        if plan.gumbels.size != self.children(ROOT).size:
            raise InputError(f"{plan.gumbels.size} Gumbel numbers for {self.children(ROOT).size} children", "give one a child")
        self._plan = plan

    def planned_child(self, rule: RuleParams) -> int:
        """Return the root's child that sequential halving ends with: the best score among the most visited.

        Raises InputError without a plan.
        """
        if self._plan is None or self._columns.first_child[ROOT] == NO_NODE:
            raise InputError("the root has no Gumbel plan", "call plan_gumbel after the root is expanded")
        children = self.children(ROOT)
        index = self._plan.final_child(self.completed_scores(ROOT, rule), self._columns.visits[children])
        return int(children[index])

    def scores(self, node: int, rule: RuleParams) -> NDArray[np.float64]:
        """Return the rule's scores of the children, `[K]` in order of creation."""
        out = np.empty(self.children(node).size)
        if out.size:
            scoring.score_children(self._columns, node, rule, out)
        return out

    def completed_scores(self, node: int, rule: RuleParams) -> NDArray[np.float64]:
        """Return ln P + sigma(completed Q) of the children, `[K]`. Raises InputError unless the rule is Gumbel."""
        if rule[0]["kind"] != GUMBEL:
            raise InputError("completed scores of a rule that is not 'gumbel'", "use Rule(name='gumbel')")
        out = np.empty(self.children(node).size)
        if out.size:
            scoring.completed_scores(self._columns, node, rule, out)
        return out

    def _planned(self, node: int, rule: RuleParams) -> bool:
        return self._plan is not None and node == ROOT and bool(rule[0]["kind"] == GUMBEL)

    # Counting.

    def mark(self, node: int) -> None:
        """Count a simulation under way on the path from `node` to the root. Raises InputError above 65,535 at one node."""
        self._check(node)
        if not kernels.mark(self._columns, node):
            raise InputError(f"more than 65535 simulations under way above node {node}", "use fewer lanes")

    def unmark(self, node: int) -> None:
        """Take one `mark` of the same node back. Raises InputError where there is none."""
        self._check(node)
        if not kernels.unmark(self._columns, node):
            raise InputError(f"node {node} has no simulation under way to take back", "unmark once for each mark")

    def backup(self, node: int, value: float) -> None:
        """Add one visit that returned `value` to `node` and all its ancestors. Raises EvaluatorError when it is not finite."""
        self._check(node)
        if not math.isfinite(value):
            raise EvaluatorError(f"the return backed up from node {node} is {value}", "the evaluator must give a finite number")
        kernels.backup(self._columns, node, value)

    def in_flight_total(self) -> int:
        """Return the sum of all in-flight counts; 0 when nothing is under way."""
        return int(self._columns.in_flight[: self.size].sum(dtype=np.int64))

    # Reading.

    def state(self, node: int) -> State:
        """Return how far the node is."""
        self._check(node)
        return _STATES[int(self._columns.status[node]) & STATE_MASK]

    def exhausted(self, node: int) -> bool:
        """Return whether nothing below is left to search."""
        self._check(node)
        return bool(self._columns.status[node] & EXHAUSTED)

    def closed(self, node: int) -> bool:
        """Return whether no more children are wanted."""
        self._check(node)
        return bool(self._columns.status[node] & CLOSED)

    def parent(self, node: int) -> int:
        """Return the parent's id; -1 for the root."""
        self._check(node)
        return int(self._columns.parent[node])

    def children(self, node: int) -> Ids:
        """Return the ids of the children, `[K]` in order of creation."""
        self._check(node)
        found = []
        child = int(self._columns.first_child[node])
        while child != NO_NODE:
            found.append(child)
            child = int(self._columns.next_sibling[child])
        return np.array(found, np.int64)

    def path(self, node: int) -> Ids:
        """Return the ids from the root to `node`, both included."""
        self._check(node)
        found = []
        parent = self._columns.parent
        while node != NO_NODE:
            found.append(node)
            node = int(parent[node])
        found.reverse()
        return np.array(found, np.int64)

    def depth(self, node: int) -> int:
        """Return the number of steps from the root."""
        return self.path(node).size - 1

    def visits(self, node: int) -> int:
        """Return the number of backups through the node."""
        self._check(node)
        return int(self._columns.visits[node])

    def in_flight(self, node: int) -> int:
        """Return the number of simulations under way through the node."""
        self._check(node)
        return int(self._columns.in_flight[node])

    def multiplicity(self, node: int) -> int:
        """Return how many identical samples the node stands for."""
        self._check(node)
        return int(self._columns.multiplicity[node])

    def value(self, node: int) -> float:
        """Return the evaluator's own value; NaN without one."""
        self._check(node)
        return float(self._columns.value[node])

    def mean(self, node: int) -> float:
        """Return the mean of the returns backed up through the node; NaN without visits."""
        visits = self.visits(node)
        return float(self._columns.value_sum[node]) / visits if visits else math.nan

    def variance(self, node: int) -> float:
        """Return the mean squared deviation of the returns backed up through the node; NaN without visits."""
        visits = self.visits(node)
        return float(self._columns.deviations[node]) / visits if visits else math.nan

    def best(self, node: int) -> float:
        """Return the best value over the children that are not exhausted, or over all where all are; without valued children the
        node's own value, else its mean, else NaN."""
        self._check(node)
        return float(self._columns.best[node])

    def prior(self, node: int) -> NDArray[np.float64]:
        """Return the priors of the children, `[K]`, sum 1."""
        weights = self._columns.weight[self.children(node)].astype(np.float64)
        mass = weights.sum()
        return weights / mass if mass > 0 else np.full(weights.size, 1.0 / max(1, weights.size))

    def visit_weights(self, node: int) -> NDArray[np.float64]:
        """Return the share of visits of each child, `[K]`, sum 1; the priors where no child was visited."""
        counts = self._columns.visits[self.children(node)].astype(np.float64)
        return counts / counts.sum() if counts.sum() > 0 else self.prior(node)

    def most_visited(self, node: int, *, outcomes_first: bool = False) -> int:
        """Return the child of most visits, then of the largest sum of returns, then the first; -1 without children.

        Where no child was visited the prior decides. With `outcomes_first` the mean return of a visited terminal child goes
        before all that, every other child counting as 0 there (OpenSpiel).
        """
        children = self.children(node).tolist()
        if not children:
            return NO_NODE
        if not any(self.visits(child) for child in children):
            return int(children[int(np.argmax(self.prior(node)))])

        def order(child: int) -> tuple[float, int, float, int]:
            decided = outcomes_first and self.visits(child) > 0 and self.state(child) is State.TERMINAL
            return (self.mean(child) if decided else 0.0, self.visits(child), float(self._columns.value_sum[child]), -child)

        return int(max(children, key=order))

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return copies of the statistics, each `[size]` in order of id.

        They are parent, depth, prior, multiplicity, visits, value_sum, mean (NaN without visits), best, value, state, exhausted.
        """
        t, size = self._columns, self.size
        parent, visits = t.parent[:size].copy(), t.visits[:size].copy()
        depth = np.zeros(size, np.int32)
        for node in range(1, size):
            depth[node] = depth[parent[node]] + 1
        weights, above = t.weight[:size].astype(np.float64), np.maximum(parent, ROOT)
        weights[ROOT] = 0.0
        mass, count = np.bincount(above, weights, size), np.bincount(above[1:], minlength=size)
        with np.errstate(invalid="ignore", divide="ignore"):
            prior = np.where(mass[above] > 0, weights / mass[above], 1.0 / count[above])
            mean = np.where(visits > 0, t.value_sum[:size] / visits, np.nan)
        prior[ROOT] = 1.0
        return {
            "parent": parent,
            "depth": depth,
            "prior": prior,
            "multiplicity": t.multiplicity[:size].astype(np.int32),
            "visits": visits,
            "value_sum": t.value_sum[:size].copy(),
            "mean": mean,
            "best": t.best[:size].copy(),
            "value": t.value[:size].copy(),
            "state": t.status[:size] & STATE_MASK,
            "exhausted": (t.status[:size] & EXHAUSTED) != 0,
        }

    def _check(self, node: int) -> None:
        if not 0 <= node < self.size:
            raise InputError(f"there is no node {node}", f"ids of this tree are 0 to {self.size - 1}")
