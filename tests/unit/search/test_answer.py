"""Answers by every rule, on candidates whose right answer is plain."""

from __future__ import annotations

import math

import pytest

from treewise.search.answer import Candidate, aggregate, choose

LOW = Candidate(1, "5", (0.9, 0.2), (9, 3), copies=3)
HIGH = Candidate(2, "7", (0.3, 0.8), (4, 2))
SAME = Candidate(3, "7", (0.6, 0.6), (9, 5))


def test_nothing_finished_gives_nothing() -> None:
    """S07, S25: no candidate is no answer and no error."""
    assert choose([], choice="value") is None


@pytest.mark.parametrize(
    ("choice", "aggregation", "node"),
    [
        ("value", "last", 2),
        ("value", "min", 3),
        ("value", "product", 3),
        ("planned", "last", 2),
        ("visits", "last", 3),
        ("majority", "last", 1),
        ("weighted-majority", "last", 2),
    ],
)
def test_each_rule_picks_its_candidate(choice, aggregation, node: int) -> None:
    """S08: most visits is a path. Products: 0.18, 0.24, 0.36; votes for 5: 3, for 7: 2; weighted: 0.6 against 1.4."""
    chosen = choose([LOW, HIGH, SAME], choice=choice, aggregation=aggregation)
    assert chosen is not None
    assert chosen.candidate.node == node


def test_the_most_visited_path_is_followed_level_by_level() -> None:
    broad = Candidate(1, "a", (0.1, 0.1), (10, 4))
    other = Candidate(2, "b", (0.1, 0.1), (10, 6))
    late = Candidate(3, "c", (0.9, 0.9), (9, 9))
    chosen = choose([broad, other, late], choice="visits")
    assert chosen is not None
    assert chosen.candidate.node == 2


def test_ties_go_by_the_seed_and_not_by_order() -> None:
    """E07: among equals no position is favoured."""
    equal = [Candidate(node, str(node), (0.5,), (1,)) for node in range(1, 9)]
    picks = [choose(equal, choice="value", seed=seed) for seed in range(400)]
    nodes = [pick.candidate.node for pick in picks if pick is not None]
    assert set(nodes) == set(range(1, 9))
    assert choose(equal, choice="value", seed=7) == choose(equal[::-1], choice="value", seed=7)


def test_unvalued_steps_are_left_out_of_the_aggregate() -> None:
    assert aggregate((math.nan, 0.5, math.nan, 0.4), "product") == pytest.approx(0.2)
    with pytest.raises(ValueError, match="no value"):
        aggregate((math.nan,), "last")
