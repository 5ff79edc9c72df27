"""Arms: what they hold against lists of scores walked anew, what is drawn against draws by another generator, bounds, ends."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import numpy as np
import pytest

from treewise.search import thompson
from treewise.search.arms import CONTINUE, GENERATE, Arms

BACKUPS = ("best", "all")


class Listed:
    """The same by definition: every score kept, every question answered by walking all of them."""

    def __init__(self, backup: str) -> None:
        self.backup = backup
        self.parent, self.score, self.open = {0: -1}, {0: math.nan}, {0: True}
        self.made: dict[int, list[float]] = {0: []}

    def add(self, parent: int, child: int, score: float, *, open_: bool) -> None:
        self.parent[child], self.score[child], self.open[child], self.made[child] = parent, score, open_, []
        self.made[parent].append(score)

    def children(self, node: int) -> list[int]:
        return [c for c, p in self.parent.items() if p == node]

    def below(self, node: int) -> list[float]:
        """Scores of all descendants."""
        return self.made[node] + [x for c in self.children(node) for x in self.below(c)]

    def expected(self, scores: list[float]) -> float:
        kappa = thompson.PRIOR_COUNT
        return (kappa * thompson.PRIOR_MEAN + sum(scores)) / (kappa + len(scores))

    def arm(self, node: int) -> list[float]:
        if self.backup == "all":
            return self.below(node)
        sides = [side for side in (self.made[node], self.held(node)) if side]
        return [self.score[node], *max(sides, key=self.expected, default=[])]

    def held(self, node: int) -> list[float]:
        """What CONTINUE holds."""
        if self.backup == "all":
            return [x for c in self.children(node) for x in self.below(c)]
        return max((self.arm(c) for c in self.children(node) if self.open[c]), key=self.expected, default=[])


def grown(backup: str, *, nodes: int, seed: int) -> tuple[Arms, Listed]:
    """A random tree in both; a quarter of the nodes end at once."""
    random = Random(seed)
    arms, listed = Arms(backup=backup), Listed(backup)  # type: ignore[arg-type]
    for child in range(1, nodes):
        parent = random.choice([n for n, is_open in listed.open.items() if is_open])
        score, is_open = random.random(), random.random() < 0.75
        listed.add(parent, child, score, open_=is_open)
        if is_open:
            arms.add(parent, child, score)
        arms.tell(parent, score)
    return arms, listed


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("backup", BACKUPS)
def test_arms_hold_what_walking_all_scores_gives(backup: str, seed: int) -> None:
    arms, listed = grown(backup, nodes=60, seed=seed)
    for node in (n for n, is_open in listed.open.items() if is_open):
        for arm, scores in ((GENERATE, listed.made[node]), (CONTINUE, listed.held(node)), (0, listed.arm(node))):
            if node == 0 and arm == 0:
                continue
            expected = (len(scores), sum(scores), sum(x * x for x in scores))
            assert arms.scores(node, arm) == pytest.approx(expected, abs=1e-12), (node, arm)


def drawn(scores: list[float], pending: int, *, size: int, seed: int) -> np.ndarray:
    """Student t draws of the posterior mean by numpy."""
    kappa, nu = thompson.PRIOR_COUNT + len(scores), thompson.PRIOR_FREEDOM + len(scores)
    m = (thompson.PRIOR_COUNT * thompson.PRIOR_MEAN + sum(scores)) / kappa
    square = thompson.PRIOR_FREEDOM * thompson.PRIOR_SQUARE + sum((x - m) ** 2 for x in scores)
    square += thompson.PRIOR_COUNT * (thompson.PRIOR_MEAN - m) ** 2
    generator = np.random.default_rng(seed)
    return m + math.sqrt(square / nu / (kappa + pending)) * generator.standard_t(nu + pending, size)


@pytest.mark.parametrize("pending", [(0, 0), (40, 0), (0, 40)], ids=["idle", "new under way", "old under way"])
def test_each_arm_is_chosen_as_often_as_its_draw_is_the_highest(pending: tuple[int, int]) -> None:
    """One node with children 1 and 2; child 2 has a child of its own."""
    here, below = pending
    arms = Arms(seed=3)
    for parent, child, score in ((0, 1, 0.62), (0, 2, 0.5), (2, 3, 0.66)):
        arms.add(parent, child, score)
        arms.tell(parent, score)
    arms.close(1)  # ended: child 2 is the only one to enter
    for node, times in ((0, here), (2, below)):
        for _ in range(times):
            arms.start(node)
    size = 20_000
    share = np.mean([arms.decide(number) != 0 for number in range(size)])
    new = drawn([0.62, 0.5], here, size=400_000, seed=1)
    old = drawn([0.5, 0.66], below, size=400_000, seed=2)  # child 2's own score and the one below it
    assert share == pytest.approx(np.mean(old > new), abs=5 * 0.5 / math.sqrt(size))


def test_work_under_way_changes_how_often_an_arm_is_chosen() -> None:
    arms = Arms(seed=5)
    arms.add(0, 1, 0.45)
    arms.tell(0, 0.6)
    before = sum(arms.decide(number) == 1 for number in range(4000))
    for _ in range(30):
        arms.start(1)
    during = sum(arms.decide(number) == 1 for number in range(4000))
    for _ in range(30):
        arms.end(1)
    assert arms.pending() == 0
    assert sum(arms.decide(number) == 1 for number in range(4000)) == before
    assert abs(during - before) > 200


@pytest.mark.parametrize("backup", BACKUPS)
@pytest.mark.parametrize("posterior", ["gaussian", "beta"])
def test_good_children_are_entered_and_bad_ones_are_not(posterior: str, backup: str) -> None:
    arms = Arms(posterior=posterior, backup=backup, seed=1)  # type: ignore[arg-type]
    arms.add(0, 1, 0.7)
    arms.add(0, 2, 0.2)
    arms.tell(0, 0.3)
    for child, score in ((1, 0.7), (2, 0.1)):
        for _ in range(20):
            arms.tell(child, score)
    for _ in range(20):
        arms.tell(0, 0.25)
    chosen = Counter(arms.decide(number) for number in range(500))
    assert chosen[1] > 400
    for _ in range(200):
        arms.tell(0, 0.99)
    assert Counter(arms.decide(number) for number in range(500))[0] > 400


def test_a_child_is_chosen_as_often_as_its_draw_is_the_highest_of_the_children() -> None:
    """GENERATE is closed; child 1 is the better one by its score, child 2 has much under way."""
    arms = Arms(seed=4)
    for child, score in ((1, 0.6), (2, 0.5)):
        arms.add(0, child, score)
    arms.close(0)
    for _ in range(40):
        arms.start(2)
    size = 20_000
    share = np.mean([arms.decide(number) == 2 for number in range(size)])
    first, second = drawn([0.6], 0, size=400_000, seed=1), drawn([0.5], 40, size=400_000, seed=2)
    assert share == pytest.approx(np.mean(second > first), abs=5 * 0.5 / math.sqrt(size))


def test_a_child_with_work_under_way_stays_in_the_draw() -> None:
    arms = Arms(seed=2, most=2)
    arms.add(0, 1, 0.1)
    arms.start(1)
    arms.add(0, 2, 0.2)
    arms.add(0, 3, 0.3)  # the draw is full: 2 goes, though 1 has the lowest score
    arms.close(0)
    assert {arms.decide(number) for number in range(3000)} == {1, 3}


def test_a_closed_node_ends_with_its_last_child() -> None:
    arms = Arms(seed=2)
    for parent, child in ((0, 1), (1, 2), (0, 3)):
        arms.add(parent, child, 0.5)
    arms.close(0)
    arms.close(1)
    assert {arms.decide(number) for number in range(200)} == {2, 3}
    arms.close(2)
    assert {arms.decide(number) for number in range(200)} == {3}
    arms.close(3)
    assert arms.decide(0) == -1


def test_only_the_best_children_are_in_the_draw_and_all_have_their_turn() -> None:
    arms = Arms(seed=2, most=4)
    scores = [0.1, 0.9, 0.3, 0.8, 0.2, 0.7, 0.6, 0.4, 0.5, 0.05]
    for index, score in enumerate(scores):
        arms.add(0, 1 + index, score)
        arms.tell(0, score)
    arms.close(0)
    best = {1 + i for i in sorted(range(10), key=lambda i: -scores[i])[:4]}
    assert {arms.decide(number) for number in range(2000)} == best
    seen = []
    while (node := arms.decide(len(seen))) >= 0:
        seen.append(node)
        arms.close(node)
    assert sorted(seen) == list(range(1, 11))
    assert set(seen[:4]) == best


def test_a_child_set_aside_that_ends_there_does_not_come_back() -> None:
    arms = Arms(seed=2, most=1)
    for child, score in ((1, 0.2), (2, 0.9)):
        arms.add(0, child, score)
    assert arms.decide(0, start=1) == 1
    arms.close(1)
    assert arms.decide(0, start=1) == -1
    arms.close(0)
    arms.close(2)
    assert arms.decide(0) == -1


@pytest.mark.parametrize("backup", BACKUPS)
def test_what_is_used_up_is_left_and_the_root_last(backup: str) -> None:
    arms, listed = grown(backup, nodes=40, seed=9)
    open_nodes = [n for n, is_open in listed.open.items() if is_open]
    for count, node in enumerate(sorted(open_nodes, reverse=True)):
        assert arms.decide(count) >= 0
        assert node == 0 or arms.decide(count, start=node) >= 0
        arms.close(node)  # children have higher ids: all below is closed by now
        assert arms.decide(count, start=node) == -1
    assert arms.decide(0) == -1


def test_decisions_follow_from_seed_and_number() -> None:
    def decisions(seed: int) -> list[int]:
        arms = Arms(seed=seed)
        for child in range(1, 9):
            arms.add(child // 3, child, 0.5)
            arms.tell(child // 3, 0.5)
        return [arms.decide(number) for number in range(200)]

    assert decisions(1) == decisions(1)
    assert decisions(1) != decisions(2)
    assert len(set(decisions(1))) > 3
