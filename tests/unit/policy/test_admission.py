"""Which requests an engine gets next: all while memory is plenty, else problem after problem."""

from __future__ import annotations

from random import Random

import pytest

from treewise.policy import admission as module
from treewise.policy.admission import Admission
from treewise.search.types import StepRequest


def request(problem: int, *, path: int = 0, samples: int = 1, tokens: int = 8) -> StepRequest:
    ids = (problem, *range(100, 107 + path))  # a prompt of 8
    return StepRequest(ids, 8, tuple(range(samples)), tokens)


def take(admission: Admission) -> list[int]:
    found = []
    while (ticket := admission.next()) is not None:
        found.append(ticket)
    return found


def test_plenty_of_memory_lets_everything_go_at_once() -> None:
    admission = Admission(blocks=1000, block_size=8)
    for ticket in range(50):
        admission.add(ticket, request(ticket % 7, samples=4))
    assert sorted(take(admission)) == list(range(50))


def test_a_problem_goes_on_before_a_later_one_starts() -> None:
    """Ten blocks may be filled, five requests of two blocks. Problems 5 and 6 wait, and problem 0 comes before them again."""
    admission = Admission(blocks=20, block_size=8)
    for problem in range(7):
        admission.add(problem, request(problem, tokens=7))
    assert take(admission) == [0, 1, 2, 3, 4]
    admission.done(0, samples=1, tokens=2)
    admission.add(10, request(0, tokens=7))
    admission.add(11, request(2, tokens=7))
    assert take(admission) == [10]
    admission.done(3, samples=1, tokens=2)
    assert take(admission) == [11]
    for ticket in (1, 2):
        admission.done(ticket, samples=1, tokens=2)
    assert take(admission) == [5, 6]


def test_one_request_may_always_go() -> None:
    admission = Admission(blocks=2, block_size=8)
    for ticket in range(3):
        admission.add(ticket, request(ticket, path=100, samples=9))
    for ticket in range(3):
        assert take(admission) == [ticket]
        admission.done(ticket, samples=9, tokens=9)


def test_what_samples_are_expected_to_need_follows_those_before() -> None:
    """Limits are 800 tokens, 100 blocks; at first a quarter counts: 25 + 1 and the prompt's. Real ones have 15: 3 + 1 + 1."""
    admission = Admission(blocks=216, block_size=8)
    for ticket in range(40):
        admission.add(ticket, request(ticket, tokens=800))
    assert take(admission) == [0, 1, 2, 3]
    admission.done(0, samples=1, tokens=15)
    assert take(admission) == [*range(4, 4 + (108 - 3 * 27) // 5)]


@pytest.mark.parametrize("seed", range(5))
def test_the_limit_holds_and_nothing_is_lost(seed: int) -> None:
    """Random requests, returns and cancellations: never over the limit but for a lone request, and all come or were dropped."""
    random, admission, limit = Random(seed), Admission(blocks=40, block_size=8), 20
    waiting, held, seen, dropped = {}, {}, [], set()
    for ticket in range(300):
        made = request(random.randrange(9), path=random.randrange(60), samples=random.randint(1, 3), tokens=7)
        admission.add(ticket, made)
        waiting[ticket] = len(made.ids) // 8 + len(made.seeds)
        if random.random() < 0.2:
            victim = random.choice([*waiting, *held])
            admission.drop(victim)
            waiting.pop(victim, None)
            held.pop(victim, None)
            dropped.add(victim)
        for gone in take(admission):
            held[gone] = waiting.pop(gone)
            seen.append(gone)
        assert len(held) == 1 or sum(held.values()) <= limit
        assert held or not waiting
        for back in [t for t in held if random.random() < 0.5]:
            del held[back]
            admission.done(back, samples=1, tokens=7)
    while waiting:
        for back in held:
            admission.done(back, samples=1, tokens=7)
        held = {gone: waiting.pop(gone) for gone in take(admission)}
        seen += held
    assert len(set(seen)) == len(seen)
    assert set(seen) | dropped == set(range(300))


def test_a_ticket_can_be_used_again_after_it_was_dropped() -> None:
    admission = Admission(blocks=4, block_size=8)
    admission.add(0, request(0))
    assert take(admission) == [0]
    admission.add(1, request(1))
    admission.drop(1)
    admission.add(1, request(1))
    admission.done(0, samples=1, tokens=1)
    assert take(admission) == [1]
    admission.done(1, samples=1, tokens=1)
    assert take(admission) == []


def test_only_the_latest_problems_keep_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 2)
    admission = Admission(blocks=4, block_size=8)
    for ticket, problem in enumerate((0, 1, 2)):  # problem 0 is forgotten
        admission.add(ticket, request(problem))
    assert admission.next() == 0
    admission.add(3, request(0))
    for ticket in (0, 1, 2, 3):
        admission.done(ticket, samples=1, tokens=1)
        if ticket < 3:
            assert take(admission) == [ticket + 1]
    admission.clear()
    assert admission.next() is None
