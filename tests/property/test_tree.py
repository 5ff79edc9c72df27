"""The tree against a plain recursive model: after any mix of operations every statistic equals its definition."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from treewise.search.rules import Rule
from treewise.search.tree import ROOT, State, Tree


@dataclass
class Model:
    """One node of the model, with everything that happened to it."""

    weight: float = 1.0
    copies: int = 1
    parent: Model | None = None
    children: list[Model] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)
    value: float | None = None
    terminal: bool = False
    closed: bool = False
    marks: int = 0

    def exhausted(self) -> bool:
        return self.terminal or (self.closed and all(c.exhausted() for c in self.children))

    def best(self) -> float | None:
        for wanted in (False, True):
            values = [b for c in self.children if c.exhausted() is wanted and (b := c.best()) is not None]
            if values:
                return max(values)
        if self.value is not None:
            return self.value
        return math.fsum(self.returns) / len(self.returns) if self.returns else None

    def prior(self) -> float:
        if self.parent is None:
            return 1.0
        mass = math.fsum(s.weight for s in self.parent.children)
        return self.weight / mass if mass > 0 else 1 / len(self.parent.children)

    def q(self, own_weight: float) -> float | None:
        total, count = math.fsum(self.returns), float(len(self.returns))
        if self.value is not None:
            total, count = total + own_weight * self.value, count + own_weight
        return total / count if count else None

    def in_flight(self) -> int:
        return self.marks + sum(c.in_flight() for c in self.children)

    def path(self) -> list[Model]:
        return [self] if self.parent is None else [*self.parent.path(), self]


def puct(node: Model, rule: Rule) -> list[float]:
    """PUCT written out from its definition."""
    total = max(rule.total_floor, len(node.returns) + node.in_flight())
    own = node.q(rule.own_weight)
    known = [c for c in node.children if c.q(rule.own_weight) is not None]
    found = []
    for child in node.children:
        q = child.q(rule.own_weight)
        if q is None and rule.first_play == "absolute":
            q = rule.first_play_value
        elif q is None and own is None:
            q = 0.0
        elif q is None:
            q = own
        if child not in known and rule.first_play == "reduction":
            q -= rule.first_play_value * math.sqrt(math.fsum(c.prior() for c in known))
        bonus = rule.exploration * child.prior() * math.sqrt(total) / (1 + len(child.returns) + child.in_flight())
        found.append(q + bonus)
    return found


VALUES = st.floats(0, 1, allow_subnormal=False)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("expand"), st.integers(0, 10**6), st.lists(st.floats(0, 5), min_size=1, max_size=4)),
        st.tuples(st.just("copy"), st.integers(0, 10**6), st.floats(0, 2)),
        st.tuples(st.sampled_from(["value", "backup"]), st.integers(0, 10**6), VALUES),
        st.tuples(st.sampled_from(["terminal", "close", "mark", "unmark"]), st.integers(0, 10**6), st.none()),
    ),
    max_size=60,
)


def build(operations: list[tuple[str, int, object]]) -> tuple[Tree, list[Model]]:
    """Apply the operations to both; those that the tree refuses by contract are left out."""
    tree, nodes = Tree(capacity=1, dtype=np.float64), [Model()]
    for name, pick, given_value in operations:
        at = pick % len(nodes)
        node = nodes[at]
        if name == "expand" and not node.terminal:
            assert isinstance(given_value, list)
            tree.add_children(at, given_value)
            for weight in given_value:
                child = Model(weight, parent=node)
                node.children.append(child)
                nodes.append(child)
        elif name == "copy" and at != ROOT:
            assert isinstance(given_value, float)
            tree.add_multiplicity(at, given_value)
            node.weight += given_value
            node.copies += 1
        elif name == "value":
            assert isinstance(given_value, float)
            tree.set_value(at, given_value)
            node.value = given_value
        elif name == "backup":
            assert isinstance(given_value, float)
            tree.backup(at, given_value)
            for above in node.path():
                above.returns.append(given_value)
        elif name == "terminal" and not node.children:
            tree.set_terminal(at)
            node.terminal = True
        elif name == "close":
            tree.close(at)
            node.closed = True
        elif name == "mark":
            tree.mark(at)
            node.marks += 1
        elif name == "unmark" and node.marks:
            tree.unmark(at)
            node.marks -= 1
    return tree, nodes


def or_nan(number: float | None) -> float:
    return math.nan if number is None else number


@given(OPERATIONS)
@settings(max_examples=150)
def test_statistics_equal_their_definitions(operations: list[tuple[str, int, object]]) -> None:
    """Nothing but what happened to a node and below it decides its numbers."""
    tree, nodes = build(operations)
    columns = tree.columns()
    assert tree.size == len(nodes)
    assert columns["visits"].tolist() == [len(n.returns) for n in nodes]
    assert columns["multiplicity"].tolist() == [n.copies for n in nodes]
    assert columns["exhausted"].tolist() == [n.exhausted() for n in nodes]
    assert [tree.state(i) is State.EXPANDED for i in range(len(nodes))] == [bool(n.children) for n in nodes]
    assert [tree.in_flight(i) for i in range(len(nodes))] == [n.in_flight() for n in nodes]
    np.testing.assert_allclose(columns["value_sum"], [math.fsum(n.returns) for n in nodes], atol=1e-12)
    np.testing.assert_allclose(columns["best"], [or_nan(n.best()) for n in nodes], atol=1e-12)
    np.testing.assert_allclose(columns["prior"], [n.prior() for n in nodes], atol=1e-12)


@given(
    OPERATIONS,
    st.builds(
        Rule,
        name=st.just("puct"),
        exploration=st.floats(0, 5),
        first_play=st.sampled_from(["absolute", "parent", "reduction"]),
        first_play_value=st.floats(-1, 1),
        own_weight=st.sampled_from([0.0, 0.5, 1.0]),
        total_floor=st.sampled_from([0.0, 1.0]),
        tie_seed=st.integers(0, 2**63 - 1),
    ),
)
@settings(max_examples=150)
def test_the_chosen_child_has_the_highest_score_of_those_left(operations: list[tuple[str, int, object]], rule: Rule) -> None:
    """E25, E28, S14: scores equal the formula; exhausted children are never chosen; -1 only when none is left."""
    tree, nodes = build(operations)
    identity = {id(node): index for index, node in enumerate(nodes)}
    for index, node in enumerate(nodes):
        if not node.children:
            continue
        expected = puct(node, rule)
        np.testing.assert_allclose(tree.scores(index, rule.params()), expected, atol=1e-9)
        chosen = tree.select_child(index, rule.params())
        left = {identity[id(c)]: s for c, s in zip(node.children, expected, strict=True) if not c.exhausted()}
        if not left:
            assert chosen == -1
        else:
            assert left[chosen] >= max(left.values()) - 1e-9


@given(OPERATIONS)
@settings(max_examples=100)
def test_a_descent_ends_where_work_is_wanted_and_changes_nothing(operations: list[tuple[str, int, object]]) -> None:
    tree, nodes = build(operations)
    before = tree.columns()
    node = tree.descend(Rule().params())
    if node < 0:
        assert nodes[ROOT].exhausted()
    else:
        assert not nodes[node].exhausted()
        assert not nodes[node].children or (not nodes[node].closed and all(c.exhausted() for c in nodes[node].children))
    after = tree.columns()
    assert all(np.array_equal(before[name], after[name], equal_nan=before[name].dtype.kind == "f") for name in before)
