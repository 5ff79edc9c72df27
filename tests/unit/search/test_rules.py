"""Every rule option changes a score by hand arithmetic, and none takes a number out of range."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from treewise.search.rules import Rule, widening_limit, with_noise
from treewise.search.tree import ROOT, Tree
from treewise.search.types import InputError


def small_tree(**options: Any) -> Tree:
    """Root with 4 backups of mean 0.5: child 1 returned 0.2 and 0.6, child 2 0.9, child 3 nothing; priors 0.5, 0.3, 0.2."""
    tree = Tree(dtype=np.float64, **options)
    tree.add_children(ROOT, [5.0, 3.0, 2.0])
    for child, value in ((1, 0.2), (1, 0.6), (2, 0.9), (ROOT, 0.3)):
        tree.backup(child, value)
    return tree


def scores(tree: Tree, **options: Any) -> list[float]:
    return [float(x) for x in tree.scores(ROOT, Rule(**options).params())]


def test_puct() -> None:
    """S65: here and below, a rule is what its formula says, written out by hand, with no term that its source lacks."""
    expected = [0.4 + 2.0 * 2 * 0.5 / 3, 0.9 + 2.0 * 2 * 0.3 / 2, 2.0 * 2 * 0.2]
    assert scores(small_tree(), exploration=2.0) == pytest.approx(expected, abs=1e-12)


def test_alphazero_constant_grows_with_visits() -> None:
    c = 1.5 + math.log((4 + 10.0 + 1) / 10.0)
    expected = [0.4 + c * 2 * 0.5 / 3, 0.9 + c * 2 * 0.3 / 2, c * 2 * 0.2]
    assert scores(small_tree(), name="alphazero", exploration=1.5, exploration_base=10.0) == pytest.approx(expected, abs=1e-12)


def test_uct_uses_the_logarithm_of_the_parents_visits() -> None:
    """E01: the reported fault took the logarithm of the child's visits."""
    found = scores(small_tree(), name="uct", exploration=1.4)
    assert found[:2] == pytest.approx([0.4 + 1.4 * math.sqrt(math.log(4) / 2), 0.9 + 1.4 * math.sqrt(math.log(4))], abs=1e-12)
    assert found[2] == math.inf


def test_uct_counts_an_own_evaluation_as_visits() -> None:
    tree = small_tree()
    tree.set_value(3, 0.7)
    assert scores(tree, name="uct", exploration=1.4)[2] == math.inf
    assert scores(tree, name="uct", exploration=1.4, own_weight=1.0)[2] == pytest.approx(
        0.7 + 1.4 * math.sqrt(math.log(4)), abs=1e-12
    )


@pytest.mark.parametrize(("value_range", "width"), [("none", 1.0), ("fixed", 2.0)])
@pytest.mark.parametrize("name", ["puct", "alphazero"])
def test_puct_scaled_by_the_spread_of_the_parents_returns(name: str, value_range: str, width: float) -> None:
    """The root's returns 0.2, 0.6, 0.9, 0.3 deviate by 0.3 in all squares; 3 returns of spread 0.4 are taken as seen before."""
    options: dict[str, Any] = {"name": name, "exploration": 2.0, "value_range": value_range, "value_max": width}
    scaled = scores(small_tree(), **options, variance_scaled=True, usual_spread=0.4, usual_weight=3.0)
    factor = math.sqrt((3.0 * 0.4**2 + 0.3 / width**2) / (3 + 4)) / 0.4
    plain, bare = scores(small_tree(), **options), scores(small_tree(), **{**options, "exploration": 0.0})
    if name == "alphazero":  # its constant is not 0 at exploration 0
        bare = [0.4 / width, 0.9 / width, 0.0]
    expected = [q + factor * (score - q) for q, score in zip(bare, plain, strict=True)]
    assert scaled == pytest.approx(expected, abs=1e-12)


def test_before_the_first_return_the_usual_spread_stands() -> None:
    tree = Tree(dtype=np.float64)
    tree.add_children(ROOT, [3.0, 1.0])
    assert scores(tree, variance_scaled=True, usual_spread=0.7) == scores(tree)


def test_uct_scaled_by_variance_is_ucb_v() -> None:
    """Audibert, Munos & Szepesvari 2009, eq. 1, at exploration sqrt(2): zeta = c = b = 1. Variances 0.04 and 0."""
    found = scores(small_tree(), name="uct", exploration=math.sqrt(2), variance_scaled=True)
    log = math.log(4)
    assert found[0] == pytest.approx(0.4 + math.sqrt(2 * 0.04 * log / 2) + 3 * log / 2, abs=1e-12)
    assert found[1] == pytest.approx(0.9 + 3 * log, abs=1e-12)
    assert found[2] == math.inf
    half = scores(small_tree(), name="uct", exploration=0.5, variance_scaled=True, value_range="fixed", value_max=0.5)
    assert half[0] == pytest.approx(0.8 + 0.5 * math.sqrt(0.16 * log / 2) + 1.5 * 0.25 * log / 2, abs=1e-12)


def test_uct_scaled_by_variance_sees_returns_through_the_discount() -> None:
    plain, edged = small_tree(), small_tree(edges=True)
    edged.set_edge(1, reward=0.3, discount=0.5)
    log, options = math.log(4), {"name": "uct", "exploration": 1.0, "variance_scaled": True}
    assert scores(edged, **options)[0] == pytest.approx(
        scores(plain, **options)[0] - 0.4 + (0.3 + 0.5 * 0.4) - 0.5 * math.sqrt(0.04 * log / 2), abs=1e-12
    )


def test_chance_follows_the_probabilities() -> None:
    assert scores(small_tree(), name="chance") == pytest.approx([0.5 / 3, 0.3 / 2, 0.2], abs=1e-12)


@pytest.mark.parametrize(
    ("options", "first_play"),
    [
        ({"first_play": "absolute", "first_play_value": 0.25}, 0.25),
        ({"first_play": "parent", "first_play_value": 0.25}, 0.5),
        ({"first_play": "reduction", "first_play_value": 0.25}, 0.5 - 0.25 * math.sqrt(0.8)),
    ],
)
def test_first_play_values(options: dict[str, Any], first_play: float) -> None:
    """E16, E28: the value of an unvisited child is stated, and never a silent 0."""
    assert scores(small_tree(), exploration=0.0, **options) == pytest.approx([0.4, 0.9, first_play], abs=1e-12)


def test_first_play_of_a_parent_that_has_nothing_is_zero_not_nan() -> None:
    """E38: no value is ever NaN."""
    tree = Tree()
    tree.add_children(ROOT, [1.0, 1.0])
    for first_play in ("absolute", "parent", "reduction"):
        for value_range in ("none", "fixed", "siblings"):
            found = scores(tree, exploration=0.0, first_play=first_play, value_range=value_range)
            assert found == [0.0, 0.0]


def test_value_ranges() -> None:
    fixed = scores(small_tree(), exploration=0.0, value_range="fixed", value_min=-1.0, value_max=3.0)
    assert fixed == pytest.approx([1.4 / 4, 1.9 / 4, 0.0], abs=1e-12)
    siblings = scores(small_tree(), exploration=0.0, value_range="siblings", first_play="parent")
    assert siblings == pytest.approx([0.0, 1.0, (0.5 - 0.4) / (0.9 - 0.4)], abs=1e-12)


def test_siblings_range_of_equal_values_is_finite() -> None:
    tree = Tree(dtype=np.float64)
    tree.add_children(ROOT, [1.0, 1.0])
    for child in (1, 2):
        tree.backup(child, 0.5)
    assert scores(tree, exploration=0.0, value_range="siblings") == [0.0, 0.0]


def test_value_range_includes_rewards_and_discounts() -> None:
    """E16: what is normalised is r + d V, not V."""
    tree = Tree(dtype=np.float64, edges=True)
    tree.add_children(ROOT, [1.0, 1.0])
    tree.set_edge(1, reward=2.0, discount=0.5)
    tree.set_edge(2, reward=0.0, discount=0.5)
    for child in (1, 2):
        tree.backup(child, 1.0)
    assert scores(tree, exploration=0.0) == [2.5, 0.5]
    assert scores(tree, exploration=0.0, value_range="siblings") == [1.0, 0.0]
    assert tree.mean(ROOT) == 1.5


def test_own_weight_counts_the_evaluation_as_visits() -> None:
    tree = small_tree()
    tree.set_value(1, 1.0)
    tree.set_value(3, 0.7)
    assert scores(tree, exploration=0.0) == pytest.approx([0.4, 0.9, 0.0], abs=1e-12)
    assert scores(tree, exploration=0.0, own_weight=2.0) == pytest.approx([(0.8 + 2.0) / 4, 0.9, 0.7], abs=1e-12)


def test_backup_max_uses_the_best_below() -> None:
    tree = Tree(dtype=np.float64)
    tree.add_children(ROOT, [1.0, 1.0])
    tree.add_children(1, [1.0, 1.0])
    for node, value in ((3, 0.9), (4, 0.1), (2, 0.6)):
        tree.backup(node, value)
    assert scores(tree, exploration=0.0) == pytest.approx([0.5, 0.6])
    assert scores(tree, exploration=0.0, backup="max") == pytest.approx([0.9, 0.6])


def test_backup_max_of_a_child_without_visits_is_its_first_play() -> None:
    tree = Tree(dtype=np.float64)
    tree.add_children(ROOT, [1.0])
    tree.set_value(1, 0.9)
    assert scores(tree, exploration=0.0, backup="max", first_play_value=0.2) == [0.2]
    assert scores(tree, exploration=0.0, backup="max", own_weight=1.0) == [0.9]


def test_in_flight_counts_in_the_exploration_term_only() -> None:
    tree = small_tree()
    tree.mark(1)
    tree.mark(1)
    expected = [0.4 + math.sqrt(6) * 0.5 / 5, 0.9 + math.sqrt(6) * 0.3 / 2, math.sqrt(6) * 0.2]
    assert scores(tree, exploration=1.0) == pytest.approx(expected, abs=1e-12)


def test_virtual_loss() -> None:
    tree = small_tree()
    tree.mark(1)
    options: dict[str, Any] = {"exploration": 1.0, "in_flight": "virtual_loss", "loss_count": 3.0, "loss_value": -1.0}
    expected = (0.8 - 3.0) / 5 + math.sqrt(5) * 0.5 / (1 + 5)
    assert scores(tree, **options)[0] == pytest.approx(expected, abs=1e-12)
    tree.mark(3)
    bare = scores(tree, **options)[2]
    floored = scores(tree, **options, loss_floor=1.0, first_play_value=0.6)[2]
    exploration = math.sqrt(6) * 0.2 / 4
    assert [bare, floored] == pytest.approx([-1.0 + exploration, (0.6 - 3.0) / 4 + exploration], abs=1e-12)


def test_totals() -> None:
    tree = small_tree()
    tree.mark(2)
    found = {name: scores(tree, exploration=1.0, total=name)[2] for name in ("parent", "children", "completed")}
    expected = {"parent": math.sqrt(5) * 0.2, "children": math.sqrt(4) * 0.2, "completed": math.sqrt(3) * 0.2}
    assert found == pytest.approx(expected, abs=1e-12)


def test_the_prior_decides_the_first_choice() -> None:
    """S64: at 0 visits the exploration term is not 0."""
    tree = Tree()
    tree.add_children(ROOT, [0.2, 0.5, 0.3])
    assert tree.visits(ROOT) == 0
    assert tree.select_child(ROOT, Rule().params()) == 2
    assert tree.select_child(ROOT, Rule(name="alphazero").params()) == 2
    assert tree.select_child(ROOT, Rule(total_floor=0.0).params()) == 1


def test_gumbel_matches_the_formula_written_out() -> None:
    tree = small_tree()
    tree.set_value(ROOT, 0.3)
    tree.mark(1)
    prior, q = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.9, 0.0])
    q[2] = (0.3 + 3 * (0.5 * 0.4 + 0.3 * 0.9) / 0.8) / 4
    for rescale in (True, False):
        completed = (q - q.min()) / (q.max() - q.min()) if rescale else q
        logits = np.log(prior) + (20.0 + 2) * 0.3 * completed
        policy = np.exp(logits) / np.exp(logits).sum()
        expected = policy - np.array([3, 1, 0]) / (1 + 4)
        found = scores(tree, name="gumbel", value_scale=0.3, visit_offset=20.0, rescale_values=rescale)
        assert found == pytest.approx(expected.tolist(), abs=1e-12)


def test_gumbel_completes_values_when_all_visited_children_have_prior_zero() -> None:
    """E08: the mixed value divides by the prior mass of visited children."""
    tree = Tree(dtype=np.float64)
    tree.add_children(ROOT, [0.0, 1.0])
    tree.backup(1, 0.4)
    found = scores(tree, name="gumbel")
    assert np.isfinite(found).all()
    nothing_visited = Tree()
    nothing_visited.add_children(ROOT, [0.3, 0.7])
    assert np.isfinite(scores(nothing_visited, name="gumbel")).all()


def test_ties_go_to_the_first_child_or_by_the_seed() -> None:
    """E07: ties are not always the lowest index when a seed is given, and the same seed gives the same child."""
    tree = Tree()
    tree.add_children(ROOT, [1.0] * 8)
    assert tree.select_child(ROOT, Rule().params()) == 1
    drawn = [tree.select_child(ROOT, Rule(tie_seed=seed).params()) for seed in range(1, 801)]
    assert drawn == [tree.select_child(ROOT, Rule(tie_seed=seed).params()) for seed in range(1, 801)]
    counts = np.bincount(drawn, minlength=9)[1:]
    assert counts.min() > 60
    assert counts.max() < 140


def test_a_seed_decides_ties_only() -> None:
    tree = Tree()
    tree.add_children(ROOT, [1.0, 1.0, 1.001])
    assert {tree.select_child(ROOT, Rule(tie_seed=seed).params()) for seed in range(50)} == {3}


def test_revisit_terminals() -> None:
    tree = Tree()
    tree.add_children(ROOT, [0.9, 0.1])
    tree.set_terminal(1)
    assert tree.descend(Rule().params()) == 2
    assert tree.descend(Rule(revisit_terminals=True).params()) == 1


def test_terminal_by_outcome_has_no_exploration_term() -> None:
    tree = small_tree()
    tree.set_terminal(2)
    assert scores(tree, exploration=5.0, terminal_by_outcome=True)[1] == pytest.approx(0.9)
    assert scores(tree, exploration=5.0)[1] > 2.0


def test_with_noise() -> None:
    """E26: noise mixes into the prior at the root, at any time, and keeps a distribution."""
    mixed = with_noise([2.0, 2.0], [1.0, 0.0], fraction=0.25)
    assert mixed.tolist() == [0.625, 0.375]
    assert with_noise([0.0, 0.0], [1.0, 0.0], fraction=0.0).tolist() == [0.5, 0.5]
    for weights, noise, fraction in (
        ([1.0], [1.0, 0.0], 0.1),
        ([1.0], [-1.0], 0.1),
        ([1.0], [1.0], 1.5),
        ([math.nan], [1.0], 0.5),
    ):
        with pytest.raises(InputError):
            with_noise(weights, noise, fraction=fraction)


def test_widening_limit_grows_as_stated() -> None:
    assert [widening_limit(n, k=1.5, alpha=0.5) for n in (0, 1, 4, 9)] == [1, 2, 4, 5]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "ucb"),
        ("first_play", "zero"),
        ("value_range", "minmax"),
        ("total", "all"),
        ("backup", "median"),
        ("in_flight", "none"),
        ("exploration", -0.1),
        ("exploration", math.nan),
        ("exploration_base", 0.0),
        ("usual_spread", 0.0),
        ("usual_weight", 0.0),
        ("usual_weight", math.inf),
        ("first_play_value", math.inf),
        ("value_max", 0.0),
        ("own_weight", -1.0),
        ("loss_count", 0.0),
        ("loss_value", math.nan),
        ("loss_floor", -1.0),
        ("total_floor", -1.0),
        ("widening_k", -1.0),
        ("widening_alpha", 1.5),
        ("value_scale", -0.1),
        ("visit_offset", -1.0),
        ("tie_seed", -1),
        ("tie_seed", 2**63),
        ("exploration", "1"),
        ("exploration", True),
    ],
)
def test_options_out_of_range_name_the_field_and_the_value(field: str, value: object) -> None:
    """S25: a senseless number is an error at once."""
    with pytest.raises(InputError) as caught:
        Rule(**{field: value})  # type: ignore[arg-type]
    assert field in str(caught.value)
    assert repr(value) in str(caught.value)
    assert caught.value.remedy


def test_params_are_made_once_and_cannot_be_changed() -> None:
    rule = Rule(exploration=3.0)
    assert rule.params() is rule.params()
    with pytest.raises(ValueError, match="read-only"):
        rule.params()["exploration"] = 1.0
