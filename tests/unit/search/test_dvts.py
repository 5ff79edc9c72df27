"""DVTS: subtrees that never compete."""

from __future__ import annotations

import pytest

from treewise.policy.scripted import ScriptedPolicy
from treewise.search.budget import Budget


@pytest.mark.parametrize(("beams", "width"), [(1, 4), (3, 2), (5, 3)])
def test_every_subtree_keeps_the_best_of_its_own_steps_whatever_the_others_have(world, levels, beams: int, width: int) -> None:
    policy = ScriptedPolicy(levels.few(levels.MANY))
    options = {"beams": beams, "width": width, "merge": "none", "prune": False, "problems": 1, "evaluator": levels.Valued()}
    search = world.run(budget=Budget(), method="dvts", policy=policy, **options)["p0"]
    tree = search.solutions.tree
    score = lambda node: levels.unique(search.solutions.path(node).text)  # noqa: E731
    children = tree.children(0).tolist()
    groups = [children[index * width : (index + 1) * width] for index in range(beams)]
    assert len(children) == beams * width
    for group in groups:
        for level in range(1, 6):
            assert len(group) == width
            best = max(group, key=score)
            assert [node for node in group if len(tree.children(node))] == ([best] if level < 5 else [])
            group = tree.children(best).tolist()
    finished = search.solutions.finished
    assert len(finished) == beams * width
    assert search.answer().node == max(finished, key=score)


def test_subtrees_with_the_same_first_step_draw_their_own_samples_below_it(world, levels) -> None:
    """One digit alone comes first, so the three subtrees begin in one node; below it each has its own two samples."""
    policy = ScriptedPolicy(lambda ids, seed: levels.few("4" if not levels.solution(ids) else "012345678")(ids, seed))
    options = {"beams": 3, "width": 2, "prune": False, "problems": 1, "evaluator": levels.Valued(), "task": world.Task(depth=2)}
    search = world.run(budget=Budget(), method="dvts", policy=policy, **options)["p0"]
    asked = [(r.ids, r.seeds) for _, r in policy.requests]
    assert [len(seeds) for _, seeds in asked] == [2] * 6
    assert len({seed for _, seeds in asked for seed in seeds}) == 12
    assert {levels.solution(ids) for ids, _ in asked[3:]} == {"4\n"}
    assert search.answer().finished
