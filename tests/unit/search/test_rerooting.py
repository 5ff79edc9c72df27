"""Re-rooting: what is kept is kept exactly, and what is left behind takes no memory (E31)."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from treewise.search.rules import Rule
from treewise.search.tree import ROOT, State, Tree
from treewise.search.types import InputError

RULE = Rule(exploration=1.3, widening_k=0).params()


def grown(seed: int, *, nodes: int = 300, edges: bool = False) -> Tree:
    """A tree of random shape, values, visits, copies and ends."""
    random, tree = Random(seed), Tree(dtype=np.float64, edges=edges)
    while tree.size < nodes:
        node = random.randrange(tree.size)
        if tree.state(node) is State.TERMINAL:
            continue
        weights = [random.random() for _ in range(random.randint(1, 4))]
        first = tree.add_children(node, weights, multiplicity=[random.randint(1, 3) for _ in weights])
        for child in range(first, tree.size):
            tree.set_value(child, random.random())
            if edges:
                tree.set_edge(child, reward=random.random(), discount=random.random())
            if random.random() < 0.2:
                tree.set_terminal(child)
            if random.random() < 0.7:
                tree.backup(child, random.random())
        if random.random() < 0.1:
            tree.close(node)
    return tree


def facts(tree: Tree, node: int) -> tuple[object, ...]:
    return (
        tree.state(node), tree.exhausted(node), tree.closed(node), tree.visits(node), repr(tree.mean(node)),
        repr(tree.variance(node)), repr(tree.value(node)), repr(tree.best(node)), tree.multiplicity(node),
        tree.prior(node).tolist(),
    )  # fmt: skip


@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_the_new_tree_is_the_old_one_below_the_node(seed: int, edges: bool) -> None:
    tree = grown(seed, edges=edges)
    inner = [node for node in range(1, tree.size) if tree.children(node).size]
    for node in (ROOT, *Random(seed).sample(inner, 5)):
        new, old = tree.subtree(node), tree.subtree_ids(node).tolist()
        waiting, below = [node], []
        while waiting:
            at = waiting.pop()
            below.append(at)
            waiting.extend(tree.children(at).tolist())
        assert old == sorted(below)
        assert len(new) == len(old)
        assert new.parent(ROOT) == -1
        for number, at in enumerate(old):
            assert facts(new, number) == facts(tree, at)
            assert [old[child] for child in new.children(number)] == tree.children(at).tolist()
            assert np.array_equal(new.scores(number, RULE), tree.scores(at, RULE))


def test_a_search_goes_on_in_it_as_it_would_have() -> None:
    tree = grown(3)
    node = max(range(1, tree.size), key=lambda n: -1 if tree.exhausted(n) else tree.subtree_ids(n).size)
    new, old = tree.subtree(node), tree.subtree_ids(node).tolist()
    for _ in range(50):
        here, there = new.descend(RULE), tree.descend(RULE, start=node)
        assert (old[here] if here >= 0 else -1) == there
        if here < 0:
            break
        for one, leaf in ((new, here), (tree, there)):
            if one.state(leaf) is State.NEW:
                one.set_terminal(leaf)
            one.backup(leaf, 0.3)


def test_nothing_is_held_for_what_is_left_behind() -> None:
    """E31: a reused tree that never drops unreachable branches grows until memory is full."""
    tree = Tree()
    for _ in range(200):
        first = tree.add_children(ROOT, np.ones(50))
        tree.backup(first, 0.5)
        tree = tree.subtree(first)
        first = tree.add_children(ROOT, np.ones(50))
        tree = tree.subtree(ROOT)
    assert tree.size == 51
    assert tree.nbytes() <= 48 * tree.size


def test_both_trees_live_on_by_themselves() -> None:
    tree = grown(5)
    node = int(tree.children(ROOT)[0])
    new, before = tree.subtree(node), facts(tree, node)
    new.backup(ROOT, 0.9)
    if not new.closed(ROOT) and new.state(ROOT) is not State.TERMINAL:
        new.add_children(ROOT, [1.0] * 100)
    assert facts(tree, node) == before


def test_a_long_chain_and_a_plain_leaf() -> None:
    tree = Tree()
    node = ROOT
    for _ in range(5000):
        node = tree.add_children(node, [1.0])
    assert len(tree.subtree(1)) == 5000
    assert tree.subtree(1).depth(4999) == 4999
    assert len(tree.subtree(node)) == 1


def test_what_is_under_way_is_not_torn_off() -> None:
    tree = grown(1)
    tree.mark(int(tree.children(ROOT)[0]))
    with pytest.raises(InputError, match="under way"):
        tree.subtree(ROOT)
