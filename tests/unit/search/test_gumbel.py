"""Sequential halving, Gumbel numbers, the improved and the regularised policy."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from treewise.search.gumbel import RootPlan, considered_visits, improved_policy, root_gumbels
from treewise.search.regularised import regularised_policy
from treewise.search.rules import Rule
from treewise.search.tree import ROOT, Tree
from treewise.search.types import InputError


@pytest.mark.parametrize(("considered", "simulations"), [(4, 16), (8, 64), (16, 200), (5, 37), (3, 7)])
def test_visits_of_a_schedule_are_reachable(considered: int, simulations: int) -> None:
    """Following the schedule, a child with the wanted number of visits always exists."""
    visits = [0] * considered
    for simulation in range(simulations):
        wanted = considered_visits(simulation, considered=considered, simulations=simulations)
        visits[visits.index(wanted)] += 1
    assert sum(visits) == simulations


@pytest.mark.parametrize("rounds", [1, 2, 4, 6])
def test_a_long_plan_takes_no_room_and_gives_each_round_its_share(rounds: int) -> None:
    """With 2**rounds children each round has an equal share: the last two end with share / left visits of every round."""
    considered, share = 2**rounds, 10**9 // rounds // 2**rounds * 2**rounds
    simulations = rounds * share
    tracemalloc.start()
    plan = RootPlan.make([0.0] * considered, considered=considered, simulations=simulations)
    last = considered_visits(plan.simulations - 1, considered=plan.considered, simulations=plan.simulations)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert last + 1 == sum(share // 2**k for k in range(1, rounds + 1))
    assert peak < 100_000


def test_gumbels_are_seeded_prefix_stable_and_gumbel_distributed() -> None:
    long = root_gumbels(4000, seed=3, problem_id="a")
    assert root_gumbels(7, seed=3, problem_id="a").tolist() == long[:7].tolist()
    assert root_gumbels(7, seed=4, problem_id="a").tolist() != long[:7].tolist()
    assert root_gumbels(7, seed=3, problem_id="b").tolist() != long[:7].tolist()
    assert long.mean() == pytest.approx(np.euler_gamma, abs=4 * math.pi / math.sqrt(6 * 4000))
    assert long.var() == pytest.approx(math.pi**2 / 6, rel=0.12)


def test_improved_policy_is_a_softmax_with_masked_children() -> None:
    """E14: a child of prior 0 gets no mass and makes nothing infinite."""
    found = improved_policy([math.log(3.0), -math.inf, 0.0])
    assert found.tolist() == pytest.approx([0.75, 0.0, 0.25])
    with pytest.raises(InputError):
        improved_policy([-math.inf, -math.inf])


def planned_tree(gumbels: list[float], *, considered: int, simulations: int) -> Tree:
    tree = Tree(dtype=np.float64)
    tree.add_children(ROOT, [1.0] * len(gumbels))
    tree.set_value(ROOT, 0.5)
    tree.plan_gumbel(gumbels, considered=considered, simulations=simulations)
    return tree


def test_sequential_halving_keeps_the_better_half() -> None:
    values = [0.9, 0.1, 0.8, 0.2]
    tree = planned_tree([0.0, 0.1, 0.2, 0.3], considered=4, simulations=16)
    rule = Rule(name="gumbel").params()
    order = []
    for _ in range(16):
        child = tree.descend(rule)
        order.append(child)
        tree.set_value(child, values[child - 1])
        tree.backup(child, values[child - 1])
    assert sorted(order[:4]) == [1, 2, 3, 4]
    assert [tree.visits(c) for c in (1, 2, 3, 4)] == [6, 2, 6, 2]
    assert tree.planned_child(rule) == 1


def test_only_the_considered_children_are_visited() -> None:
    tree = planned_tree([0.0, 3.0, 1.0, 2.0], considered=2, simulations=8)
    rule = Rule(name="gumbel").params()
    seen = set()
    for _ in range(8):
        child = tree.descend(rule)
        seen.add(child)
        tree.backup(child, 0.5)
    assert seen == {2, 4}


def test_lanes_count_unfinished_visits_in_the_plan() -> None:
    """E25: simulations started together follow the schedule as if one after another."""
    tree = planned_tree([0.0, 3.0, 1.0, 2.0], considered=4, simulations=8)
    rule = Rule(name="gumbel").params()
    started = []
    for _ in range(4):
        started.append(tree.descend(rule))
        tree.mark(started[-1])
    assert sorted(started) == [1, 2, 3, 4]
    assert started[0] == 2


def test_exhausted_and_late_children_of_a_plan() -> None:
    tree = planned_tree([3.0, 2.0], considered=2, simulations=4)
    rule = Rule(name="gumbel").params()
    late = tree.add_children(ROOT, [1.0])
    tree.set_terminal(1)
    assert tree.select_child(ROOT, rule) == 2
    tree.set_terminal(2)
    assert tree.select_child(ROOT, rule) == late
    tree.set_terminal(late)
    assert tree.select_child(ROOT, rule) == -1
    tree.close(ROOT)
    assert tree.descend(rule) == -1


def test_more_visits_than_planned_do_not_stop_the_search() -> None:
    tree = planned_tree([3.0, 2.0], considered=2, simulations=2)
    rule = Rule(name="gumbel").params()
    for _ in range(9):
        tree.backup(tree.descend(rule), 0.5)
    tree.backup(1, 0.5)
    tree.backup(1, 0.5)
    assert tree.descend(rule) in (1, 2)


def test_unusable_plans_are_refused() -> None:
    tree = Tree()
    tree.add_children(ROOT, [1.0, 1.0])
    rule = Rule(name="gumbel").params()
    with pytest.raises(InputError):
        tree.planned_child(rule)
    with pytest.raises(InputError):
        tree.plan_gumbel([1.0], considered=2, simulations=3)
    with pytest.raises(InputError):
        tree.plan_gumbel([1.0, math.nan], considered=2, simulations=3)
    with pytest.raises(InputError):
        RootPlan.make([1.0, 2.0], considered=0, simulations=3)
    with pytest.raises(InputError):
        RootPlan.make([1.0, 2.0], considered=2, simulations=0)
    with pytest.raises(InputError):
        considered_visits(0, considered=2, simulations=0)
    with pytest.raises(InputError):
        tree.completed_scores(ROOT, Rule().params())


def test_regularised_policy_solves_its_equation_and_its_limits() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        k = int(rng.integers(1, 9))
        prior, q, n = rng.dirichlet(np.ones(k)), rng.normal(size=k) * 10 ** rng.uniform(-3, 6), rng.integers(0, 50, k)
        result = regularised_policy(prior, q, n, c=float(rng.uniform(0.01, 5)))
        assert result.policy.sum() == pytest.approx(1.0, abs=1e-12)
        if n.sum():
            gaps = result.multiplier * prior / result.policy
            np.testing.assert_allclose(gaps + q, result.alpha, rtol=1e-9, atol=1e-9)
    assert regularised_policy([0.3, 0.7], [1.0, 0.0], [0, 0], c=1.0).policy.tolist() == [0.3, 0.7]
    assert regularised_policy([0.3, 0.7], [1.0, 0.0], [1, 1], c=0.0).policy.tolist() == [1.0, 0.0]
    assert regularised_policy([0.0, 1.0], [5.0, 0.0], [1, 1], c=1.0).policy.tolist() == [0.0, 1.0]
    with pytest.raises(InputError):
        regularised_policy([0.0, 0.0], [1.0, 0.0], [1, 1], c=1.0)
    with pytest.raises(InputError):
        regularised_policy([1.0], [math.nan], [1], c=1.0)
    with pytest.raises(InputError):
        regularised_policy([1.0], [1.0, 2.0], [1], c=1.0)
