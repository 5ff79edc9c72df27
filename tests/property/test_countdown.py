"""Countdown as a whole: solver against brute force, generated problems, steps to expression and back, the training text."""

from __future__ import annotations

import hashlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from treewise.search.types import Finish, Path, Problem, Standing, VerdictKind
from treewise.training.countdown_corpus import BOS, EOS, VOCABULARY, random_solutions, token_rows
from treewise.value.countdown_problems import generate, problem_text
from treewise.value.countdown_solver import CountdownSolver
from treewise.value.countdown_task import CountdownTask
from treewise.value.expressions import parse

TASK = CountdownTask()


def brute_force(numbers: tuple[int, ...]) -> set[int]:
    """Every legal end, by trying each operation on each ordered pair, with rational arithmetic from Python itself."""
    if len(numbers) == 1:
        return {numbers[0]}
    found: set[int] = set()
    for i, a in enumerate(numbers):
        for j, b in enumerate(numbers):
            if i == j:
                continue
            rest = tuple(n for k, n in enumerate(numbers) if k not in (i, j))
            results = [a + b, a - b, a * b] + ([a // b] if b and a % b == 0 else [])
            for result in results:
                if 0 <= result <= 200:
                    found |= brute_force((*rest, result))
    return found


def walk(numbers: tuple[int, ...], choose: st.DataObject) -> tuple[list[str], int]:
    """Random legal steps as text, and the number they end in."""
    pool, steps = list(numbers), []
    while len(pool) > 1:
        legal = []
        for i in range(len(pool)):
            for j in range(len(pool)):
                a, b = pool[i], pool[j]
                if i != j:
                    options = [("+", a + b), ("-", a - b), ("*", a * b)] + ([("/", a // b)] if b and a % b == 0 else [])
                    legal += [(i, j, sign, result) for sign, result in options if 0 <= result <= 200]
        i, j, sign, result = choose.draw(st.sampled_from(legal))
        line = f"{pool[i]} {sign} {pool[j]} = {result}"
        pool = [n for k, n in enumerate(pool) if k not in (i, j)] + [result]
        steps.append(f"{line} left {' '.join(map(str, pool))}\n")
    return steps, pool[0]


@given(st.lists(st.integers(0, 200), min_size=1, max_size=3))
def test_solver_agrees_with_brute_force(numbers: list[int]) -> None:
    assert CountdownSolver().reachable(numbers) == brute_force(tuple(numbers))


@given(st.lists(st.integers(0, 30), min_size=4, max_size=4))
def test_solver_agrees_with_brute_force_on_four_numbers(numbers: list[int]) -> None:
    assert CountdownSolver().reachable(numbers) == brute_force(tuple(numbers))


@given(st.integers(3, 6), st.integers(0, 2**40), st.sampled_from(["train", "validation", "test"]))
def test_generated_problems_are_solvable(numbers: int, seed: int, split: str) -> None:
    solver = CountdownSolver()
    for problem in generate(3, numbers=numbers, split=split, seed=seed):  # type: ignore[arg-type]
        assert solver.solvable(problem.numbers, problem.target or 0)


@given(st.lists(st.integers(0, 200), min_size=2, max_size=6), st.data())
def test_steps_become_an_expression_that_verifies(numbers: list[int], data: st.DataObject) -> None:
    steps, target = walk(tuple(numbers), data)
    problem = Problem(id="p", text=problem_text(tuple(numbers), target), numbers=tuple(numbers), target=target)
    for count in range(len(steps)):
        assert TASK.judge(Path(problem, (), (), 0, tuple(steps[:count]), Finish.SEPARATOR)).standing is Standing.OPEN
    judgement = TASK.judge(Path(problem, (), (), 0, tuple(steps), Finish.SEPARATOR))
    assert judgement.proven
    assert judgement.answer is not None
    assert TASK.verify(problem, judgement.answer, None).kind is VerdictKind.CORRECT
    assert eval(judgement.answer) == target  # Python's own arithmetic as the outside value
    assert parse(judgement.answer).text == judgement.answer


@given(st.lists(st.integers(0, 200), min_size=2, max_size=5), st.data(), st.integers(1, 200))
def test_another_target_is_never_proven(numbers: list[int], data: st.DataObject, shift: int) -> None:
    steps, reached = walk(tuple(numbers), data)
    problem = Problem(id="p", text="", numbers=tuple(numbers), target=(reached + shift) % 201)
    judgement = TASK.judge(Path(problem, (), (), 0, tuple(steps), Finish.SEPARATOR))
    assert judgement.standing is Standing.DEAD
    assert judgement.reason == f"reaches {reached}, not {problem.target}"


@given(st.text(alphabet="0123456789+-*/=() xleft\n", max_size=60))
def test_any_text_is_judged_and_verified_without_an_exception(text: str) -> None:
    problem = Problem(id="p", text="", numbers=(8, 3, 5), target=29)
    for finish in Finish:
        assert TASK.judge(Path(problem, (), (), 0, (text,), finish)).standing in Standing
    assert TASK.verify(problem, text, None).kind is not VerdictKind.UNDECIDED


def test_the_random_stream_is_that_of_the_shipped_weights() -> None:
    """The digest was made by the code of commit 9339878, with which the weights were trained."""
    digest = hashlib.sha256()
    for count in (3, 4, 5, 6):
        solutions = random_solutions(np.random.default_rng((0, count)), rows=1024, count=count, largest=25, targets=(10, 100))
        digest.update(token_rows(solutions)[0].astype("<i8").tobytes())
    assert digest.hexdigest() == "caea56f6fa3c9b2ba096c92e86148dbfe3da2604dcc6047755c672cb21eaf022"


@given(st.integers(0, 2**32), st.integers(3, 6))
def test_training_rows_are_proven_solutions(seed: int, count: int) -> None:
    solutions = random_solutions(np.random.default_rng(seed), rows=256, count=count, largest=25, targets=(10, 100))
    ids, prompt_length = token_rows(solutions)
    for row, numbers, target in zip(ids.tolist(), solutions.numbers.tolist(), solutions.target.tolist(), strict=True):
        problem = Problem(id="p", text="", numbers=tuple(numbers), target=target)
        assert row[0] == BOS
        assert row[-1] == EOS
        words = " ".join(VOCABULARY[i] for i in row[1:prompt_length]).replace(" \n", "\n")
        assert words == TASK.prompt(problem).raw
        solution = " ".join(VOCABULARY[i] for i in row[prompt_length:-1]).replace(" \n ", "\n")
        steps = tuple(solution.splitlines(keepends=True))
        judgement = TASK.judge(Path(problem, (), (), 0, steps, Finish.END))
        assert judgement.standing is Standing.FINISHED
        assert judgement.proven
