"""Compiled work on a tree's arrays: scores, descent, backup, marking, appending.

Every kernel is iterative, so that a chain of any depth is fine, and allocates nothing. They trust their arguments:
`Tree` checks them. They know no tokens, no model and no search method. Formulas and sources are in `rules.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

from treewise.search.rules import (
    ALPHAZERO,
    CHANCE,
    FIRST_ABSOLUTE,
    FIRST_REDUCTION,
    GUMBEL,
    RANGE_FIXED,
    RANGE_NONE,
    RANGE_SIBLINGS,
    TOTAL_CHILDREN,
    TOTAL_PARENT,
    UCT,
    RuleParams,
)

NEW, IN_FLIGHT, EXPANDED, TERMINAL = range(4)
STATE_MASK, EXHAUSTED, CLOSED = 3, 4, 8
"""Layout of `status`: two bits of state, two flags."""

NO_NODE = -1
SMALLEST_SPREAD = 1e-8
"""Least width of a value range taken from siblings, as in mctx."""
TINY = 2.2250738585072014e-308
"""Least prior of a valued child in the mixed value: a mean over children of prior 0 is defined (smallest normal float64)."""

_Function = TypeVar("_Function", bound=Callable[..., Any])
compiled: Callable[[_Function], _Function] = numba.njit(cache=True, nogil=True)


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


class Family(NamedTuple):
    """What the score of one child needs to know of its parent and siblings."""

    weight_sum: float
    uniform: float
    """Prior of each child when every weight is 0."""
    total: float
    """T of the rule."""
    exploration: float
    """The factor of P / (1 + n), or ln T for UCT."""
    first_play: float
    low: float
    spread: float
    sigma: float
    mixed: float
    top: float
    """Largest logit + sigma(q)."""
    mass: float
    """Sum of exp(logit + sigma(q) - top)."""
    counted: float
    """Sum of n + o over the children."""


@compiled
def _node_value(t: Columns, node: int, own_weight: float) -> float:
    """Mean of the returns and the node's own evaluation; NaN when there is neither."""
    visits = float(t.visits[node])
    own = float(t.value[node])
    if own_weight > 0.0 and not np.isnan(own):
        return float((t.value_sum[node] + own_weight * own) / (visits + own_weight))
    if visits > 0.0:
        return float(t.value_sum[node] / visits)
    return np.nan


@compiled
def edge_value(t: Columns, child: int, rule: RuleParams) -> float:
    """Q of the step into `child`, before rescaling; NaN when it has neither visits nor an evaluation that counts."""
    r = rule[0]
    q = _node_value(t, child, r.own_weight)
    if r.backup_max != 0 and not np.isnan(q):
        q = float(t.best[child])
    if t.reward.size > 0:
        return float(t.reward[child] + t.discount[child] * q)
    return q


@compiled
def family(t: Columns, node: int, rule: RuleParams) -> Family:
    """Sum up the children of `node` for scoring; it must have some."""
    r = rule[0]
    weight_sum, count, completed, unfinished, most = 0.0, 0, 0, 0, 0
    child = t.first_child[node]
    while child >= 0:
        weight_sum += t.weight[child]
        count += 1
        completed += t.visits[child]
        unfinished += t.in_flight[child]
        most = max(most, t.visits[child])
        child = t.next_sibling[child]
    uniform = 1.0 / count

    if r.total == TOTAL_PARENT:
        total = float(t.visits[node]) + float(t.in_flight[node])
    elif r.total == TOTAL_CHILDREN:
        total = float(completed + unfinished)
    else:
        total = float(completed)
    total = max(total, r.total_floor)

    parent_value = _node_value(t, node, r.own_weight)
    low, spread = 0.0, 1.0
    valued_prior, valued_sum, lowest, highest = 0.0, 0.0, parent_value, parent_value
    if r.kind == GUMBEL or r.value_range == RANGE_SIBLINGS or r.first_play == FIRST_REDUCTION:
        child = t.first_child[node]
        while child >= 0:
            q = edge_value(t, child, rule)
            if not np.isnan(q):
                prior = t.weight[child] / weight_sum if weight_sum > 0.0 else uniform
                if r.kind == GUMBEL:
                    prior = max(prior, TINY)
                valued_prior += prior
                valued_sum += prior * q
                if np.isnan(lowest) or q < lowest:
                    lowest = q
                if np.isnan(highest) or q > highest:
                    highest = q
            child = t.next_sibling[child]

    if r.kind == GUMBEL:
        raw = float(t.value[node])
        if np.isnan(raw):
            raw = 0.0 if np.isnan(parent_value) else parent_value
        mixed = raw
        if valued_prior > 0.0:
            mixed = (raw + completed * (valued_sum / valued_prior)) / (1.0 + completed)
        sigma = (r.visit_offset + most) * r.value_scale
        if r.rescale_values != 0:
            low, highest = np.inf, -np.inf
            child = t.first_child[node]
            while child >= 0:
                q = edge_value(t, child, rule)
                if np.isnan(q):
                    q = mixed
                low = min(low, q)
                highest = max(highest, q)
                child = t.next_sibling[child]
            spread = max(highest - low, SMALLEST_SPREAD)
        partial = Family(weight_sum, uniform, total, 0.0, 0.0, low, spread, sigma, mixed, 0.0, 1.0, float(completed + unfinished))
        top, mass = -np.inf, 0.0
        child = t.first_child[node]
        while child >= 0:
            top = max(top, completed_score(t, child, rule, partial))
            child = t.next_sibling[child]
        child = t.first_child[node]
        while child >= 0:
            mass += np.exp(completed_score(t, child, rule, partial) - top)
            child = t.next_sibling[child]
        return Family(weight_sum, uniform, total, 0.0, 0.0, low, spread, sigma, mixed, top, mass, float(completed + unfinished))

    if r.value_range == RANGE_FIXED:
        low, spread = r.value_min, r.value_max - r.value_min
    elif r.value_range == RANGE_SIBLINGS and not np.isnan(lowest):
        low, spread = lowest, max(highest - lowest, SMALLEST_SPREAD)
    first_play = r.first_play_value
    if r.first_play != FIRST_ABSOLUTE:
        first_play = 0.0 if np.isnan(parent_value) else (parent_value - low) / spread
        if r.first_play == FIRST_REDUCTION:
            first_play -= r.first_play_value * np.sqrt(valued_prior)
    if r.kind == UCT:
        exploration = np.log(max(total, 1.0))
    elif r.kind == ALPHAZERO:
        exploration = np.sqrt(total) * (r.exploration + np.log((total + r.exploration_base + 1.0) / r.exploration_base))
    else:
        exploration = np.sqrt(total) * r.exploration
    return Family(
        weight_sum, uniform, total, exploration, first_play, low, spread, 0.0, 0.0, 0.0, 1.0, float(completed + unfinished)
    )


@compiled
def _prior(t: Columns, child: int, f: Family) -> float:
    return t.weight[child] / f.weight_sum if f.weight_sum > 0.0 else f.uniform


@compiled
def completed_score(t: Columns, child: int, rule: RuleParams, f: Family) -> float:
    """logit + sigma(completed q) of Gumbel; minus infinity at prior 0."""
    prior = _prior(t, child, f)
    if prior <= 0.0:
        return -np.inf
    q = edge_value(t, child, rule)
    if np.isnan(q):
        q = f.mixed
    return float(np.log(prior) + f.sigma * (q - f.low) / f.spread)


@compiled
def child_score(t: Columns, child: int, rule: RuleParams, f: Family) -> float:
    """The rule's score of one child."""
    r = rule[0]
    completed, unfinished = float(t.visits[child]), float(t.in_flight[child])
    if r.kind == CHANCE:
        return _prior(t, child, f) / (1.0 + completed + unfinished)
    if r.kind == GUMBEL:
        improved = np.exp(completed_score(t, child, rule, f) - f.top) / f.mass
        return float(improved - (completed + unfinished) / (1.0 + f.counted))
    q = edge_value(t, child, rule)
    weight = completed
    if np.isnan(q):
        q = f.first_play
    else:
        q = (q - f.low) / f.spread
        if not np.isnan(t.value[child]):
            weight += r.own_weight
        if r.terminal_by_outcome != 0 and completed > 0.0 and t.status[child] & STATE_MASK == TERMINAL:
            return q
    count = weight if r.kind == UCT else completed
    if r.virtual_loss != 0:
        if unfinished > 0.0:
            loss = r.loss_count * unfinished
            kept = max(weight, r.loss_floor)
            loss_value = (r.loss_value - f.low) / f.spread if r.value_range != RANGE_NONE else r.loss_value
            q = (kept * q + loss * loss_value) / (kept + loss)
            count += loss
    else:
        count += unfinished
    if r.kind == UCT:
        return q + r.exploration * np.sqrt(f.exploration / count) if count > 0.0 else np.inf
    return q + f.exploration * _prior(t, child, f) / (1.0 + count)


@compiled
def score_children(t: Columns, node: int, rule: RuleParams, out: NDArray[np.float64]) -> None:
    """Write the scores of the children, in order, to `out`."""
    f = family(t, node, rule)
    child, index = t.first_child[node], 0
    while child >= 0:
        out[index] = child_score(t, child, rule, f)
        index += 1
        child = t.next_sibling[child]


@compiled
def completed_scores(t: Columns, node: int, rule: RuleParams, out: NDArray[np.float64]) -> None:
    """Write logit + sigma(completed q) of the children to `out`; the rule must be Gumbel."""
    f = family(t, node, rule)
    child, index = t.first_child[node], 0
    while child >= 0:
        out[index] = completed_score(t, child, rule, f)
        index += 1
        child = t.next_sibling[child]


@compiled
def _tie_hash(seed: int, child: int) -> np.uint64:
    """SplitMix64 of seed and id (Steele, Lea & Flood 2014)."""
    z = np.uint64(seed) + (np.uint64(child) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compiled
def select(t: Columns, node: int, rule: RuleParams) -> int:
    """The child of the highest score among those that may be entered; -1 if there is none."""
    r = rule[0]
    f = family(t, node, rule)
    chosen, highest = NO_NODE, -np.inf
    child = t.first_child[node]
    while child >= 0:
        if t.status[child] & EXHAUSTED == 0 or r.revisit_terminals != 0:
            score = child_score(t, child, rule, f)
            if (
                chosen < 0
                or score > highest
                or (score == highest and r.tie_seed != 0 and _tie_hash(r.tie_seed, child) > _tie_hash(r.tie_seed, chosen))
            ):
                chosen, highest = child, score
        child = t.next_sibling[child]
    return chosen


@compiled
def may_widen(t: Columns, node: int, rule: RuleParams) -> bool:
    """Whether progressive widening grants the node another sample.

    Duplicates count as drawn, and so does one sample for each simulation that stands at the node itself.
    """
    r = rule[0]
    if r.widening_k <= 0.0 or t.status[node] & CLOSED != 0:
        return False
    limit = r.widening_k * float(t.visits[node]) ** r.widening_alpha
    samples = int(t.in_flight[node])
    child = t.first_child[node]
    while child >= 0:
        samples += int(t.multiplicity[child]) - int(t.in_flight[child])
        child = t.next_sibling[child]
    return bool(samples <= limit)


@compiled
def descend(t: Columns, start: int, rule: RuleParams) -> int:
    """Go down to the node where work is wanted; -1 if `start` is exhausted."""
    if t.status[start] & EXHAUSTED != 0 and rule[0].revisit_terminals == 0:
        return NO_NODE
    node = start
    while t.status[node] & STATE_MASK == EXPANDED and not may_widen(t, node, rule):
        child = select(t, node, rule)
        if child < 0:
            return node
        node = child
    return node


@compiled
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


@compiled
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


@compiled
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
    """Add one visit of return `value` to `node` and, through rewards and discounts, to each of its ancestors, once each."""
    changed = True
    while node >= 0:
        t.visits[node] += 1
        t.value_sum[node] += value
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
    """Write the children of `node` to the rows from `size` on, behind its other children; the new size. There must be room."""
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
