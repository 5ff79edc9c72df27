"""Compiled work on a tree's arrays: what they are, backup, best and exhausted, marking, appending. Scores are in `scoring.py`.

Every kernel is iterative, so that a chain of any depth is fine, and allocates nothing. They trust their arguments:
`Tree` checks them. They know no tokens, no model and no search method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

NEW, IN_FLIGHT, EXPANDED, TERMINAL = range(4)
STATE_MASK, EXHAUSTED, CLOSED = 3, 4, 8
"""Layout of `status`: two bits of state, two flags."""

NO_NODE = -1
_Function = TypeVar("_Function", bound=Callable[..., Any])
compiled: Callable[[_Function], _Function] = numba.njit(cache=True, nogil=True, _nrt=False)
"""Without numba's reference counts (`_nrt`), which no kernel needs, since none creates an array."""
inlined: Callable[[_Function], _Function] = numba.njit(cache=True, nogil=True, _nrt=False, forceinline=True)
"""Inlined into its callers. Both together make a descent ten times faster than counted references to 13 arrays a call."""


class Columns(NamedTuple):
    """The arrays of a tree, each of length capacity; rows from the tree's size on are unused."""

    parent: NDArray[np.int32]
    """Parent's id; -1 at the root."""
    first_child: NDArray[np.int32]
    """-1 without children."""
    next_sibling: NDArray[np.int32]
    """-1 at the last sibling."""
    visits: NDArray[np.int32]
    """Backups that went through the node."""
    in_flight: NDArray[np.uint16]
    """Marks not yet taken back."""
    multiplicity: NDArray[np.uint16]
    """How many identical samples the node stands for."""
    status: NDArray[np.uint8]
    """State and flags."""
    value_sum: NDArray[np.float64]
    """Sum of the returns backed up, from the node's own point of view."""
    deviations: NDArray[np.floating[Any]]
    """Sum of their squared deviations from their mean."""
    weight: NDArray[np.floating[Any]]
    """Prior weight, not normalised."""
    value: NDArray[np.floating[Any]]
    """The evaluator's own value; NaN without."""
    best: NDArray[np.floating[Any]]
    """Best value in the subtree; NaN while nothing is known."""
    reward: NDArray[np.floating[Any]]
    """Reward of the edge into the node; length 0 in a tree without edges."""
    discount: NDArray[np.floating[Any]]
    """Discount of the edge into the node; length 0 in a tree without edges."""


@inlined
def _best(t: Columns, node: int) -> float:
    """Best over the children that are not exhausted, else over all; without valued children the node's own value or mean."""
    live, done = np.nan, np.nan
    child = t.first_child[node]
    while child >= 0:
        b = float(t.best[child])
        if not np.isnan(b):
            if t.reward.size > 0:
                b = t.reward[child] + t.discount[child] * b
            if t.status[child] & EXHAUSTED != 0:
                done = b if np.isnan(done) else max(done, b)
            else:
                live = b if np.isnan(live) else max(live, b)
        child = t.next_sibling[child]
    if not np.isnan(live):
        return live
    if not np.isnan(done):
        return done
    own = float(t.value[node])
    if not np.isnan(own):
        return own
    return t.value_sum[node] / t.visits[node] if t.visits[node] > 0 else np.nan


@inlined
def _is_exhausted(t: Columns, node: int) -> bool:
    status = t.status[node]
    if status & STATE_MASK == TERMINAL:
        return True
    if status & CLOSED == 0:
        return False
    child = t.first_child[node]
    while child >= 0:
        if t.status[child] & EXHAUSTED == 0:
            return False
        child = t.next_sibling[child]
    return True


@inlined
def _renew(t: Columns, node: int) -> bool:
    """Recompute best and exhausted of one node; whether either changed."""
    before, status = t.best[node], t.status[node]
    t.best[node] = _best(t, node)
    t.status[node] = status | EXHAUSTED if _is_exhausted(t, node) else status & ~EXHAUSTED
    after = t.best[node]
    same = after == before or (np.isnan(after) and np.isnan(before))
    return not same or t.status[node] != status


@compiled
def refresh(t: Columns, node: int) -> None:
    """Make best and exhausted true again from `node` upwards after something below or at `node` changed."""
    while node >= 0 and _renew(t, node):
        node = t.parent[node]


@compiled
def backup(t: Columns, node: int, value: float) -> None:
    """Add one visit of return `value` to `node` and, through rewards and discounts, to each of its ancestors, once each.

    Deviations are updated one return at a time (Welford 1962): a sum of squares in float32 would lose the variance.
    """
    changed = True
    while node >= 0:
        visits, total = t.visits[node], t.value_sum[node]
        if visits > 0:
            shift = value - total / visits
            t.deviations[node] += shift * shift * visits / (visits + 1)
        t.visits[node] = visits + 1
        t.value_sum[node] = total + value
        if changed:
            changed = _renew(t, node)
        if t.reward.size > 0:
            value = t.reward[node] + t.discount[node] * value
        node = t.parent[node]


@compiled
def mark(t: Columns, node: int) -> bool:
    """Count one simulation under way from `node` to the root; False, and nothing done, where a counter is full."""
    at = node
    while at >= 0:
        if t.in_flight[at] == 65535:
            return False
        at = t.parent[at]
    while node >= 0:
        t.in_flight[node] += 1
        node = t.parent[node]
    return True


@compiled
def unmark(t: Columns, node: int) -> bool:
    """Take back one `mark`; False, and nothing done, where there is none."""
    at = node
    while at >= 0:
        if t.in_flight[at] == 0:
            return False
        at = t.parent[at]
    while node >= 0:
        t.in_flight[node] -= 1
        node = t.parent[node]
    return True


@compiled
def append_children(t: Columns, size: int, node: int, weights: NDArray[np.float64], multiplicity: NDArray[np.int64]) -> int:
    """Write the children of `node` to the rows from `size` on, behind its other children; the new size. There must be room.

    -1, and nothing done, where a weight is negative or not finite, or a multiplicity does not fit its column.
    """
    for index in range(weights.size):
        if not (0.0 <= weights[index] < np.inf and 1 <= multiplicity[index] <= 65535):
            return NO_NODE
    last = t.first_child[node]
    while last >= 0 and t.next_sibling[last] >= 0:
        last = t.next_sibling[last]
    for index in range(weights.size):
        child = size + index
        t.parent[child] = node
        t.first_child[child] = NO_NODE
        t.next_sibling[child] = NO_NODE
        t.visits[child] = 0
        t.in_flight[child] = 0
        t.multiplicity[child] = multiplicity[index]
        t.status[child] = NEW
        t.value_sum[child] = 0.0
        t.deviations[child] = 0.0
        t.weight[child] = weights[index]
        t.value[child] = np.nan
        t.best[child] = np.nan
        if t.reward.size > 0:
            t.reward[child] = 0.0
            t.discount[child] = 1.0
        if last >= 0:
            t.next_sibling[last] = child
        else:
            t.first_child[node] = child
        last = child
    t.status[node] = (t.status[node] & ~STATE_MASK) | EXPANDED
    return size + weights.size


@compiled
def number_below(t: Columns, size: int, node: int, numbers: NDArray[np.int32]) -> int:
    """Number `node` and its descendants from 0 in order of id; -1 for all other rows. Return how many there are.

    A parent comes before its children, so one pass is enough.
    """
    count = 0
    for row in range(size):
        above = t.parent[row]
        if row == node or (row > node and above >= 0 and numbers[above] >= 0):
            numbers[row] = count
            count += 1
        else:
            numbers[row] = NO_NODE
    return count
