"""One-step selections, regularised policies, visit schedules and widening thresholds, computed outside from cited formulas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from treewise.search.gumbel import considered_visits
from treewise.search.regularised import regularised_policy
from treewise.search.rules import Rule, widening_limit
from treewise.search.scoring import may_widen
from treewise.search.tree import ROOT, Tree

CASES = json.loads((Path(__file__).resolve().parents[1] / "data" / "selection.json").read_text())

FIRST_PLAY = {"absolute": "absolute", "parent": "parent", "parent_reduction": "reduction"}
TOTAL = {"parent_visits": "parent", "sum_children": "children", "sum_children_completed": "completed"}


def build_rule(named: dict[str, Any]) -> Rule:
    options: dict[str, Any] = {}
    if named["in_flight"] != "wu":
        options = {"in_flight": "virtual_loss", "loss_count": float(named["vl_count"]), "loss_value": named["vl_value"]}
        if named["in_flight"] == "katago":
            options["loss_floor"] = 0.25
    return Rule(
        name="puct",
        exploration=named["c"],
        first_play=FIRST_PLAY[named["fpu"]],  # type: ignore[arg-type]
        first_play_value=named.get("fpu_value", 0.0),
        total=TOTAL[named["sqrt"]],  # type: ignore[arg-type]
        total_floor=named.get("sqrt_floor", 0.0),
        **options,
    )


def build_tree(case: dict[str, Any]) -> Tree:
    """A tree whose root and children have the case's counts: parent N, O and V, children N, W, O and P."""
    tree = Tree(dtype=np.float64)
    tree.add_children(ROOT, case["P"])
    for child, (visits, total, unfinished) in enumerate(zip(case["N"], case["W"], case["O"], strict=True), start=1):
        for _ in range(visits):
            tree.backup(child, total / visits)
        for _ in range(unfinished):
            tree.mark(child)
    parent = case["parent"]
    own_visits, own_marks = parent["N"] - sum(case["N"]), parent["O"] - sum(case["O"])
    own_total = parent["N"] * parent["V"] - sum(case["W"])
    assert own_visits > 0
    assert own_marks >= 0
    for _ in range(own_visits):
        tree.backup(ROOT, own_total / own_visits)
    for _ in range(own_marks):
        tree.mark(ROOT)
    return tree


@pytest.mark.parametrize("case", CASES["selection"], ids=lambda case: case["rule"]["in_flight"])
def test_selection_with_work_in_flight(case: dict[str, Any]) -> None:
    """E25, E28, E40: each way to count unfinished visits, and each first-play value."""
    tree, rule = build_tree(case), build_rule(case["rule"]).params()
    np.testing.assert_allclose(tree.scores(ROOT, rule), case["scores"], rtol=0, atol=1e-9)
    assert tree.select_child(ROOT, rule) == 1 + case["pick"]


@pytest.mark.parametrize("case", CASES["regularized_policy"], ids=lambda case: f"c{case['c']}-k{len(case['q'])}")
def test_regularised_policy(case: dict[str, Any]) -> None:
    result = regularised_policy(case["prior"], case["q"], case["n"], c=case["c"])
    assert result.multiplier == pytest.approx(case["lambda"], abs=1e-12)
    assert result.alpha == pytest.approx(case["alpha"], abs=1e-9)
    np.testing.assert_allclose(result.policy, case["pi_bar"], rtol=0, atol=1e-9)


@pytest.mark.parametrize("case", CASES["considered_visits"], ids=lambda case: f"m{case['m']}-n{case['sims']}")
def test_considered_visits(case: dict[str, Any]) -> None:
    count = case["sims"]
    assert [considered_visits(k, considered=case["m"], simulations=count) for k in range(count)] == case["seq"]


@pytest.mark.parametrize("case", CASES["progressive_widening"], ids=lambda case: f"k{case['k']}")
def test_widening_thresholds(case: dict[str, Any]) -> None:
    rule = Rule(widening_k=case["k"], widening_alpha=case["alpha"]).params()
    tree, visits = Tree(), 0
    tree.add_children(ROOT, [1.0])
    for target, most in case["max_children_for_N"]:
        while visits < target:
            tree.backup(ROOT, 0.5)
            visits += 1
        while may_widen(tree._columns, ROOT, rule):
            tree.add_children(ROOT, [1.0])
        assert tree.children(ROOT).size == most == widening_limit(target, k=case["k"], alpha=case["alpha"])
