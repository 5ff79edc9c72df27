"""Failures that users of other systems reported, each as a kind that cannot happen here; the ids are the reports'."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean, stdev

import numpy as np
import pytest

from treewise.search.budget import Budget
from treewise.search.methods import METHODS
from treewise.search.rules import Rule
from treewise.search.tree import ROOT, Tree
from treewise.search.types import Evaluation, Path


@pytest.mark.parametrize("method", METHODS)
def test_a_node_is_valued_once_and_by_one_evaluation(world, method: str) -> None:
    """S29: the reported system generated a second time to get a value of each node."""

    class Counting(world.MeanDigit):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            self.read: Counter[tuple[int, ...]] = Counter()

        def evaluate(self, paths: Sequence[Path]) -> list[Evaluation]:
            self.read.update(path.ids for path in paths)
            return super().evaluate(paths)

    evaluator = Counting()
    searches = world.run(budget=Budget(tokens=200), problems=3, method=method, evaluator=evaluator)
    assert evaluator.read
    assert set(evaluator.read.values()) == {1}
    nodes = sum(search.solutions.tree.size - 1 for search in searches.values())
    assert len(evaluator.read) <= nodes


@pytest.mark.parametrize("method", ["mcts", "belief"])
@pytest.mark.parametrize("tokens", [60, 150])
def test_with_a_value_that_means_something_search_is_not_below_best_of_n(world, method: str, tokens: int) -> None:
    """S01: the reported MCTS scored below best-of-n while it generated 3.4 times as many tokens.

    Same policy tokens, same policy and value, 40 problems in pairs: the mean gain is not below 0 by more than 2 standard errors.
    """
    budget, problems = Budget(tokens=tokens), 40
    found = world.run(budget=budget, problems=problems, method=method)
    baseline = world.run(budget=budget, problems=problems, method="best-of-n", samples=100)
    assert all(search.bill.policy_tokens <= tokens for search in (*found.values(), *baseline.values()))
    gains = [worth(world, found[name]) - worth(world, baseline[name]) for name in found]
    assert fmean(gains) >= -2 * stdev(gains) / math.sqrt(problems)


def worth(world, search) -> float:
    """What an answer is worth: its mean digit; nothing at all when there is none."""
    text = search.answer().text
    return 0.0 if text is None else float(world.value_of(text))


def test_chance_nodes_are_sampled_and_never_selected_by_value() -> None:
    """E02: the reported search chose among chance outcomes as if they were moves.

    The worst outcome is the likeliest one. N draws give each outcome at least floor(N P) visits (lower quota of highest
    averages: Balinski and Young 1982), so the mean is the expectation to within a draw an outcome.
    """
    priors, values, draws = np.array([0.6, 0.3, 0.1]), np.array([0.0, 0.5, 1.0]), 1000
    tree = Tree(dtype=np.float64)
    tree.add_children(ROOT, priors)
    rule = Rule(name="chance").params()
    for _ in range(draws):
        child = tree.select_child(ROOT, rule)
        tree.backup(child, float(values[child - 1]))
    visits = np.array([tree.visits(child) for child in (1, 2, 3)])
    assert (visits >= np.floor(draws * priors)).all()
    assert tree.mean(ROOT) == pytest.approx(float(priors @ values), abs=3 / draws)


def test_chance_nodes_look_neither_at_values_nor_at_unfinished_ones_twice() -> None:
    """E02: unfinished draws count like finished ones, so that lanes side by side draw different outcomes."""
    tree = Tree(dtype=np.float64)
    tree.add_children(ROOT, [0.5, 0.3, 0.2])
    rule, drawn = Rule(name="chance").params(), []
    for _ in range(10):
        child = tree.select_child(ROOT, rule)
        tree.mark(child)
        drawn.append(child)
    assert Counter(drawn) == {1: 5, 2: 3, 3: 2}
