"""Policy targets of traces: against Newton's method, the quadratic formula for two children, and the search's own scores."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treewise.search.budget import Budget
from treewise.search.policy_target import PolicyTarget, policy_target, policy_targets
from treewise.search.rules import Rule
from treewise.search.trace import Origin, Trace
from treewise.search.trace_nodes import NodeTable
from treewise.search.tree import ROOT
from treewise.search.types import InputError

NAN = math.nan
ORIGIN = Origin("digits", "mcts", "{}", "0" * 64, 0, "p", "e", "0")


def table(*, prior: list[float], visits: list[int], mean: list[float], value: list[float], root: float = NAN) -> NodeTable:
    """A root and its children."""
    size = 1 + len(prior)
    total = sum(visits)
    return NodeTable.of_columns(
        parent=np.array([-1] + [0] * len(prior)),
        depth=np.array([0] + [1] * len(prior)),
        ids=np.arange(size),
        id_offsets=np.arange(size + 1),
        logprobs=np.zeros(size),
        texts=("",) * size,
        prior=np.array([1.0, *prior]),
        multiplicity=np.ones(size, int),
        visits=np.array([total, *visits]),
        mean=np.array([0.5 if total else NAN, *mean]),
        best=np.full(size, NAN),
        value=np.array([root, *value]),
        outputs=np.zeros(0),
        output_offsets=np.zeros(size + 1, int),
        finish=(None,) * size,
        standing=("open",) * size,
        reasons=("",) * size,
        answers=(None,) * size,
        proven=np.zeros(size, bool),
        exhausted=np.zeros(size, bool),
    )


def newton(target: PolicyTarget, *, c: float) -> np.ndarray:
    """pi = lambda p / (alpha - q), alpha by Newton's method from its lower bound max(q + lambda p)."""
    p, q, n = target.prior, target.q, target.visits.sum()
    scale = c * math.sqrt(n) / (p.size + n)
    alpha = float((q + scale * p).max())
    for _ in range(100):
        gap = alpha - q
        alpha += float((scale * p / gap).sum() - 1) / float((scale * p / gap**2).sum())
    return scale * p / (alpha - q)


def traces(world, **settings: object) -> list[Trace]:
    return [search.trace(ORIGIN) for search in world.run(budget=Budget(simulations=60), **settings).values()]


@pytest.mark.parametrize("method", ["mcts", "ab-mcts"])
@pytest.mark.parametrize("c", [0.1, 1.25])
def test_targets_of_real_traces_are_those_of_another_solver(world, method: str, c: float) -> None:
    count = 0
    for trace in traces(world, method=method, lanes=1):
        for node, target in policy_targets(trace.nodes, c=c).items():
            assert target.policy.sum() == pytest.approx(1, abs=1e-9)
            assert target.policy == pytest.approx(newton(target, c=c), abs=1e-9)
            alone = policy_target(trace.nodes, node, c=c)
            assert all((one == other).all() for one, other in zip(alone, target, strict=True))
            assert target.children.tolist() == [n for n in range(len(trace.nodes)) if trace.nodes.parent[n] == node]
            count += target.policy.size > 1
    assert count > 20


def test_two_children_by_the_quadratic_formula() -> None:
    """With d = q1 - q2 and g = alpha - q1: lambda p1 / g + lambda p2 / (g + d) = 1, so g^2 + (d - lambda) g = lambda p1 d."""
    nodes = table(prior=[0.3, 0.7], visits=[6, 3], mean=[0.8, 0.4], value=[NAN, NAN])
    scale = 2.0 * math.sqrt(9) / (2 + 9)
    d = 0.8 - 0.4
    g = ((scale - d) + math.sqrt((scale - d) ** 2 + 4 * scale * 0.3 * d)) / 2
    assert policy_target(nodes, 0, c=2.0).policy == pytest.approx([scale * 0.3 / g, scale * 0.7 / (g + d)], abs=1e-7)


def test_values_are_means_of_returns_and_evaluations_and_else_mixed() -> None:
    """Child 1: 4 returns of mean 0.6 and an evaluation; 2: an evaluation; 3: nothing. Mixed: eq. 33 of Danihelka et al. 2022."""
    nodes = table(prior=[0.5, 0.3, 0.2], visits=[4, 0, 0], mean=[0.6, NAN, NAN], value=[0.2, 0.9, NAN], root=0.7)
    q1 = (4 * 0.6 + 2 * 0.2) / 6
    mixed = (0.7 + 4 * (0.5 * q1 + 0.3 * 0.9) / 0.8) / 5
    assert policy_target(nodes, 0, c=1.0, own_weight=2.0).q == pytest.approx([q1, 0.9, mixed], abs=1e-6)
    mixed = (0.7 + 4 * 0.6) / 5
    assert policy_target(nodes, 0, c=1.0, own_weight=0.0).q == pytest.approx([0.6, mixed, mixed], abs=1e-6)


def test_values_are_those_that_the_search_completes(world) -> None:
    """The compiled Gumbel scores are ln P + sigma q: at sigma 1 and without rescaling their difference to ln P is q."""
    rule = Rule(name="gumbel", value_scale=1.0, visit_offset=1.0, rescale_values=False, own_weight=1.0).params()
    for search in world.run(budget=Budget(simulations=30), method="mcts", lanes=1).values():
        tree, nodes = search.solutions.tree, search.trace(ORIGIN).nodes
        for node, target in policy_targets(nodes, c=1.0, own_weight=1.0).items():
            sigma = 1.0 + max(tree.visits(child) for child in tree.children(node).tolist())
            expected = (tree.completed_scores(node, rule) - np.log(tree.prior(node))) / sigma
            assert target.q == pytest.approx(expected, abs=1e-5)


def test_without_visits_the_target_is_the_prior() -> None:
    nodes = table(prior=[0.25, 0.75], visits=[0, 0], mean=[NAN, NAN], value=[0.1, 0.9])
    target = policy_target(nodes, 0, c=1.0)
    assert target.policy == pytest.approx([0.25, 0.75])
    assert policy_targets(nodes, c=1.0) == {}


def test_targets_lean_to_better_children_and_more_so_at_a_smaller_c() -> None:
    nodes = table(prior=[0.5, 0.5], visits=[5, 5], mean=[0.3, 0.7], value=[NAN, NAN])
    shares = [policy_target(nodes, 0, c=c).policy[1] for c in (10.0, 1.0, 0.1, 0.0)]
    assert shares == sorted(shares)
    assert shares[0] > 0.5
    assert shares[-1] == 1.0


@pytest.mark.parametrize(("node", "options"), [(9, {}), (-1, {}), (1, {}), (ROOT, {"c": -1.0}), (ROOT, {"own_weight": NAN})])
def test_what_cannot_be_is_refused(node: int, options: dict[str, float]) -> None:
    nodes = table(prior=[1.0], visits=[1], mean=[0.5], value=[0.5])
    with pytest.raises(InputError) as caught:
        policy_target(nodes, node, **{"c": 1.0, **options})
    assert caught.value.remedy
