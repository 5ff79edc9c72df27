"""`Tree`: structure, statistics, exhaustion, in-flight counts, memory, errors."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from treewise.search.rules import Rule
from treewise.search.tree import ROOT, State, Tree
from treewise.search.types import EvaluatorError, InputError

RULE = Rule().params()


def test_a_new_tree_is_one_new_root() -> None:
    """E05: with nothing done every number is defined."""
    tree = Tree()
    assert tree.size == len(tree) == 1
    assert tree.state(ROOT) is State.NEW
    assert tree.descend(RULE) == ROOT
    assert tree.select_child(ROOT, RULE) == -1
    assert tree.most_visited(ROOT) == -1
    assert tree.visit_weights(ROOT).tolist() == tree.prior(ROOT).tolist() == tree.scores(ROOT, RULE).tolist() == []
    assert tree.columns()["parent"].tolist() == [-1]
    assert tree.columns()["prior"].tolist() == [1.0]


def test_children_are_linked_behind_earlier_ones_and_share_the_prior() -> None:
    tree = Tree(capacity=1, dtype=np.float64)
    assert tree.add_children(ROOT, [1.0, 3.0]) == 1
    assert tree.add_children(1, [1.0]) == 3
    assert tree.add_children(ROOT, [4.0], multiplicity=[4]) == 4
    assert tree.children(ROOT).tolist() == [1, 2, 4]
    assert tree.prior(ROOT).tolist() == [0.125, 0.375, 0.5]
    assert tree.path(3).tolist() == [0, 1, 3]
    assert tree.depth(3) == 2
    columns = tree.columns()
    assert columns["prior"].tolist() == [1.0, 0.125, 0.375, 1.0, 0.5]
    assert columns["depth"].tolist() == [0, 1, 1, 2, 1]
    assert columns["multiplicity"].tolist() == [1, 1, 1, 1, 4]


def test_all_zero_weights_are_uniform() -> None:
    """E04: a prior masked to nothing does not divide by zero."""
    tree = Tree()
    tree.add_children(ROOT, [0.0, 0.0, 0.0, 0.0])
    assert tree.prior(ROOT).tolist() == [0.25] * 4
    assert tree.columns()["prior"].tolist() == [1.0, 0.25, 0.25, 0.25, 0.25]
    assert np.isfinite(tree.scores(ROOT, RULE)).all()


def test_copies_feed_the_prior() -> None:
    """S13: identical siblings are one child with a multiplicity."""
    tree = Tree(dtype=np.float64)
    tree.add_children(ROOT, [1.0, 2.0], multiplicity=[1, 2])
    tree.add_multiplicity(1, 1.0)
    assert tree.multiplicity(1) == 2
    assert tree.prior(ROOT).tolist() == [0.5, 0.5]


def test_all_results_of_one_expansion_are_kept() -> None:
    """S38: 64 results of one request make 64 children."""
    tree = Tree()
    tree.add_children(ROOT, np.ones(64))
    assert tree.children(ROOT).size == 64


def test_backup_counts_each_node_of_the_path_once() -> None:
    """E20, E22, E23: leaf to root, once an edge, the first value of a node is its mean and not half of it."""
    tree = Tree(edges=True, dtype=np.float64)
    tree.add_children(ROOT, [1.0])
    tree.add_children(1, [1.0])
    for node in (1, 2):
        tree.set_edge(node, reward=0.0, discount=-1.0)
    tree.backup(2, 0.75)
    assert [tree.mean(node) for node in (2, 1, ROOT)] == [0.75, -0.75, 0.75]
    assert [tree.visits(node) for node in (2, 1, ROOT)] == [1, 1, 1]


def test_returns_go_through_rewards_and_discounts() -> None:
    tree = Tree(edges=True, dtype=np.float64)
    tree.add_children(ROOT, [1.0])
    tree.add_children(1, [1.0])
    tree.set_edge(1, reward=1.0, discount=0.5)
    tree.set_edge(2, reward=2.0, discount=0.25)
    tree.backup(2, 4.0)
    assert [tree.mean(node) for node in (2, 1, ROOT)] == [4.0, 2.0 + 0.25 * 4.0, 1.0 + 0.5 * 3.0]


def test_mean_divides_by_the_nodes_own_visits() -> None:
    """E23: not by the parent's."""
    tree = Tree()
    tree.add_children(ROOT, [1.0, 1.0])
    for child, value in ((1, 1.0), (1, 0.5), (2, 0.25)):
        tree.backup(child, value)
    assert (tree.mean(1), tree.mean(2)) == (0.75, 0.25)
    assert tree.visit_weights(ROOT).tolist() == pytest.approx([2 / 3, 1 / 3])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_variance_of_returns_is_numpys(dtype: type[np.floating[Any]]) -> None:
    """Also far from 0 and after many returns, where a sum of squares in float32 would have lost it."""
    tree = Tree(dtype=dtype)
    tree.add_children(ROOT, [1.0, 1.0])
    returns = np.random.default_rng(3).normal(0.95, 0.01, 20_000)
    for index, value in enumerate(returns):
        tree.backup(1 + index % 2, float(value))
    assert tree.variance(ROOT) == pytest.approx(returns.var(), rel=1e-3)
    assert tree.variance(1) == pytest.approx(returns[::2].var(), rel=1e-3)
    assert math.isnan(Tree().variance(ROOT))


def test_visit_weights_sum_to_one_and_fall_back_to_the_prior() -> None:
    """E05, E17: with no visits below the root the prior speaks; targets sum to 1."""
    tree = Tree(dtype=np.float64)
    tree.add_children(ROOT, [1.0, 3.0])
    tree.backup(ROOT, 0.5)
    assert tree.visit_weights(ROOT).tolist() == [0.25, 0.75]
    assert tree.most_visited(ROOT) == 2
    tree.backup(1, 0.5)
    assert tree.visit_weights(ROOT).tolist() == [1.0, 0.0]
    assert tree.most_visited(ROOT) == 1


def test_values_belong_to_the_node_they_were_set_for() -> None:
    """S16: terminal siblings do not shift values to a neighbour."""
    tree = Tree(dtype=np.float64)
    tree.add_children(ROOT, [1.0] * 4)
    tree.set_terminal(1)
    tree.set_terminal(3)
    for node, value in ((2, 0.2), (4, 0.4)):
        tree.set_value(node, value)
        tree.backup(node, value)
    assert [tree.value(node) for node in (2, 4)] == [0.2, 0.4]
    assert [tree.mean(node) for node in (2, 4)] == [0.2, 0.4]
    assert all(math.isnan(tree.value(node)) and math.isnan(tree.mean(node)) for node in (1, 3))


def test_descent_goes_down_level_by_level() -> None:
    """S20: selection does not stop at the root's children."""
    tree = Tree()
    node = ROOT
    for _ in range(6):
        first = tree.add_children(node, [0.9, 0.1])
        node = first
    assert tree.descend(RULE) == node
    assert tree.depth(node) == 6
    assert tree.descend(RULE, start=2) == 2


def test_descent_never_passes_a_terminal_node() -> None:
    """E10, E34: a terminal node has no children, and a descent that reaches one ends there."""
    tree = Tree()
    tree.add_children(ROOT, [1.0])
    tree.set_terminal(1)
    with pytest.raises(InputError, match="node 1 is terminal"):
        tree.add_children(1, [1.0])
    revisit = Rule(revisit_terminals=True).params()
    assert tree.descend(revisit) == 1
    with pytest.raises(InputError, match="node 0 has children"):
        tree.set_terminal(ROOT)


def test_states_are_kept_apart() -> None:
    """E29: a node under expansion is neither expandable nor expanded."""
    tree = Tree()
    tree.set_in_flight(ROOT)
    assert tree.state(ROOT) is State.IN_FLIGHT
    assert tree.descend(RULE) == ROOT
    with pytest.raises(InputError, match="IN_FLIGHT"):
        tree.set_in_flight(ROOT)
    tree.set_new(ROOT)
    assert tree.state(ROOT) is State.NEW
    with pytest.raises(InputError, match="NEW"):
        tree.set_new(ROOT)
    tree.set_in_flight(ROOT)
    tree.add_children(ROOT, [1.0])
    assert tree.state(ROOT) is State.EXPANDED
    tree.set_terminal(1)
    assert tree.state(1) is State.TERMINAL


def test_a_small_tree_of_solved_leaves_is_exhausted() -> None:
    """S14: 1,000 iterations over 38 nodes stop as soon as nothing is left."""
    tree = Tree()
    steps = 0
    while (node := tree.descend(RULE)) >= 0:
        steps += 1
        assert steps < 100
        if tree.depth(node) == 3:
            tree.set_value(node, 0.5)
            tree.set_terminal(node)
        else:
            tree.add_children(node, [1.0, 1.0])
            tree.close(node)
        tree.backup(node, 0.5)
    assert steps == tree.size == 15
    assert tree.columns()["exhausted"].all()


def test_an_open_node_is_not_exhausted_and_asks_for_more() -> None:
    tree = Tree()
    tree.add_children(ROOT, [1.0, 1.0])
    tree.set_terminal(1)
    tree.set_terminal(2)
    assert not tree.exhausted(ROOT)
    assert tree.descend(RULE) == ROOT
    tree.close(ROOT)
    assert tree.exhausted(ROOT)
    assert tree.closed(ROOT)
    assert tree.descend(RULE) == -1


def test_children_that_come_late_reopen_an_exhausted_branch() -> None:
    tree = Tree()
    tree.add_children(ROOT, [1.0])
    tree.close(ROOT)
    tree.add_children(1, [1.0])
    tree.close(1)
    tree.set_terminal(2)
    assert tree.exhausted(ROOT)
    late = tree.add_children(1, [1.0])
    assert not tree.exhausted(ROOT)
    assert tree.descend(RULE) == late


def test_closing_a_childless_node_is_a_dead_end() -> None:
    tree = Tree()
    tree.add_children(ROOT, [1.0, 1.0])
    tree.close(ROOT)
    tree.close(1)
    assert tree.exhausted(1)
    assert tree.descend(RULE) == 2
    tree.close(2)
    assert tree.exhausted(ROOT)


def test_best_is_over_what_is_left_and_else_over_all() -> None:
    tree = Tree(dtype=np.float64)
    tree.add_children(ROOT, [1.0, 1.0, 1.0])
    tree.set_value(ROOT, 0.3)
    assert tree.best(ROOT) == 0.3
    tree.set_value(1, 0.9)
    tree.set_value(2, 0.6)
    assert tree.best(ROOT) == 0.9
    tree.set_terminal(1)
    assert tree.best(ROOT) == 0.6
    tree.set_terminal(2)
    tree.set_terminal(3)
    assert tree.best(ROOT) == 0.9
    tree.close(ROOT)
    assert tree.best(ROOT) == 0.9


def test_best_follows_changes_deep_below() -> None:
    tree = Tree(dtype=np.float64)
    node = ROOT
    for _ in range(5):
        node = tree.add_children(node, [1.0])
    tree.set_value(node, 0.4)
    assert tree.best(ROOT) == 0.4
    tree.set_value(node, 0.2)
    assert tree.best(ROOT) == 0.2
    tree.set_value(3, 0.99)
    assert tree.best(ROOT) == 0.2


def test_best_of_a_leaf_without_evaluation_is_its_mean() -> None:
    tree = Tree()
    tree.add_children(ROOT, [1.0])
    tree.backup(1, 0.25)
    tree.backup(1, 0.75)
    assert tree.best(1) == tree.best(ROOT) == 0.5


def test_lanes_started_together_spread_by_the_same_rule() -> None:
    """E25: every lane takes the best child as the rule sees it then, and all marks come back."""
    tree = Tree()
    tree.add_children(ROOT, [0.4, 0.3, 0.3])
    lanes = []
    for _ in range(6):
        scores = tree.scores(ROOT, RULE)
        node = tree.descend(RULE)
        assert node == 1 + int(np.argmax(scores))
        tree.mark(node)
        lanes.append(node)
    assert sorted(lanes) == [1, 1, 2, 2, 3, 3]
    assert tree.in_flight_total() == 12
    for node in lanes:
        tree.unmark(node)
    assert tree.in_flight_total() == 0


def test_scoring_comes_before_marking() -> None:
    """E19: the simulation that descends does not count itself; N(parent) is its visits, and no node counts itself."""
    marked, plain = Tree(dtype=np.float64), Tree(dtype=np.float64)
    for tree in (marked, plain):
        rng = np.random.default_rng(0)
        for _ in range(300):
            node = tree.descend(RULE)
            if tree is marked:
                tree.mark(node)
            tree.add_children(node, rng.random(3))
            for child in tree.children(node).tolist():
                tree.set_value(child, float(rng.random()))
            if tree is marked:
                tree.unmark(node)
            tree.backup(node, float(rng.random()))
    for name, column in plain.columns().items():
        assert np.array_equal(column, marked.columns()[name], equal_nan=column.dtype.kind == "f"), name


def test_unmatched_unmark_is_an_error_and_changes_nothing() -> None:
    tree = Tree()
    tree.add_children(ROOT, [1.0, 1.0])
    tree.mark(1)
    with pytest.raises(InputError, match="node 2"):
        tree.unmark(2)
    assert [tree.in_flight(node) for node in range(3)] == [1, 1, 0]


def test_in_flight_counters_do_not_wrap() -> None:
    tree = Tree()
    for _ in range(65535):
        tree.mark(ROOT)
    with pytest.raises(InputError, match="65535"):
        tree.mark(ROOT)
    assert tree.in_flight(ROOT) == 65535


def test_multiplicity_does_not_wrap() -> None:
    tree = Tree(dtype=np.float64)
    tree.add_children(ROOT, [1.0], multiplicity=[65535])
    tree.add_multiplicity(1, 1.0)
    assert tree.multiplicity(1) == 65535


def test_widening_counts_copies_and_samples_under_way() -> None:
    rule = Rule(widening_k=1.0, widening_alpha=0.5).params()
    tree = Tree()
    tree.add_children(ROOT, [2.0], multiplicity=[2])
    assert tree.descend(rule) == 1, "two samples are drawn at 0 visits"
    for _ in range(4):
        tree.backup(1, 0.5)
    assert tree.descend(rule) == ROOT, "2 <= sqrt(4)"
    tree.mark(ROOT)
    assert tree.descend(rule) == 1, "the third sample is under way"
    tree.mark(1)
    assert tree.descend(rule) == 1, "a simulation below the child is no sample of the root"
    tree.unmark(ROOT)
    assert tree.descend(rule) == ROOT
    tree.close(ROOT)
    assert tree.descend(rule) == 1, "a closed node is not widened"


def test_a_chain_of_5000_steps() -> None:
    tree = Tree()
    node = ROOT
    for _ in range(5000):
        node = tree.add_children(node, [1.0])
        tree.close(tree.parent(node))
    assert tree.descend(RULE) == node
    tree.mark(node)
    tree.set_value(node, 0.5)
    tree.backup(node, 0.5)
    tree.unmark(node)
    assert tree.depth(node) == 5000
    assert (tree.visits(ROOT), tree.mean(ROOT), tree.best(ROOT)) == (1, 0.5, 0.5)
    tree.set_terminal(node)
    assert tree.exhausted(ROOT)
    assert tree.columns()["depth"][-1] == 5000


def test_nothing_but_finite_numbers_goes_in() -> None:
    """S04, S22: a broken evaluator is an error, never a value."""
    tree = Tree()
    for bad in (math.nan, math.inf, -math.inf):
        with pytest.raises(EvaluatorError, match="node 0"):
            tree.set_value(ROOT, bad)
        with pytest.raises(EvaluatorError, match="node 0"):
            tree.backup(ROOT, bad)
        with pytest.raises(InputError, match="node 0"):
            tree.add_children(ROOT, [1.0, bad])
    assert tree.visits(ROOT) == 0
    assert tree.size == 1


@pytest.mark.parametrize(
    "act",
    [
        lambda tree: tree.add_children(ROOT, []),
        lambda tree: tree.add_children(ROOT, [-1.0]),
        lambda tree: tree.add_children(ROOT, [[1.0]]),
        lambda tree: tree.add_children(ROOT, [1.0], multiplicity=[0]),
        lambda tree: tree.add_children(ROOT, [1.0], multiplicity=[1, 1]),
        lambda tree: tree.add_children(9, [1.0]),
        lambda tree: tree.add_multiplicity(ROOT, 1.0),
        lambda tree: tree.set_edge(ROOT, reward=0.0, discount=1.0),
        lambda tree: tree.reserve(2**31),
        lambda tree: tree.value(-1),
        lambda tree: Tree(capacity=0),
        lambda tree: Tree(dtype=np.float16),
    ],
)
def test_unusable_arguments_are_refused(act: Callable[[Tree], object]) -> None:
    tree = Tree()
    with pytest.raises(InputError) as caught:
        act(tree)
    assert caught.value.remedy
    assert tree.size == 1


def test_a_node_takes_at_most_48_bytes_at_every_size() -> None:
    tree = Tree()
    worst = 0.0
    while tree.size < 20000:
        tree.add_children(tree.size - 1, np.ones(8))
        if tree.size > 640:
            worst = max(worst, tree.nbytes() / tree.size)
    assert worst <= 48
    tree.trim()
    assert tree.nbytes() == 45 * tree.size


def test_growth_copies_each_node_a_bounded_number_of_times() -> None:
    """S40: cost a node does not grow with the tree; counted in rows moved, not in seconds."""
    tree, moved, room = Tree(), 0, 64
    while tree.size < 100_000:
        tree.add_children(tree.size - 1, np.ones(8))
        now = tree.nbytes() // 45
        if now != room:
            moved, room = moved + room, now
    assert moved < 18 * tree.size


def test_a_descent_reads_only_the_families_on_its_path() -> None:
    """S40: with everything else poisoned, a descent and a backup still give the right answer: cost is O(depth x children)."""
    tree = Tree()
    rng = np.random.default_rng(1)
    for _ in range(2000):
        node = tree.descend(RULE)
        tree.add_children(node, rng.random(4))
        tree.backup(node, float(rng.random()))
    leaf = tree.descend(RULE)
    path = tree.path(leaf).tolist()
    touched = np.zeros(tree.size, bool)
    touched[path] = True
    for node in path:
        touched[tree.children(node)] = True
    assert touched.sum() <= 1 + 4 * len(path)
    tree._columns.weight[: tree.size][~touched] = np.nan
    tree._columns.value_sum[: tree.size][~touched] = np.nan
    tree._columns.next_sibling[: tree.size][~touched] = 2**30
    assert tree.descend(RULE) == leaf
    before = tree.visits(ROOT)
    tree.backup(leaf, 0.5)
    assert tree.visits(ROOT) == before + 1
    assert math.isfinite(tree.mean(ROOT))


def test_a_dropped_tree_is_freed_at_once() -> None:
    """E13: no cycle of parents and children keeps a tree alive."""
    gc.disable()
    try:
        tree = Tree()
        tree.add_children(ROOT, [1.0])
        alive = weakref.ref(tree)
        del tree
        assert alive() is None
    finally:
        gc.enable()


def test_columns_are_copies() -> None:
    tree = Tree()
    tree.add_children(ROOT, [1.0])
    before = tree.columns()
    tree.add_children(1, np.ones(1000))
    tree.backup(1, 0.5)
    assert before["visits"].tolist() == [0, 0]
    before["visits"][0] = 99
    assert tree.visits(ROOT) == 1
