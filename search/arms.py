"""`Arms`: for every node of a tree the choice between a new child and one of those it has, by Thompson sampling.

A node has an arm GENERATE, an arm CONTINUE, and behind CONTINUE one arm for each child that may be entered. Scores are kept as
count, sum and sum of squares: a step costs O(depth), whatever came before. It knows no tokens, no model and no budget.

GENERATE holds the scores of the node's children as they were made. What the others hold is `backup`:

- all: everything below, as published: a child's arm the scores of all its descendants, CONTINUE those of all grandchildren and
  below.
- best: a child's arm its own score and what the better of its own two arms holds; CONTINUE what the best child's arm holds. An
  average over everything below falls with depth where most steps are wrong, so that a search by it stays near the root.

At most `MOST_ARMS` children are in the draw at once, those of highest expected score, so that cost does not grow with their
number; the others come back as these are used up. Up to `MOST_ARMS` children the draw is exact.

Source: Inoue et al. 2025, arXiv:2503.04412, section 3.3 (AB-MCTS-A); its reference implementation for what is backed up where.
Ours: `best`, the counting of work under way, the bounded draw.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from treewise.search.kernels import NO_NODE, compiled, inlined
from treewise.search.thompson import BETA, GAUSSIAN, draw, mixed, posterior_mean

Posterior = Literal["gaussian", "beta"]
ArmBackup = Literal["best", "all"]

MOST_ARMS = 64
"""Children of a node in the draw at once."""

GENERATE, CONTINUE = 1, 2
"""Which of a node's two arms a draw is for; a child's arm is 0."""

_IN, _OUT, _GONE = range(3)
"""In the draw; set aside; ended or exhausted."""

_ROW = np.dtype(
    [
        ("parent", np.int32),
        ("next", np.int32),  # in the list that the node is on, of its parent
        ("children", np.int32),  # first child in the draw
        ("aside", np.int32),  # first child set aside
        ("in_draw", np.int32),
        ("place", np.int8),
        ("closed", np.bool_),
        ("pending", np.int32),  # requests under way at the node or below
        ("pending_here", np.int32),  # of those, the ones at the node itself
        ("own", np.float64),  # the node's score; NaN at the root
        ("new_count", np.float64),
        ("new_sum", np.float64),
        ("new_squares", np.float64),
        ("old_count", np.float64),
        ("old_sum", np.float64),
        ("old_squares", np.float64),
    ]
)
Rows: TypeAlias = NDArray[Any]


@inlined
def _arm(t: Rows, node: int, kind: int, best: bool) -> tuple[float, float, float]:
    """What the arm of the step into `node` holds: count, sum, sum of squares."""
    r = t[node]
    if not best:
        return r.new_count + r.old_count, r.new_sum + r.old_sum, r.new_squares + r.old_squares
    count, total, squares = r.new_count, r.new_sum, r.new_squares
    old_mean = posterior_mean(kind, r.old_count, r.old_sum)
    if count == 0.0 or (r.old_count > 0.0 and old_mean >= posterior_mean(kind, count, total)):
        count, total, squares = r.old_count, r.old_sum, r.old_squares
    return count + 1.0, total + r.own, squares + r.own * r.own


@inlined
def _expected(t: Rows, node: int, kind: int, best: bool) -> float:
    count, total, _ = _arm(t, node, kind, best)
    return posterior_mean(kind, count, total)


@inlined
def _renew(t: Rows, node: int, kind: int) -> None:
    """backup best: let CONTINUE hold what the best child's arm holds."""
    count, total, squares, highest = 0.0, 0.0, 0.0, -np.inf
    child = t[node].children
    while child >= 0:
        c, s, q = _arm(t, child, kind, True)
        mean = posterior_mean(kind, c, s)
        if mean > highest:
            count, total, squares, highest = c, s, q, mean
        child = t[child].next
    t[node].old_count, t[node].old_sum, t[node].old_squares = count, total, squares


@inlined
def _renew_upwards(t: Rows, node: int, kind: int) -> None:
    while node >= 0:
        _renew(t, node, kind)
        node = t[node].parent


@compiled
def _tell(t: Rows, node: int, score: float, kind: int, best: bool) -> None:
    """A sample of `node` scored so much."""
    t[node].new_count += 1.0
    t[node].new_sum += score
    t[node].new_squares += score * score
    if best:
        _renew_upwards(t, t[node].parent, kind)
        return
    node = t[node].parent
    while node >= 0:
        t[node].old_count += 1.0
        t[node].old_sum += score
        t[node].old_squares += score * score
        node = t[node].parent


@inlined
def _unlink(t: Rows, parent: int, child: int) -> None:
    """Take a child out of its parent's draw."""
    at, before = t[parent].children, NO_NODE
    while at != child:
        at, before = t[at].next, at
    if before < 0:
        t[parent].children = t[child].next
    else:
        t[before].next = t[child].next
    t[parent].in_draw -= 1


@inlined
def _link(t: Rows, parent: int, child: int) -> None:
    t[child].place = _IN
    t[child].next = t[parent].children
    t[parent].children = child
    t[parent].in_draw += 1


@compiled
def _enter(t: Rows, parent: int, child: int, own: float, kind: int, best: bool, most: int) -> None:
    """Put a new open child into the draw; where that is full, the one of lowest expected score without work goes aside."""
    t[child].parent = parent
    t[child].own = own
    _link(t, parent, child)
    if t[parent].in_draw > most:
        worst, lowest = child, _expected(t, child, kind, best)
        at = t[parent].children
        while at >= 0:
            mean = _expected(t, at, kind, best)
            if mean < lowest and t[at].pending == 0:
                worst, lowest = at, mean
            at = t[at].next
        _unlink(t, parent, worst)
        t[worst].place = _OUT
        t[worst].next = t[parent].aside
        t[parent].aside = worst
    if best:
        _renew_upwards(t, parent, kind)


@compiled
def _leave(t: Rows, node: int, kind: int, best: bool, most: int) -> None:
    """Nothing is left to do in `node`: it leaves the draw, and so do ancestors that are used up by that."""
    while node >= 0 and t[node].place == _IN:
        parent = t[node].parent
        t[node].place = _GONE
        if parent < 0:
            return
        _unlink(t, parent, node)
        while t[parent].in_draw == 0 and t[parent].aside >= 0:
            back = t[parent].aside
            t[parent].aside = t[back].next
            if t[back].closed and t[back].in_draw == 0:
                t[back].place = _GONE
                continue
            _link(t, parent, back)
            if t[parent].in_draw == most:
                break
        if best:
            _renew_upwards(t, parent, kind)
        if t[parent].in_draw > 0 or not t[parent].closed:
            return
        node = parent


@compiled
def _decide(t: Rows, node: int, key: int, kind: int, best: bool) -> int:
    """Go down from `node` by draws to where a new child is wanted; -1 if `node` is used up."""
    if t[node].place == _GONE or (t[node].closed and t[node].in_draw == 0):
        return NO_NODE
    while t[node].in_draw > 0:
        r = t[node]
        if not r.closed:
            new = draw(kind, mixed(key, 3 * node + GENERATE), r.new_count, r.new_sum, r.new_squares, float(r.pending_here))
            below = float(r.pending - r.pending_here)
            old = draw(kind, mixed(key, 3 * node + CONTINUE), r.old_count, r.old_sum, r.old_squares, below)
            if new >= old:
                return node
        chosen, highest = NO_NODE, -np.inf
        child = r.children
        while child >= 0:
            count, total, squares = _arm(t, child, kind, best)
            score = draw(kind, mixed(key, 3 * child), count, total, squares, float(t[child].pending))
            if score > highest:
                chosen, highest = child, score
            child = t[child].next
        node = chosen
    return node


@compiled
def _count(t: Rows, node: int, change: int) -> None:
    t[node].pending_here += change
    while node >= 0:
        t[node].pending += change
        node = t[node].parent


class Arms:
    """The arms of one search's tree; node 0 is the root."""

    def __init__(
        self, *, posterior: Posterior = "gaussian", backup: ArmBackup = "best", seed: int = 0, most: int = MOST_ARMS
    ) -> None:
        """`seed` in [0, 2**63) decides every draw; `most` is the number of children of a node in the draw at once."""
        self._kind = BETA if posterior == "beta" else GAUSSIAN
        self._best = backup == "best"
        self._seed = seed
        self._most = most
        self._rows: Rows = np.empty(0, _ROW)
        self._grow(64)

    def add(self, parent: int, child: int, score: float) -> None:
        """Make an open child of `parent`, scored in [0, 1] and not there before, an arm."""
        if child >= self._rows.size:
            self._grow(max(child + 1, self._rows.size + self._rows.size // 4))
        _enter(self._rows, parent, child, score, self._kind, self._best, self._most)

    def tell(self, node: int, score: float) -> None:
        """Record that a sample of `node` scored so much, whatever became of it."""
        _tell(self._rows, node, score, self._kind, self._best)

    def start(self, node: int) -> None:
        """Count a request for a child of `node` as under way."""
        _count(self._rows, node, 1)

    def end(self, node: int) -> None:
        """Take one `start` back."""
        _count(self._rows, node, -1)

    def close(self, node: int) -> None:
        """Record that `node` gets no more children: only those it has can be entered."""
        self._rows[node]["closed"] = True
        if self._rows[node]["in_draw"] == 0:
            _leave(self._rows, node, self._kind, self._best, self._most)

    def decide(self, number: int, *, start: int = 0) -> int:
        """Return the node below `start` of which a new child is wanted; -1 if nothing is left there. Changes nothing.

        `number` tells one decision from another: the same number draws the same again.
        """
        return int(_decide(self._rows, start, int(mixed(self._seed, number) >> np.uint64(1)), self._kind, self._best))

    def pending(self, node: int = 0) -> int:
        """Return how many requests are under way at `node` and below."""
        return int(self._rows[node]["pending"])

    def scores(self, node: int, arm: int) -> tuple[float, float, float]:
        """Return count, sum and sum of squares of what an arm of `node` holds: GENERATE, CONTINUE, or 0 for the step into it."""
        if arm == 0:
            return tuple(map(float, _arm(self._rows, node, self._kind, self._best)))  # type: ignore[return-value]
        name = "new" if arm == GENERATE else "old"
        row = self._rows[node]
        return float(row[f"{name}_count"]), float(row[f"{name}_sum"]), float(row[f"{name}_squares"])

    def _grow(self, room: int) -> None:
        rows = np.zeros(room, _ROW)
        for name in ("parent", "next", "children", "aside"):
            rows[name] = NO_NODE
        rows["place"] = _GONE
        rows["own"] = np.nan
        rows[: self._rows.size] = self._rows
        if not self._rows.size:
            rows["place"][0] = _IN
        self._rows = rows
