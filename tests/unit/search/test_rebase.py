"""REBASE: shares by softmax, whole numbers that sum to the budget, widths that shrink with every path that ends."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treewise.policy.scripted import ScriptedPolicy
from treewise.search.budget import Budget
from treewise.search.rebase import apportioned, softmax
from treewise.search.types import Judgement, Standing

weights = st.lists(st.floats(0, 1), min_size=1, max_size=12).filter(lambda ws: sum(ws) > 0)


@given(weights, st.integers(0, 500))
def test_shares_sum_to_the_whole_and_are_within_one_of_exact(ws: list[float], total: int) -> None:
    shares = [w / sum(ws) for w in ws]
    counts = apportioned(shares, total)
    assert sum(counts) == total
    assert all(abs(count - share * total) < 1 + 1e-6 for count, share in zip(counts, shares, strict=True))


@given(weights, st.integers(0, 500))
def test_a_larger_share_never_gets_less(ws: list[float], total: int) -> None:
    shares = [w / sum(ws) for w in ws]
    counts = apportioned(shares, total)
    assert all(a >= b for (x, a) in zip(shares, counts, strict=True) for (y, b) in zip(shares, counts, strict=True) if x > y)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.01, 10))
def test_softmax_is_the_ratio_of_exponentials(scores: list[float], temperature: float) -> None:
    found = softmax(scores, temperature)
    assert sum(found) == pytest.approx(1)
    for one, p in zip(scores, found, strict=True):
        assert p == pytest.approx(1 / sum(math.exp((other - one) / temperature) for other in scores))


def test_softmax_at_the_ends() -> None:
    assert softmax([0.2, 0.9, 0.9], 0.0) == [0.0, 0.5, 0.5]
    assert softmax([0.0, 1.0], 1e-9) == [0.0, 1.0]
    assert softmax([0.0, 1.0], 1e9) == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("samples", [1, 5, 16, 33])
def test_each_level_has_as_many_samples_as_paths_have_not_ended(world, levels, samples: int) -> None:
    """A step `0` ends a path at once, a step `9` kills it; both take their sample with them. `samples` leaves in all."""

    class Task(world.Task):
        def judge(self, path):
            if path.texts[-1] == "0\n":
                return Judgement(Standing.FINISHED, answer=path.text.replace("\n", ""))
            return super().judge(path)

    policy = ScriptedPolicy(lambda ids, seed: world.random_digits(ids, seed)[:1])
    options = {"samples": samples, "merge": "none", "prune": False, "problems": 1, "evaluator": levels.Valued()}
    search = world.run(budget=Budget(), method="rebase", policy=policy, task=Task(), **options)["p0"]
    tree, standings = search.solutions.tree, search.solutions.standings
    nodes = range(1, tree.size)
    made = Counter(tree.depth(node) for node in nodes)
    ended = Counter(tree.depth(node) for node in nodes if standings[node] is not Standing.OPEN)
    if search.solutions.finished:  # else there was another pass
        assert made[1] == samples
        assert all(made[depth + 1] == made[depth] - ended[depth] for depth in made)
        assert ended.total() == samples == search.bill.simulations


def test_the_shares_of_a_level_are_those_of_its_scores(world, levels) -> None:
    """Two first steps worth 0.4 and 0.6; at temperature 0.1 the better one has 1 / (1 + exp(-2)) of 100 samples, 88."""
    value = lambda text: {"1\n": 0.4, "2\n": 0.6}.get(text, 0.5)  # noqa: E731
    policy = ScriptedPolicy(levels.few("12"))
    options = {"samples": 100, "problems": 1, "evaluator": levels.Valued(value), "task": world.Task(depth=2)}
    for temperature, better in ((None, 88), (0.1, 88), (0.2, 73), (0.0, 100), (1e6, 50)):
        policy.requests.clear()
        world.run(budget=Budget(), method="rebase", policy=policy, score_temperature=temperature, **options)
        assert dict(levels.expanded(policy)).get("2\n") == better, temperature
