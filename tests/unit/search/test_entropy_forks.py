"""Entropy-forked sampling: where solutions are forked, and into how many leaves."""

from __future__ import annotations

import math

import pytest

from treewise.policy.scripted import ScriptedPolicy
from treewise.search.budget import Budget
from treewise.search.types import Finish, SearchEnd, Step


def surprising(levels, *, depth: int = 5):
    """Whole solutions of digits; the two tokens of a step have log-probabilities drawn by its text and place."""

    def script(ids, seed):
        done = levels.solution(ids)
        steps = []
        for index in range(depth - done.count("\n")):
            text = f"{(seed >> 8 * index) % 251 % 200 + 100}\n".replace("9", "8")
            done += text
            steps.append(Step(tuple(text.encode()), (*surprisals(levels, done), 0.0, 0.0), text, Finish.SEPARATOR))
        return tuple(steps)

    return script


def surprisals(levels, text: str) -> tuple[float, float]:
    """Log-probabilities of the tokens of the last step of a solution."""
    return -3 * levels.unique(text), -3 * levels.unique(text + "second")


def run(world, levels, **options):
    policy = ScriptedPolicy(surprising(levels))
    options = {"merge": "none", "prune": False, "problems": 1, "evaluator": levels.Valued(), "policy": policy} | options
    return world.run(method="entropy-forks", **options)["p0"], policy


@pytest.mark.parametrize(("samples", "forks", "width"), [(1, 1, 1), (6, 2, 2), (3, 4, 1), (2, 9, 2)])
def test_one_round_has_the_leaves_of_the_paper(world, levels, samples: int, forks: int, width: int) -> None:
    """S65: M (1 + N T) leaves as the paper counts them, and never more forks than steps."""
    search, policy = run(world, levels, budget=Budget(), samples=samples, forks=forks, width=width)
    forks = min(forks, 5)
    assert search.answer().end is SearchEnd.COMPLETE
    assert len(search.solutions.finished) == samples * (1 + forks * width) == search.bill.simulations
    assert search.bill.rounds == 2
    assert [len(r.seeds) for _, r in policy.requests] == [samples] + [width] * (samples * forks)


def test_the_forks_are_before_the_most_surprising_steps_of_each_solution(world, levels) -> None:
    search, policy = run(world, levels, budget=Budget(), samples=4, forks=2, width=1)
    tree = search.solutions.tree
    expected = []
    for first in search.solutions.finished[:4]:
        path = tree.path(first)[1:].tolist()
        texts = {node: search.solutions.path(node).text for node in path}
        most = sorted(path, key=lambda node: min(surprisals(levels, texts[node])))[:2]
        expected += [search.solutions.path(tree.parent(node)).text for node in most]
    assert sorted(text for text, _ in levels.expanded(policy)[1:]) == sorted(expected)


def test_with_a_limit_rounds_follow_and_no_step_is_forked_twice(world, levels) -> None:
    """Three rounds of two forks for each of three solutions: against the rule written out, on the tree that came of it."""
    rounds, samples, forks = 3, 3, 2
    paths = samples * (1 + forks * rounds)
    search, policy = run(world, levels, budget=Budget(simulations=paths), samples=samples, forks=forks, width=1)
    assert search.answer().end is SearchEnd.BUDGET
    assert search.bill.rounds == 1 + rounds
    tree = search.solutions.tree
    steps = {node: min(surprisals(levels, search.solutions.path(node).text)) for node in range(1, tree.size)}
    ends = [tree.path(node)[1:].tolist() for node in search.solutions.finished]
    trees, forked, asked = [set(path) for path in ends[:samples]], set(), levels.expanded(policy)[1:]
    for number in range(rounds):
        chosen = {}
        for owner, mine in enumerate(trees):
            chosen |= dict.fromkeys(sorted(mine - forked, key=lambda node: steps[node])[:forks], owner)
        forked |= set(chosen)
        order = sorted(chosen, key=lambda node: steps[node])
        now = asked[number * samples * forks :][: samples * forks]
        assert [text for text, _ in now] == [search.solutions.path(tree.parent(node)).text for node in order]
        for node, path in zip(order, ends[samples * (1 + forks * number) :], strict=False):
            trees[chosen[node]] |= set(path)


def test_the_surprisal_of_a_step_is_that_of_its_most_surprising_token(world, levels) -> None:
    search, _ = run(world, levels, budget=Budget(), samples=2, forks=1, width=1)
    for node in range(1, search.solutions.tree.size):
        text = search.solutions.path(node).text
        assert search.surprisal(node) == pytest.approx(-min(surprisals(levels, text)), rel=1e-6)
    assert search.surprisal(0) == 0  # a prompt has none


def test_without_log_probabilities_it_forks_all_the_same(world, levels) -> None:
    def silent(ids, seed):
        return tuple(Step(s.ids, (math.nan,) * len(s.ids), s.text, s.finish) for s in levels.chains("0123", depth=5)(ids, seed))

    search, _ = run(world, levels, budget=Budget(), samples=2, policy=ScriptedPolicy(silent))
    assert len(search.solutions.finished) == 2 * (1 + 2 * 2)
