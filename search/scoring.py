"""Compiled scores of children by a rule, the choice of a child, and the descent. Formulas and their sources are in `rules.py`.

The kernels change nothing, allocate nothing and trust their arguments. They know no tokens, no model and no search method.
Numba keeps compiled code by this file's time stamp: after a change of a constant that is imported here, touch this file.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treewise.search.kernels import CLOSED, EXHAUSTED, EXPANDED, NO_NODE, STATE_MASK, TERMINAL, Columns, compiled, inlined
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

SMALLEST_SPREAD = 1e-8
"""Least width of a value range taken from siblings, as in mctx."""
TINY = 2.2250738585072014e-308
"""Least prior of a valued child in the mixed value: a mean over children of prior 0 is defined (smallest normal float64)."""


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


@inlined
def _node_value(t: Columns, node: int, own_weight: float) -> float:
    """Mean of the returns and the node's own evaluation; NaN when there is neither."""
    visits = float(t.visits[node])
    own = float(t.value[node])
    if own_weight > 0.0 and not np.isnan(own):
        return float((t.value_sum[node] + own_weight * own) / (visits + own_weight))
    if visits > 0.0:
        return float(t.value_sum[node] / visits)
    return np.nan


@inlined
def edge_value(t: Columns, child: int, rule: RuleParams) -> float:
    """Q of the step into `child`, before rescaling; NaN when it has neither visits nor an evaluation that counts."""
    r = rule[0]
    q = _node_value(t, child, r.own_weight)
    if r.backup_max != 0 and not np.isnan(q):
        q = float(t.best[child])
    if t.reward.size > 0:
        return float(t.reward[child] + t.discount[child] * q)
    return q


@inlined
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
    if r.variance_scaled != 0 and r.kind != UCT:
        usual = r.usual_weight * r.usual_spread**2
        variance = (usual + t.deviations[node] / spread**2) / (r.usual_weight + t.visits[node])
        exploration *= np.sqrt(variance) / r.usual_spread
    return Family(
        weight_sum, uniform, total, exploration, first_play, low, spread, 0.0, 0.0, 0.0, 1.0, float(completed + unfinished)
    )


@inlined
def _prior(t: Columns, child: int, f: Family) -> float:
    return t.weight[child] / f.weight_sum if f.weight_sum > 0.0 else f.uniform


@inlined
def completed_score(t: Columns, child: int, rule: RuleParams, f: Family) -> float:
    """logit + sigma(completed q) of Gumbel; minus infinity at prior 0."""
    prior = _prior(t, child, f)
    if prior <= 0.0:
        return -np.inf
    q = edge_value(t, child, rule)
    if np.isnan(q):
        q = f.mixed
    return float(np.log(prior) + f.sigma * (q - f.low) / f.spread)


@inlined
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
        if count <= 0.0:
            return np.inf
        rate = f.exploration / count
        if r.variance_scaled == 0:
            return float(q + r.exploration * np.sqrt(rate))
        variance = t.deviations[child] / (completed * f.spread**2) if completed > 0.0 else 0.0
        if t.reward.size > 0:
            variance *= t.discount[child] ** 2
        return float(q + r.exploration * np.sqrt(variance * rate) + 1.5 * r.exploration**2 * rate)
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


@inlined
def _tie_hash(seed: int, child: int) -> np.uint64:
    """SplitMix64 of seed and id (Steele, Lea & Flood 2014)."""
    z = np.uint64(seed) + (np.uint64(child) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inlined
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


@inlined
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
