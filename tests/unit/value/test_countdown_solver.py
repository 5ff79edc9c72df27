"""The exhaustive solver: known states, limits and speed."""

from __future__ import annotations

import time

import pytest

from treewise.search.types import InputError, Problem, VerdictKind
from treewise.value.countdown_problems import generate
from treewise.value.countdown_solver import CountdownSolver
from treewise.value.countdown_task import CountdownTask


def test_one_number_reaches_itself_alone() -> None:
    assert CountdownSolver().reachable((7,)) == {7}


def test_two_numbers_by_hand() -> None:
    assert CountdownSolver().reachable((12, 4)) == {16, 8, 48, 3}
    assert CountdownSolver().reachable((150, 100)) == {50}
    assert CountdownSolver().reachable((0, 9)) == {9, 0}


def test_a_hard_classic_needs_a_fraction_and_is_unsolvable_in_integers() -> None:
    """3 3 8 8 -> 24 has the one solution 8 / (3 - 8 / 3): not an integer on the way."""
    assert not CountdownSolver().solvable((3, 3, 8, 8), 24)
    assert CountdownSolver().solution((3, 3, 8, 8), 24) is None
    assert CountdownSolver().solvable((4, 6, 7, 9), 24)


def test_numbers_out_of_range_are_refused() -> None:
    for numbers in ((), (201, 1), (-1, 2), tuple(range(1, 10))):
        with pytest.raises(InputError):
            CountdownSolver().reachable(numbers)


def test_six_numbers_in_under_fifty_milliseconds_each() -> None:
    problems = generate(30, numbers=6, seed=4)
    began = time.perf_counter()
    assert all(CountdownSolver().solvable(p.numbers, p.target or 0) for p in problems)
    assert (time.perf_counter() - began) / len(problems) < 0.05


@pytest.mark.parametrize("numbers", [3, 4, 5, 6])
def test_its_solutions_pass_the_task(numbers: int) -> None:
    solver, task = CountdownSolver(), CountdownTask()
    for problem in generate(40, numbers=numbers, seed=9):
        answer = solver.solution(problem.numbers, problem.target or 0)
        assert answer is not None
        assert task.verify(problem, answer, None).kind is VerdictKind.CORRECT


def test_the_solver_agrees_that_a_target_out_of_reach_has_no_solution() -> None:
    problem = Problem(id="a", text="", numbers=(1, 1), target=9)
    assert CountdownSolver().solution(problem.numbers, 9) is None
