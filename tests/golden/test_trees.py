"""The shipped kernels replay trees recorded from mctx and OpenSpiel; `tests/data/trees*.json` hold their origin and licence.

Only the loop around the kernels and the map between rows and nodes are the test's own: scoring, descent, backup, plans, final
action and action weights are `treewise.search`.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from treewise.search.gumbel import improved_policy
from treewise.search.rules import Rule, with_noise
from treewise.search.tree import ROOT, State, Tree

DATA = Path(__file__).resolve().parents[1] / "data"
MCTX = json.loads((DATA / "trees.json").read_text())["cases"]
OPEN_SPIEL = json.loads((DATA / "trees_uct.json").read_text())["cases"]


def softmax(logits: list[float | None]) -> np.ndarray:
    numbers = np.array([-math.inf if x is None else x for x in logits])
    weights = np.exp(numbers - numbers.max())
    return weights / weights.sum()


def decision_rule(case: dict[str, Any]) -> Rule:
    named, options = case["rule"], case["rule"]["qtransform_kwargs"]
    common: dict[str, Any] = {"revisit_terminals": True}
    if named["name"] == "gumbel_muzero":
        return Rule(
            name="gumbel",
            value_scale=options.get("value_scale", 0.1),
            visit_offset=options.get("maxvisit_init", 50.0),
            rescale_values=options.get("rescale_values", True),
            **common,
        )
    if named["qtransform"] == "qtransform_by_min_max":
        common |= {"value_range": "fixed", "value_min": options["min_value"], "value_max": options["max_value"]}
    else:
        common |= {"value_range": "siblings"}
    return Rule(name="alphazero", exploration=named["pb_c_init"], exploration_base=named["pb_c_base"], **common)


class Replay:
    """One run of a recorded search."""

    def __init__(self, case: dict[str, Any], dtype: type[np.floating]) -> None:
        self.case = case
        self.rows = case["nodes"]
        self.row_of = {(row["p"], row["a"]): index for index, row in enumerate(self.rows)}
        self.tree = Tree(dtype=dtype, edges=True)
        self.node_of_row = [ROOT]
        self.row: dict[int, int] = {ROOT: 0}
        self.action: dict[int, int] = {}
        self.rule = decision_rule(case).params()
        self.chance = Rule(name="chance").params()

    def run(self) -> None:
        case, tree = self.case, self.tree
        self.grow(ROOT)
        tree.set_value(ROOT, self.rows[0]["v"])
        tree.backup(ROOT, self.rows[0]["v"])
        if case["rule"]["name"] == "gumbel_muzero":
            count = tree.children(ROOT).size
            gumbels = case["gumbel"] or [0.0] * count
            considered = case["rule"]["max_num_considered_actions"]
            tree.plan_gumbel(gumbels, considered=considered, simulations=case["num_simulations"])
        for _ in range(case["num_simulations"]):
            node = self.descend()
            self.evaluate(node)

    def descend(self) -> int:
        if "num_chance_outcomes" not in self.case:
            return self.tree.descend(self.rule)
        node = ROOT
        while self.tree.state(node) is State.EXPANDED:
            chance = self.rows[self.row[node]]["kind"] == "chance"
            node = self.tree.select_child(node, self.chance if chance else self.rule)
        return node

    def evaluate(self, node: int) -> None:
        tree = self.tree
        if node not in self.row:
            above = self.row[tree.parent(node)]
            key = (above, self.action[node])
            assert key in self.row_of, f"the reference never expanded action {key[1]} of row {above}"
            self.row[node] = self.row_of[key]
        row = self.rows[self.row[node]]
        if tree.visits(node) == 0:
            self.node_of_row.append(node)
            tree.set_edge(node, reward=row["r"], discount=row["d"])
            deepest = self.case["max_depth"]
            if row.get("t"):
                tree.set_terminal(node)
            elif deepest is None or tree.depth(node) < deepest:
                self.grow(node)
        tree.set_value(node, row["v"])
        tree.backup(node, row["v"])

    def grow(self, node: int) -> None:
        weights = softmax(self.rows[self.row[node]]["logits"])
        actions = np.arange(weights.size)
        if node == ROOT:
            if self.case["root_noise"]:
                noise = self.case["root_noise"]
                weights = with_noise(weights, noise["sample"], fraction=noise["fraction"])
            if self.case["invalid_root_actions"]:
                actions = np.flatnonzero(np.array(self.case["invalid_root_actions"]) == 0)
        first = self.tree.add_children(node, weights[actions])
        self.action |= {first + i: int(action) for i, action in enumerate(actions)}

    def by_action(self, numbers: np.ndarray) -> np.ndarray:
        spread = np.zeros(self.case["num_actions"])
        for child, number in zip(self.tree.children(ROOT).tolist(), numbers, strict=True):
            spread[self.action[child]] = number
        return spread


def check_mctx(case: dict[str, Any], dtype: type[np.floating], tolerance: float) -> None:
    replay = Replay(case, dtype)
    replay.run()
    tree, expect = replay.tree, case["expect"]
    children = tree.children(ROOT).tolist()
    assert len(replay.node_of_row) == len(case["nodes"])
    assert replay.by_action(np.array([tree.visits(c) for c in children])).tolist() == expect["root_visits"]

    columns = tree.columns()
    at = sorted(replay.node_of_row, key=lambda node: replay.row[node])
    if expect["ordered_ids"]:
        assert at == replay.node_of_row
    assert columns["visits"][at].tolist() == expect["node_visits"]
    for node, value in zip(at, expect["node_values"], strict=True):
        if value is not None:
            assert columns["mean"][node] == pytest.approx(value, abs=tolerance), f"row {replay.row[node]}"
    assert tree.mean(ROOT) == pytest.approx(expect["root_value"], abs=tolerance)

    q = [0.0] * len(children)
    for i, child in enumerate(children):
        if child in replay.row:
            row = case["nodes"][replay.row[child]]
            q[i] = row["r"] + row["d"] * tree.mean(child)
    np.testing.assert_allclose(replay.by_action(np.array(q)), expect["root_q"], rtol=0, atol=tolerance)

    if case["rule"]["name"] == "gumbel_muzero":
        weights = improved_policy(tree.completed_scores(ROOT, replay.rule))
        chosen = replay.action[tree.planned_child(replay.rule)]
    else:
        weights = tree.visit_weights(ROOT)
        chosen = replay.action[tree.most_visited(ROOT)]
    if "action_weights" in expect:
        np.testing.assert_allclose(replay.by_action(weights), expect["action_weights"], rtol=0, atol=max(tolerance, 1e-9))
    if "action" in expect:
        assert chosen == expect["action"]


@pytest.mark.parametrize("case", MCTX, ids=lambda case: case["id"])
def test_mctx_trees_are_replayed(case: dict[str, Any]) -> None:
    """E10, E11, E14, E16, E22, E23: rewards, masks, terminals, first visits and normalisation agree with mctx node by node."""
    check_mctx(case, np.float64, case["tolerance"]["value_abs"])


@pytest.mark.parametrize("case", [c for c in MCTX if c["float32_safe"]], ids=lambda case: case["id"])
def test_float32_trees_take_the_same_decisions(case: dict[str, Any]) -> None:
    check_mctx(case, np.float32, 2e-5)


def test_golden_trees_of_mctx(reference_cases: Path) -> None:
    golden = [c for c in json.loads((reference_cases / "trees.json").read_text())["cases"] if c["id"].startswith("golden/")]
    assert golden
    for case in golden:
        check_mctx(case, np.float64, case["tolerance"]["value_abs"])


@pytest.mark.parametrize("case", OPEN_SPIEL, ids=lambda case: case["id"])
def test_open_spiel_trees_are_replayed(case: dict[str, Any]) -> None:
    """E01: UCT explores with the logarithm of the parent's visits."""
    rows, tree = case["nodes"], Tree(dtype=np.float64)
    name = "uct" if case["rule"]["name"] == "openspiel_uct" else "puct"
    rule = Rule(name=name, exploration=case["rule"]["c"], revisit_terminals=True, terminal_by_outcome=True).params()
    row_of = {(row["p"], row["a"]): index for index, row in enumerate(rows)}
    row, action = {ROOT: 0}, {}

    for _ in range(case["num_simulations"]):
        node = tree.descend(rule)
        if tree.state(node) is State.NEW and tree.visits(node) > 0:
            first = tree.add_children(node, rows[row[node]]["prior"])
            for index, child in enumerate(tree.children(node).tolist()):
                action[child], row[child] = index, row_of[row[node], index]
                if rows[row[child]].get("t"):
                    tree.set_terminal(child)
            assert first == tree.size - len(rows[row[node]]["prior"])
            node = tree.select_child(node, rule)
        tree.backup(node, rows[row[node]]["v"])

    assert tree.size == len(rows)
    columns, at = tree.columns(), sorted(row, key=lambda node: row[node])
    assert columns["visits"][at].tolist() == case["expect"]["node_visits"]
    np.testing.assert_allclose(columns["value_sum"][at], case["expect"]["node_total_reward"], rtol=0, atol=1e-9)
    best = tree.most_visited(ROOT, outcomes_first=True)
    assert (action[best] if best >= 0 else None) == case["expect"]["best_action"]
