"""Hybrid: whole solutions first, then new ends for their prefixes, best first."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from treewise.policy.scripted import ScriptedPolicy
from treewise.search.budget import Budget


def turns(world, levels, **options):
    """Run it on chains of five digits; return the search and the prefixes in the order of their turns."""
    policy = ScriptedPolicy(levels.chains(levels.MANY, depth=5))
    options = {"merge": "none", "prune": False, "problems": 1, "evaluator": levels.Valued(), "policy": policy} | options
    search = world.run(method="hybrid", **options)["p0"]
    assert {request.steps for _, request in policy.requests} == {None}
    return search, levels.expanded(policy), policy


@pytest.mark.parametrize("samples", [1, 4, 9])
def test_the_first_wave_is_whole_solutions_in_one_round(world, levels, samples: int) -> None:
    search, asked, _ = turns(world, levels, budget=Budget(simulations=2 * samples), samples=samples, lanes=1, width=1)
    assert asked[0] == ("", samples)
    assert search.bill.simulations == 2 * samples
    assert search.bill.rounds == 1 + samples


def test_the_best_prefix_has_the_next_turn_and_none_a_second_before_all_had_one(world, levels) -> None:
    search, asked, _ = turns(world, levels, budget=Budget(simulations=60), samples=3, lanes=1, width=1)
    tree = search.solutions.tree
    texts = {node: search.solutions.path(node).text for node in range(tree.size)}
    had = Counter({"": 1})  # the first wave was the root's turn
    known = ["", *(texts[n] for n in range(1, tree.size) if n <= 15 and texts[n].count("\n") < 5)]
    born = 16
    for prefix, count in asked[1:]:
        worth = lambda text: (-had[text], levels.unique(text) if text else 0.5)  # noqa: E731
        assert prefix == max(known, key=worth)
        assert count == 1
        had[prefix] += 1
        steps = 5 - prefix.count("\n")
        known += [texts[n] for n in range(born, born + steps) if texts[n].count("\n") < 5]
        born += steps
    assert born == tree.size


@pytest.mark.parametrize(("lanes", "width"), [(1, 1), (2, 3), (4, 2)])
def test_so_many_prefixes_have_a_turn_at_once(world, levels, lanes: int, width: int) -> None:
    search, asked, _ = turns(world, levels, budget=Budget(simulations=400), samples=8, lanes=lanes, width=width)
    waves = (400 - 8) / (lanes * width)
    assert waves <= search.bill.rounds - 1 <= waves + 12  # fewer lanes at the very end
    assert {count for _, count in asked[1 : 1 + 8 * lanes]} == {width}


@pytest.mark.parametrize("tokens", [120, 400])
def test_at_most_half_of_the_budget_goes_to_the_first_wave(world, levels, tokens: int) -> None:
    task = world.Task()
    task.step_tokens, task.max_steps = 4, 5
    _, asked, _ = turns(world, levels, budget=Budget(tokens=tokens), samples=1000, task=task)
    wide = sum(count for prefix, count in itertools.takewhile(lambda share: not share[0], asked))
    assert tokens / 2 - 20 < wide * 20 <= tokens / 2
    assert sum(20 - 4 * prefix.count("\n") for prefix, count in asked for _ in range(count)) > tokens - 20


def test_a_prefix_that_brings_nothing_new_is_left(world, levels) -> None:
    """Two digits, two levels: six paths' nodes; then nothing new can come, and the search ends."""
    policy = ScriptedPolicy(levels.chains("01", depth=2))
    options = {"merge": "ids", "prune": False, "problems": 1, "evaluator": levels.Valued(), "task": world.Task(depth=2)}
    search = world.run(method="hybrid", budget=Budget(seconds=1000), policy=policy, **options)["p0"]
    assert search.solutions.tree.size == 1 + 2 + 4
    assert search.done
