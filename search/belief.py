"""`Belief`: what all readings and outcomes of a tree together say of every step, exactly, and of every answer.

It keeps the messages of `belief_kernels` up to date, one level at a time, learns the evaluator's emission model from the very
readings it is given, and reads off posteriors: of a node's state, of the answers, of where a path first went wrong. It knows
no search method; nodes are numbered as in `Tree`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lgamma, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treewise.search import belief_kernels as kernels
from treewise.search.belief_kernels import RIGHT, Evidence
from treewise.search.belief_model import STARTS, EmissionModel
from treewise.search.types import EvaluatorError, InputError

MOST_ANSWERS = 16
"""Answers with a hypothesis of their own; when more are seen, the least likely one gives its place up."""
STRENGTH = 20.0
"""Readings of each kind that a starting model is worth while learning."""
FIT_GROWTH = 1.25
"""The models are learned anew when the readings have grown by this factor."""
FIT_ROUNDS = 3
"""Rounds of expectation maximisation each time."""
FEWEST = 4
"""Readings before anything is learned."""
NEW_ANSWER = 1.0
"""Weight of an unseen answer against one count of a seen one, in the rule by which wrong paths are taken to choose answers."""


class Posterior(NamedTuple):
    """What is believed of a tree's nodes and answers at one moment."""

    states: NDArray[np.float64]
    """`[n, 3]`: probability that the node's step is right (and all before it), wrong and looks it, wrong and hidden."""
    answers: dict[str, float]
    """Probability that each answer seen is the true one; what is missing from 1 is that none of them is."""

    @property
    def right(self) -> NDArray[np.float64]:
        """`[n]`: probability that the path to the node is right in all its steps."""
        return self.states[:, RIGHT]

    def first_error(self, path: Sequence[int]) -> NDArray[np.float64]:
        """Return the distribution of the first wrong step on a path of nodes, the root first.

        `[d + 1]` for d steps: probability that step 1, 2, ..., d is the first wrong one, and last that none is. A step is right
        only if the one before it is, so these are differences of posteriors.
        """
        right = self.right[list(path)]
        return np.append(right[:-1] - right[1:], right[-1])


class Belief:
    """Beliefs about one tree, averaged over a few emission models by their evidence."""

    def __init__(self, model: EmissionModel | None = None, *, learn: bool = True) -> None:
        """Start with the root alone.

        Args:
            model: The evaluator's emission model where it is known; else learning starts from each of `STARTS`.
            learn: Adapt the models to the readings.
        """
        starts = STARTS if model is None else (model,)
        self._starts = np.stack([start.parameters() for start in starts])
        self._parameters = self._starts.copy()
        self._moves = np.zeros((len(starts), 3, 3))
        for parameters, moves in zip(self._parameters, self._moves, strict=True):
            kernels.fill_moves(parameters, moves)
        self._learn = learn
        self._fitted_at = 0
        self.size = 1
        """Nodes, the root included."""
        self.version = 0
        """Rises with everything told."""
        self.readings = 0
        """Nodes that have a reading."""
        room = 64
        self._evidence = Evidence(
            parent=np.full(room, -1, np.int32),
            reading=np.full(room, np.nan),
            settled=np.zeros(room, np.bool_),
            failed=np.zeros(room, np.bool_),
            label=np.full(room, -1, np.int32),
        )
        self._own, self._below, self._message = (np.zeros((len(starts), 1, room, 3)) for _ in range(3))
        self._ends: dict[str, list[int]] = {}
        """Nodes in which each answer seen was given."""
        self._slots: list[str] = []
        """Answer of each hypothesis, from number 1 on."""

    @property
    def model(self) -> EmissionModel:
        """The emission model with the most evidence now."""
        return EmissionModel(*self._parameters[int(self._log_weights().max(axis=1).argmax())].tolist())

    # Evidence.

    def add(self, parent: int) -> int:
        """Append a node below `parent`; nothing is known of it yet. Returns its number."""
        self._check(parent)
        if self.size == self._evidence.parent.size:
            self._grow()
        node = self.size
        self.size += 1
        self._evidence.parent[node] = parent  # nothing known, nothing said: its messages are zeros
        return node

    def observe(self, node: int, reading: float, *, settled: bool = False) -> None:
        """Take in a reading in [0, 1] of a node's step, in place of an earlier one; `settled` if its path had ended then.

        Raises EvaluatorError for a number that is none, or out of range.
        """
        self._check(node)
        if not 0.0 <= reading <= 1.0:
            raise EvaluatorError(f"reading {reading!r} of node {node}", "readings are numbers in [0, 1]")
        e = self._evidence
        self.readings += bool(e.reading[node] != e.reading[node])
        e.reading[node] = reading
        e.settled[node] = settled
        self._fold(node)

    def fail(self, node: int) -> None:
        """Take in that the path to `node` is wrong."""
        self._check(node)
        self._evidence.failed[node] = True
        self._fold(node)

    def finish(self, node: int, answer: str) -> None:
        """Take in that the path to `node` ends in this answer."""
        self._check(node)
        ends = self._ends.setdefault(answer, [])
        ends.append(node)
        if answer in self._slots:
            self._evidence.label[node] = self._slots.index(answer)
            self._fold(node)
            return
        slot = self._new_slot(answer)
        for end in ends:
            self._evidence.label[end] = slot
            self._fold(end)

    # Reading it off.

    def posterior(self) -> Posterior:
        """Return the posterior of every node and answer given everything known: one sweep over the tree a likely hypothesis."""
        self.learn()
        weights = self._weights()
        states, counts, above = np.zeros((self.size, 3)), np.zeros(3), np.zeros((self.size, 3))
        for k, h in np.argwhere(weights > 1e-12).tolist():
            kernels.sweep_down(
                self._evidence, self.size, float(weights[k, h]), self._moves[k], self._below[k, h], self._message[k, h],
                above, states, counts,
            )  # fmt: skip
        states /= states.sum(axis=1, keepdims=True)
        of_answers = weights.sum(axis=0)[1:]
        return Posterior(states, dict(zip(self._slots, of_answers.tolist(), strict=True)))

    def most_probable_answer(self) -> float:
        """Return the posterior of the likeliest answer; 0 before any path has finished."""
        return float(self._weights().sum(axis=0)[1:].max(initial=0.0))

    def learn(self) -> None:
        """Learn the models anew if the readings have grown enough since the last time."""
        if self._learn and self.readings >= max(FEWEST, FIT_GROWTH * self._fitted_at):
            self._fit()

    def walk(self) -> Walk:
        """Return a walk down from the root that reads off posteriors, at no cost for the rest of the tree."""
        return Walk(self, self._weights())

    def log_likelihood(self) -> float:
        """Log-probability of everything known, summed over models and over hypotheses about the answer."""
        weights = self._log_weights()
        top = float(weights.max())
        return top + log(float(np.exp(weights - top).sum()))

    # Inside.

    def _check(self, node: int) -> None:
        if not 0 <= node < self.size:
            raise InputError(f"node {node} of a tree of {self.size} nodes", "add it first")

    def _fold(self, node: int) -> None:
        self.version += 1
        kernels.fold(self._evidence, node, self._parameters, self._moves, self._own, self._below, self._message)

    def _weights(self) -> NDArray[np.float64]:
        """`[models, hypotheses]`: posterior of models and hypotheses."""
        weights = self._log_weights()
        weights = np.exp(weights - weights.max())
        normal: NDArray[np.float64] = weights / weights.sum()
        return normal

    def _log_weights(self) -> NDArray[np.float64]:
        """`[models, hypotheses]`: log-probability of model, hypothesis and everything known together."""
        priors = np.array([log_prior(p, start) for p, start in zip(self._parameters, self._starts, strict=True)])
        weights: NDArray[np.float64] = self._below[:, :, 0, RIGHT] + priors[:, None] + self._answer_terms()
        return weights - log(len(priors))

    def _answer_terms(self) -> NDArray[np.float64]:
        """`[hypotheses]`: log-probability of the hypothesis, each as likely, and of the answers that wrong paths then gave.

        Wrong paths choose answers as guests choose tables in a Chinese restaurant: each seen answer by its count, an unseen one
        by NEW_ANSWER. So a few wrong answers that come again and again make agreement worth little, many different ones much.
        Source: Aldous 1985, Exchangeability and related topics.
        """
        counts = np.array([len(nodes) for nodes in self._ends.values()], np.int64)
        gammas = np.array([lgamma(count) for count in counts])
        place = {answer: i for i, answer in enumerate(self._ends)}
        left_out = [None, *(place[answer] for answer in self._slots)]
        terms = []
        for truth in left_out:
            guests, tables = int(counts.sum()), len(counts)
            total = float(gammas.sum())
            if truth is not None:
                guests, tables, total = guests - int(counts[truth]), tables - 1, total - float(gammas[truth])
            terms.append(total + tables * log(NEW_ANSWER) + lgamma(NEW_ANSWER) - lgamma(NEW_ANSWER + guests))
        return np.array(terms) - log(len(terms))

    def _fit(self) -> None:
        """Improve every model by what is known."""
        self._fitted_at = self.readings
        size, answers = self.size, self._answer_terms()
        above, states, counts, weights = np.empty((size, 3)), np.empty((size, 3)), np.empty(3), np.empty(answers.size)
        for k, start in enumerate(self._starts):
            kernels.fit(
                self._evidence, size, answers, start, STRENGTH, FIT_ROUNDS, self._parameters[k], self._moves[k],
                self._own[k], self._below[k], self._message[k], above, states, counts, weights,
            )  # fmt: skip

    def _new_slot(self, answer: str) -> int:
        """Return the label of a new answer, with a hypothesis of its own."""
        if len(self._slots) < MOST_ANSWERS:
            self._slots.append(answer)
            arrays = (self._own, self._below, self._message)  # until it is folded in, all as if the truth were unseen
            self._own, self._below, self._message = (np.concatenate([a, a[:, :1]], axis=1) for a in arrays)
            return len(self._slots) - 1
        least = int(self._log_weights().max(axis=0)[1:].argmin())
        for node in self._ends[self._slots[least]]:
            self._evidence.label[node] = MOST_ANSWERS  # no hypothesis has that number
            self._fold(node)
        self._slots[least] = answer
        return least

    def _grow(self) -> None:
        room = 2 * self._evidence.parent.size
        grown = []
        for old, empty in zip(self._evidence, (-1, np.nan, False, False, -1), strict=True):
            new = np.full(room, empty, old.dtype)
            new[: old.size] = old
            grown.append(new)
        self._evidence = Evidence(*grown)
        arrays = (self._own, self._below, self._message)
        self._own, self._below, self._message = (
            np.concatenate([a, np.zeros((*a.shape[:2], room - a.shape[2], 3))], axis=2) for a in arrays
        )


class Walk:
    """A way down the tree, node by node; it is over when anything new is told to the belief."""

    def __init__(self, belief: Belief, weights: NDArray[np.float64]) -> None:
        self._belief = belief
        self._weights = weights
        self._above = np.full((*weights.shape, 3), kernels.IMPOSSIBLE)
        self._above[:, :, RIGHT] = 0.0
        self.node = 0
        """Where it stands."""

    def enter(self, child: int) -> None:
        """Go on to a child of the node where it stands. Raises InputError when it is none."""
        b = self._belief
        b._check(child)
        if b._evidence.parent[child] != self.node:
            raise InputError(f"node {child} is no child of node {self.node}", "walk down step by step")
        kernels.step_down(child, self.node, b._moves, b._below, b._message, self._above)
        self.node = child

    def right(self, children: Sequence[int]) -> list[float]:
        """Return each child's posterior that the path to it is right."""
        b = self._belief
        found = []
        for child in children:
            above = self._above.copy()
            kernels.step_down(child, self.node, b._moves, b._below, b._message, above)
            found.append(float(kernels.right_of(child, self._weights, b._below, above)))
        return found


def log_prior(parameters: NDArray[np.float64], start: NDArray[np.float64]) -> float:
    """Log-density of the prior whose most probable parameters `maximise` takes, relative to its peak, which is at `start`."""
    total = 0.0
    for mean, spread in ((kernels.RIGHT_MEAN, kernels.RIGHT_SPREAD), (kernels.WRONG_MEAN, kernels.WRONG_SPREAD)):
        squares = (start[spread] ** 2 + (parameters[mean] - start[mean]) ** 2) / parameters[spread] ** 2
        total += log(start[spread] / parameters[spread]) - 0.5 * (squares - 1.0)
    for count, share in zip(_shares(start), _shares(parameters), strict=True):
        total += count * log(share / count)
    return STRENGTH * total


def _shares(parameters: NDArray[np.float64]) -> tuple[float, float, float]:
    """Rates at which a step after right ones is right, wrong and looks it, wrong and hidden."""
    success, hidden = float(parameters[kernels.SUCCESS]), float(parameters[kernels.HIDDEN_SHARE])
    return success, (1.0 - success) * (1.0 - hidden), (1.0 - success) * hidden
