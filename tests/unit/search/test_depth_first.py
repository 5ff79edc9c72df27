"""Depth first: the order of a plain recursion, and what becomes of steps below the threshold."""

from __future__ import annotations

import pytest

from treewise.policy.scripted import ScriptedPolicy
from treewise.search.budget import Budget
from treewise.search.seeds import sibling_seed
from treewise.search.types import SearchEnd


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_states_are_expanded_in_the_order_of_a_plain_recursion(world, levels, width: int, threshold: float) -> None:
    """Best child first; those below the threshold only after all others, the best of them first, each with all that is below."""
    policy = ScriptedPolicy(levels.few(levels.MANY))
    options = {"width": width, "threshold": threshold, "merge": "none", "prune": False, "problems": 1}
    options |= {"task": world.Task(depth=4), "evaluator": levels.Valued()}
    search = world.run(budget=Budget(tokens=1200), method="depth-first", policy=policy, **options)["p0"]
    tree, tokens = search.solutions.tree, search.solutions
    text = lambda node: tokens.path(node).text  # noqa: E731
    order, aside = [], []

    def explore(node: int) -> None:
        order.append(text(node))
        children = [c for c in tree.children(node).tolist()[:width] if text(c).count("\n") < 4]
        for child in sorted(children, key=lambda c: -levels.unique(text(c))):
            if levels.unique(text(child)) < threshold:
                aside.append(child)
            else:
                explore(child)

    explore(0)
    while aside:
        aside.sort(key=lambda node: levels.unique(text(node)))
        explore(aside.pop())
    made = [solution for solution, _ in levels.expanded(policy)]
    states = sum(width**depth for depth in range(4))
    assert len(made) >= min(states, 1200 // (4 * width) - 1)
    assert made[:states] == order[: len(made)][:states]
    assert sibling_seed(0, "p0", 0, 0) in policy.requests[0][1].seeds


def test_no_state_is_expanded_twice_in_a_pass(world, levels) -> None:
    """Copies of a step are one state. Three digits, three levels: 13 states, then the next pass begins."""
    policy = ScriptedPolicy(levels.few("012"))
    options = {"width": 12, "prune": False, "problems": 1, "task": world.Task(depth=3), "evaluator": levels.Valued()}
    search = world.run(budget=Budget(tokens=13 * 12 * 2 * 2), method="depth-first", policy=policy, **options)["p0"]
    made = [solution for solution, _ in levels.expanded(policy)]
    assert len(made[:13]) == len(set(made[:13])) == 13
    assert search.solutions.tree.size == 1 + 3 + 9 + 27


def test_it_ends_when_passes_bring_nothing_new(world, levels) -> None:
    policy = ScriptedPolicy(levels.few("012"))
    options = {"width": 12, "prune": False, "problems": 1, "task": world.Task(depth=2), "evaluator": levels.Valued()}
    search = world.run(budget=Budget(seconds=1000), method="depth-first", policy=policy, **options)["p0"]
    assert search.answer().end is SearchEnd.COMPLETE
    assert len(search.solutions.finished) == 9
