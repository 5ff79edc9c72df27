"""Particle filtering: systematic resampling against its closed form, dead particles, all of them dead."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from treewise.policy.scripted import ScriptedPolicy
from treewise.search.budget import Budget
from treewise.search.particles import log_odds, systematic
from treewise.search.types import Standing

weights = st.lists(st.integers(0, 20), min_size=1, max_size=10).filter(lambda ws: sum(ws) > 0)


@given(weights, st.integers(1, 200), st.floats(0, 1, exclude_max=True))
@example([1], 3, 1 - 2**-53)
@example([1, 1, 1, 0], 3, 1 - 2**-53)
def test_counts_sum_to_the_number_drawn_and_are_within_one_of_their_weights(ws: list[int], count: int, offset: float) -> None:
    shares = [w / sum(ws) for w in ws]
    drawn = systematic(shares, count, offset)
    assert sum(drawn) == count
    assert all(abs(k - count * w) < 1 + 1e-9 for k, w in zip(drawn, shares, strict=True))
    assert all(k == 0 for k, w in zip(drawn, shares, strict=True) if w == 0)


@given(weights, st.integers(1, 20))
def test_over_all_offsets_each_is_drawn_as_often_as_its_weight_says(ws: list[int], count: int) -> None:
    """The ends of the weights are multiples of 1 / sum, so the mean over so many offsets, at the middles, is the integral."""
    total = sum(ws)
    shares, sums = [w / total for w in ws], [0] * len(ws)
    for index in range(total):
        for place, k in enumerate(systematic(shares, count, (index + 0.5) / total)):
            sums[place] += k
    assert sums == [count * w for w in ws]


@given(weights, st.integers(1, 50), st.floats(0, 1, exclude_max=True))
def test_the_points_are_equally_far_apart(ws: list[int], count: int, offset: float) -> None:
    """Against the definition, with exact numbers: point i falls to the first weight whose sum is above it."""
    from fractions import Fraction

    total, exact = sum(ws), Fraction(offset)
    expected = [0] * len(ws)
    ends = [Fraction(sum(ws[: i + 1]), total) for i in range(len(ws))]
    points = [(i + exact) / count for i in range(count)]
    if any(abs(point - end) < Fraction(1, 10**9) for point in points for end in ends[:-1]):
        return  # a float may fall to either side
    for point in points:
        expected[next(place for place, end in enumerate(ends) if point < end)] += 1
    assert systematic([w / total for w in ws], count, offset) == expected


def test_log_odds() -> None:
    assert log_odds(0.5) == 0
    assert log_odds(0.8) == pytest.approx(math.log(4))
    assert log_odds(0.0) == pytest.approx(-log_odds(1.0))
    assert math.isfinite(log_odds(1.0))


@pytest.mark.parametrize("temperature", [None, 1.0, 0.5])
def test_a_level_is_drawn_by_the_odds_of_its_scores(world, levels, temperature: float | None) -> None:
    """Two first steps, 0.5 and 0.8: odds 1 and 4. With n of one and m of the other, the better one has 4m / (n + 4m) of the
    weight (16m at temperature 1/2), and the draw is within one of that."""
    value = lambda text: {"1\n": 0.5, "2\n": 0.8}.get(text, 0.5)  # noqa: E731
    odds = 16 if temperature == 0.5 else 4
    for seed in range(8):
        policy = ScriptedPolicy(levels.few("12"))
        options = {"samples": 40, "problems": 1, "evaluator": levels.Valued(value), "task": world.Task(depth=2), "seed": seed}
        search = world.run(budget=Budget(), method="particles", policy=policy, score_temperature=temperature, **options)["p0"]
        tree = search.solutions.tree
        worse, better = sorted(tree.children(0).tolist(), key=lambda n: search.solutions.path(n).text)
        n, m = tree.multiplicity(worse), tree.multiplicity(better)
        drawn = dict(levels.expanded(policy))
        assert drawn.get("1\n", 0) + drawn["2\n"] == 40
        assert abs(drawn["2\n"] - 40 * odds * m / (n + odds * m)) < 1


def test_dead_particles_are_replaced_by_living_ones(world, levels) -> None:
    """A third of all steps is dead, and every level has its twelve particles all the same, until they finish together."""
    policy = ScriptedPolicy(levels.few("149"))
    options = {"samples": 12, "merge": "none", "prune": False, "problems": 5, "evaluator": levels.Valued()}
    for search in world.run(budget=Budget(), method="particles", policy=policy, **options).values():
        tree, standings = search.solutions.tree, search.solutions.standings
        assert Counter(tree.depth(node) for node in range(1, tree.size)) == dict.fromkeys(range(1, 6), 12)
        assert all(standings[tree.parent(node)] is Standing.OPEN for node in range(1, tree.size))
        assert search.answer().finished


def test_finished_particles_stay_in_the_draw_and_are_not_moved(world, levels) -> None:
    from treewise.search.types import Judgement

    class Task(world.Task):
        def judge(self, path):
            if path.texts[-1] == "0\n":
                return Judgement(Standing.FINISHED, answer=path.text.replace("\n", ""))
            return super().judge(path)

    policy = ScriptedPolicy(levels.few("02"))
    value = lambda text: 0.75 if text.endswith("0\n") else 0.5  # noqa: E731
    options = {"samples": 60, "merge": "none", "problems": 1, "evaluator": levels.Valued(value), "task": Task()}
    world.run(budget=Budget(), method="particles", policy=policy, **options)
    moved = Counter()
    for text, count in levels.expanded(policy):
        moved[text.count("\n")] += count
    assert moved[0] == 60
    # About 30 have finished with odds 3 against 1 of the 30 others: 15 of 60 go on, then about 60 * 7.5 / (7.5 + 3 * 52.5) = 3.
    assert 8 <= moved[1] <= 22
    assert moved[2] <= 8


@pytest.mark.parametrize("lived", [0, 1, 2, 3])
def test_when_all_are_dead_the_last_level_that_lived_moves_on_once_more(world, levels, lived: int) -> None:
    """The first eight steps at one depth are dead, and none after: no other level is drawn again."""
    met = Counter()

    def script(ids, seed):
        depth = levels.solution(ids).count("\n")
        met[depth] += 1
        return levels.few("9" if depth == lived and met[depth] <= 8 else "1234")(ids, seed)

    options = {"samples": 8, "merge": "none", "problems": 1, "evaluator": levels.Valued(), "prune": False}
    search = world.run(budget=Budget(), method="particles", policy=ScriptedPolicy(script), **options)["p0"]
    assert search.answer().finished
    assert met == {depth: 16 if depth == lived else 8 for depth in range(5)}


def test_when_that_is_dead_again_the_level_before_moves_on(world, levels) -> None:
    """Two waves at depth 3 are dead: after the second the particles at depth 2 move again, and what they bring lives."""
    met = Counter()

    def script(ids, seed):
        depth = levels.solution(ids).count("\n")
        met[depth] += 1
        return levels.few("9" if depth == 3 and met[depth] <= 16 else "1234")(ids, seed)

    options = {"samples": 8, "merge": "none", "problems": 1, "evaluator": levels.Valued(), "prune": False}
    search = world.run(budget=Budget(), method="particles", policy=ScriptedPolicy(script), **options)["p0"]
    assert search.answer().finished
    assert met == {0: 8, 1: 8, 2: 16, 3: 24, 4: 8}
