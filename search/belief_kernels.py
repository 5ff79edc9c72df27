"""Exact message passing on a tree of hidden step states: evidence, messages up, posteriors down, expectation maximisation.

Every step is RIGHT, WRONG and looks it, or wrong and HIDDEN until its path has ended; once wrong, a path stays wrong. A reading
is evidence on the state of its step. What a finished path answers links it to all other finished paths, since the right paths all
give the one true answer: for each `hypothesis` about that answer the tree is a plain hidden Markov tree, and the sum
over hypotheses is exact. Hypothesis 0: the truth is none of the answers seen; h: it is answer h - 1. Several emission models may
be kept side by side; each has messages of its own.

All arrays hold natural logarithms. One message costs nine sums, whatever the number of siblings, since a node keeps the sum of
its children's messages. The kernels create no array and trust their arguments; `Belief` checks them.

Source: upward-downward recursion for hidden Markov trees (Crouse, Nowak and Baraniuk 1998, IEEE Trans. Signal Processing 46).
"""

from __future__ import annotations

from math import exp, inf, log
from typing import Any, NamedTuple

from numpy.typing import NDArray

from treewise.search.kernels import compiled, inlined

RIGHT, WRONG, HIDDEN = range(3)
RIGHT_MEAN, WRONG_MEAN, RIGHT_SPREAD, WRONG_SPREAD, SUCCESS, HIDDEN_SHARE = range(6)
"""Layout of the parameters."""
PARAMETERS = 6

OUTLIER = 1e-3
"""Weight of a uniform density on [0, 1] in every emission: no single reading decides alone."""
SLIP = log(1e-4)
"""Log-probability that a right path is read as giving another answer than the true one."""
LUCK = log(0.01)
"""Log-probability that a wrong path gives the true answer all the same."""
IMPOSSIBLE = -1e30
LEAST_GAP, LEAST_SPREAD = 0.1, 0.02
"""An evaluator whose right and wrong readings are closer, or that is surer, is not learned."""
_ROOT_TWO_PI = 2.5066282746310002


class Evidence(NamedTuple):
    """What is known of each node; rows from the tree's size on are unused."""

    parent: NDArray[Any]
    """int32; -1 at the root."""
    reading: NDArray[Any]
    """Newest reading of the step; NaN without."""
    settled: NDArray[Any]
    """Whether it was read on a path that had ended, where nothing is hidden."""
    failed: NDArray[Any]
    """Whether the path is known to be wrong."""
    label: NDArray[Any]
    """int32; number of the answer it ends in, -1 for none."""


@inlined
def _add(a: float, b: float) -> float:
    """log(exp a + exp b)."""
    if a < b:
        a, b = b, a
    return a if b - a < -40.0 else a + log(1.0 + exp(b - a))


@inlined
def _density(x: float, mean: float, spread: float) -> float:
    z = (x - mean) / spread
    return log((1.0 - OUTLIER) * exp(-0.5 * z * z) / (spread * _ROOT_TWO_PI) + OUTLIER)


@compiled
def fill_moves(parameters: NDArray[Any], moves: NDArray[Any]) -> None:
    """Fill the log-probabilities `[3, 3]` of a step's state given its parent's.

    RIGHT goes on to RIGHT with the success rate; a wrong step is HIDDEN for its share and WRONG otherwise. WRONG stays. A HIDDEN
    path shows as soon as a new step is wrong and not hidden.
    """
    success, hidden = parameters[SUCCESS], parameters[HIDDEN_SHARE]
    shown = (1.0 - success) * (1.0 - hidden)
    for row in range(3):
        for column in range(3):
            moves[row, column] = IMPOSSIBLE
    moves[RIGHT, RIGHT] = log(success)
    moves[RIGHT, WRONG] = log(shown)
    moves[RIGHT, HIDDEN] = log((1.0 - success) * hidden)
    moves[WRONG, WRONG] = 0.0
    moves[HIDDEN, WRONG] = log(shown)
    moves[HIDDEN, HIDDEN] = log(1.0 - shown)


@inlined
def _own(e: Evidence, v: int, s: int, hypothesis: int, parameters: NDArray[Any]) -> float:
    """Log-likelihood of what is known of node `v` alone, given its state and the hypothesis."""
    total = 0.0
    x = e.reading[v]
    if x == x:
        if s == RIGHT or (s == HIDDEN and not e.settled[v]):
            total += _density(x, parameters[RIGHT_MEAN], parameters[RIGHT_SPREAD])
        else:
            total += _density(x, parameters[WRONG_MEAN], parameters[WRONG_SPREAD])
    if e.label[v] >= 0 and (e.label[v] == hypothesis - 1) != (s == RIGHT):
        total += SLIP if s == RIGHT else LUCK
    if e.failed[v] and s == RIGHT:
        total += SLIP
    return total


@inlined
def _message(below: NDArray[Any], moves: NDArray[Any], v: int, r: int) -> float:
    """What the subtree of `v` says about state `r` of its parent."""
    if r == WRONG:
        return float(below[v, WRONG])
    total = _add(moves[r, WRONG] + below[v, WRONG], moves[r, HIDDEN] + below[v, HIDDEN])
    return _add(total, moves[r, RIGHT] + below[v, RIGHT]) if r == RIGHT else total


@compiled
def sweep_up(
    e: Evidence, size: int, h: int, parameters: NDArray[Any], moves: NDArray[Any], own: NDArray[Any], below: NDArray[Any],
    message: NDArray[Any],
) -> float:  # fmt: skip
    """Fill `own`, `below` and `message` `[n, 3]` for hypothesis `h`; return the log-likelihood of everything known."""
    for v in range(size):
        for s in range(3):
            own[v, s] = _own(e, v, s, h, parameters)
            below[v, s] = own[v, s]
    for v in range(size - 1, 0, -1):
        parent = e.parent[v]
        for r in range(3):
            message[v, r] = _message(below, moves, v, r)
            below[parent, r] += message[v, r]
    return float(below[0, RIGHT])


@compiled
def fold(
    e: Evidence, v: int, parameters: NDArray[Any], moves: NDArray[Any], own: NDArray[Any], below: NDArray[Any],
    message: NDArray[Any],
) -> None:  # fmt: skip
    """Take in a change of what is known of `v`: one message a level up to the root, for each model and hypothesis.

    `parameters` `[k, 6]`, `moves` `[k, 3, 3]`, the other arrays `[k, hypotheses, n, 3]`.
    """
    for k in range(below.shape[0]):
        for h in range(below.shape[1]):
            for s in range(3):
                new = _own(e, v, s, h, parameters[k])
                below[k, h, v, s] += new - own[k, h, v, s]
                own[k, h, v, s] = new
            node = v
            while node > 0:
                parent = e.parent[node]
                for r in range(3):
                    said = _message(below[k, h], moves[k], node, r)
                    below[k, h, parent, r] += said - message[k, h, node, r]
                    message[k, h, node, r] = said
                node = parent


@compiled
def sweep_down(
    e: Evidence, size: int, weight: float, moves: NDArray[Any], below: NDArray[Any], message: NDArray[Any],
    above: NDArray[Any], states: NDArray[Any], counts: NDArray[Any],
) -> None:  # fmt: skip
    """Add `weight` times every node's posterior over its states to `states` `[n, 3]`, and to `counts` `[3]` the expected
    numbers of steps below a RIGHT one that are RIGHT, WRONG, HIDDEN."""
    above[0, RIGHT], above[0, WRONG], above[0, HIDDEN] = 0.0, IMPOSSIBLE, IMPOSSIBLE
    states[0, RIGHT] += weight
    for v in range(1, size):
        parent = e.parent[v]
        right = above[parent, RIGHT] + below[parent, RIGHT] - message[v, RIGHT]
        wrong = above[parent, WRONG] + below[parent, WRONG] - message[v, WRONG]
        hidden = above[parent, HIDDEN] + below[parent, HIDDEN] - message[v, HIDDEN]
        above[v, RIGHT] = right + moves[RIGHT, RIGHT]
        above[v, WRONG] = _add(_add(right + moves[RIGHT, WRONG], wrong), hidden + moves[HIDDEN, WRONG])
        above[v, HIDDEN] = _add(right + moves[RIGHT, HIDDEN], hidden + moves[HIDDEN, HIDDEN])
        top = _add(
            _add(above[v, RIGHT] + below[v, RIGHT], above[v, WRONG] + below[v, WRONG]),
            above[v, HIDDEN] + below[v, HIDDEN],
        )
        for s in range(3):
            states[v, s] += weight * exp(above[v, s] + below[v, s] - top)
            counts[s] += weight * exp(right + moves[RIGHT, s] + below[v, s] - top)
            above[v, s] -= top  # only differences matter; this keeps the numbers small
        # `above` is relative to `below`: both change by one constant a node, which cancels in every posterior


@compiled
def step_down(
    v: int, parent: int, moves: NDArray[Any], below: NDArray[Any], message: NDArray[Any], above: NDArray[Any]
) -> None:  # fmt: skip
    """Carry what is known outside a subtree, `above` `[k, hypotheses, 3]`, from `parent` down to its child `v`, in place."""
    for k in range(below.shape[0]):
        for h in range(below.shape[1]):
            right = above[k, h, RIGHT] + below[k, h, parent, RIGHT] - message[k, h, v, RIGHT]
            wrong = above[k, h, WRONG] + below[k, h, parent, WRONG] - message[k, h, v, WRONG]
            hidden = above[k, h, HIDDEN] + below[k, h, parent, HIDDEN] - message[k, h, v, HIDDEN]
            top = max(right, wrong, hidden)
            right, wrong, hidden = right - top, wrong - top, hidden - top
            above[k, h, RIGHT] = right + moves[k, RIGHT, RIGHT]
            above[k, h, WRONG] = _add(_add(right + moves[k, RIGHT, WRONG], wrong), hidden + moves[k, HIDDEN, WRONG])
            above[k, h, HIDDEN] = _add(right + moves[k, RIGHT, HIDDEN], hidden + moves[k, HIDDEN, HIDDEN])


@compiled
def right_of(v: int, weights: NDArray[Any], below: NDArray[Any], above: NDArray[Any]) -> float:
    """Posterior that `v` is RIGHT, from what is known outside its subtree and the weights `[k, hypotheses]`."""
    total = 0.0
    for k in range(below.shape[0]):
        for h in range(below.shape[1]):
            if weights[k, h] > 0.0:
                right = above[k, h, RIGHT] + below[k, h, v, RIGHT]
                wrong = _add(above[k, h, WRONG] + below[k, h, v, WRONG], above[k, h, HIDDEN] + below[k, h, v, HIDDEN])
                total += weights[k, h] * exp(right - _add(right, wrong))
    return total


@compiled
def maximise(
    e: Evidence, size: int, states: NDArray[Any], counts: NDArray[Any], prior: NDArray[Any], strength: float,
    parameters: NDArray[Any],
) -> None:  # fmt: skip
    """Set `parameters` to the most probable ones given the expected states; the prior is worth `strength` of each kind."""
    n_right = n_wrong = strength
    right, wrong = strength * prior[RIGHT_MEAN], strength * prior[WRONG_MEAN]
    for v in range(1, size):
        x = e.reading[v]
        if x == x:
            good = states[v, RIGHT] + (0.0 if e.settled[v] else states[v, HIDDEN])
            n_right += good
            n_wrong += 1.0 - good
            right += good * x
            wrong += (1.0 - good) * x
    right, wrong = right / n_right, wrong / n_wrong
    if right - wrong < LEAST_GAP:
        middle = 0.5 * (right + wrong)
        right, wrong = middle + 0.5 * LEAST_GAP, middle - 0.5 * LEAST_GAP
    right_squares = strength * (prior[RIGHT_SPREAD] ** 2 + (prior[RIGHT_MEAN] - right) ** 2)
    wrong_squares = strength * (prior[WRONG_SPREAD] ** 2 + (prior[WRONG_MEAN] - wrong) ** 2)
    for v in range(1, size):
        x = e.reading[v]
        if x == x:
            good = states[v, RIGHT] + (0.0 if e.settled[v] else states[v, HIDDEN])
            right_squares += good * (x - right) ** 2
            wrong_squares += (1.0 - good) * (x - wrong) ** 2
    parameters[RIGHT_MEAN], parameters[WRONG_MEAN] = right, wrong
    parameters[RIGHT_SPREAD] = max((right_squares / n_right) ** 0.5, LEAST_SPREAD)
    parameters[WRONG_SPREAD] = max((wrong_squares / n_wrong) ** 0.5, LEAST_SPREAD)
    stay = counts[RIGHT] + strength * prior[SUCCESS]
    shown = counts[WRONG] + strength * (1.0 - prior[SUCCESS]) * (1.0 - prior[HIDDEN_SHARE])
    hidden = counts[HIDDEN] + strength * (1.0 - prior[SUCCESS]) * prior[HIDDEN_SHARE]
    parameters[SUCCESS] = min(max(stay / (stay + shown + hidden), 0.02), 0.98)
    parameters[HIDDEN_SHARE] = min(max(hidden / (shown + hidden), 0.005), 0.9)


@compiled
def fit(
    e: Evidence, size: int, answers: NDArray[Any], prior: NDArray[Any], strength: float, rounds: int,
    parameters: NDArray[Any], moves: NDArray[Any], own: NDArray[Any], below: NDArray[Any], message: NDArray[Any],
    above: NDArray[Any], states: NDArray[Any], counts: NDArray[Any], weights: NDArray[Any],
) -> None:  # fmt: skip
    """Improve one model's `parameters` by `rounds` of expectation maximisation, and fill its messages for the result.

    `answers` `[hypotheses]` is the log-probability of each hypothesis before any reading. `moves` `[3, 3]`, `own`, `below` and
    `message` `[hypotheses, n, 3]` are filled; `above`, `states` `[n, 3]`, `counts` `[3]` and `weights` `[hypotheses]` are room to
    work in.
    """
    for turn in range(rounds + 1):
        fill_moves(parameters, moves)
        total = -inf
        for h in range(answers.size):
            weights[h] = answers[h] + sweep_up(e, size, h, parameters, moves, own[h], below[h], message[h])
            total = weights[h] if total == -inf else _add(total, weights[h])
        if turn < rounds:
            for v in range(size):
                for s in range(3):
                    states[v, s] = 0.0
            for s in range(3):
                counts[s] = 0.0
            for h in range(answers.size):
                weight = exp(weights[h] - total)
                if weight > 1e-4:
                    sweep_down(e, size, weight, moves, below[h], message[h], above, states, counts)
            maximise(e, size, states, counts, prior, strength, parameters)
