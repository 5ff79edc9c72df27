"""Among equally good children MCTS favours none."""

from __future__ import annotations

import math

import pytest

from treewise.policy.scripted import ScriptedPolicy
from treewise.search.budget import Budget
from treewise.search.tree import ROOT


@pytest.mark.parametrize("rule", ["puct", "alphazero", "uct"])
def test_ties_go_to_no_favoured_child(world, rule: str) -> None:
    """E07: of four equal first steps each is the first to be followed in about a quarter of the problems."""

    def followed(**options: object) -> list[int]:
        found = world.run(
            budget=Budget(simulations=1),
            problems=400,
            policy=ScriptedPolicy(world.script(lambda ids, seed: "4")),
            task=world.Task(depth=2),
            width=4,
            merge="none",
            rule=rule,
            **options,
        )
        expanded = [[c for c in s.solutions.tree.children(ROOT).tolist() if s.solutions.tree.visits(c)] for s in found.values()]
        return [child for (child,) in expanded]

    drawn = followed()
    counts = [drawn.count(child) for child in (1, 2, 3, 4)]
    assert all(abs(count - 100) < 4 * math.sqrt(400 * 0.25 * 0.75) for count in counts), counts
    assert drawn == followed()
    assert drawn != followed(seed=1)
    assert set(followed(ties="first")) == {1}
