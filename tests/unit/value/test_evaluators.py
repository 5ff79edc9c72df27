"""Evaluators without a model, the gate that checks values, and the registry of tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from treewise.search.checked import evaluate_checked
from treewise.search.types import Evaluation, Evaluator, EvaluatorError, Finish, InputError, Path, Problem, Task
from treewise.value.countdown_task import CountdownTask
from treewise.value.evaluators import ConstantEvaluator, JudgementEvaluator
from treewise.value.math_task import MathTask
from treewise.value.tasks import TASKS, task_named

PROBLEM = Problem(id="p", text="numbers 3 4 target 12", numbers=(3, 4), target=12)


def path(*steps: str, finish: Finish = Finish.END, problem: Problem = PROBLEM) -> Path:
    return Path(problem, (), (), 0, steps, finish)


class Fixed:
    """Gives what it was told to give, whatever the paths."""

    fingerprint = "fixed"

    def __init__(self, *values: float) -> None:
        self.values = values

    def evaluate(self, paths: Sequence[Path]) -> list[Evaluation]:
        return [Evaluation(value) for value in self.values]


def test_constant_gives_the_constant() -> None:
    evaluator = ConstantEvaluator(0.25)
    assert isinstance(evaluator, Evaluator)
    assert evaluate_checked(evaluator, [path(), path("x")]) == [Evaluation(0.25), Evaluation(0.25)]
    assert evaluator.fingerprint != ConstantEvaluator(0.5).fingerprint


def test_judgement_tells_proven_dead_and_open_apart() -> None:
    evaluator = JudgementEvaluator(CountdownTask(), prior=0.3)
    assert isinstance(evaluator, Evaluator)
    paths = [path("3 * 4 = 12 left 12"), path("3 + 4 = 7 left 7"), path(finish=Finish.SEPARATOR)]
    assert [e.value for e in evaluate_checked(evaluator, paths)] == [1.0, 0.0, 0.3]


def test_judgement_does_not_take_a_finished_answer_for_a_proven_one() -> None:
    evaluator = JudgementEvaluator(MathTask())
    problem = Problem(id="m", text="2 + 3?")
    paths = [path("\\boxed{5}", problem=problem), path("no idea", problem=problem)]
    assert [e.value for e in evaluator.evaluate(paths)] == [0.5, 0.0]


def test_fingerprints_name_task_and_prior() -> None:
    found = {JudgementEvaluator(t, prior=p).fingerprint for t in (CountdownTask(), MathTask()) for p in (0.2, 0.5)}
    assert len(found) == 4


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf])
def test_a_prior_is_a_probability(value: float) -> None:
    with pytest.raises(InputError, match="probability"):
        ConstantEvaluator(value)
    with pytest.raises(InputError, match="probability"):
        JudgementEvaluator(MathTask(), prior=value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.001, 1.0000001, True, None, "0.5"])
def test_an_impossible_value_is_an_error_that_names_the_path(value: float) -> None:
    """S04: never a default in place of a value."""
    paths = [path(), path("3 + 4 = 7\n", problem=Problem(id="second", text=""))]
    with pytest.raises(EvaluatorError, match=r"fixed.*'second' after 1 steps"):
        evaluate_checked(Fixed(0.5, value), paths)


@pytest.mark.parametrize("values", [(), (0.5,), (0.5, 0.5, 0.5)])
def test_a_wrong_count_is_an_error(values: tuple[float, ...]) -> None:
    """S04: three scores for four steps."""
    with pytest.raises(EvaluatorError, match=rf"gave {len(values)} evaluations for 2 paths.*'p'"):
        evaluate_checked(Fixed(*values), [path(), path()])
    with pytest.raises(EvaluatorError, match="for no path"):
        evaluate_checked(Fixed(0.5), [])


def test_the_ends_of_the_range_are_values() -> None:
    assert [e.value for e in evaluate_checked(Fixed(0.0, 1.0), [path(), path()])] == [0.0, 1.0]


@pytest.mark.parametrize("name", TASKS)
def test_tasks_are_made_by_name(name: str) -> None:
    task = task_named(name)
    assert isinstance(task, Task)
    assert task.name == name
    assert task.step_tokens > 0
    assert task.max_steps > 0


def test_an_unknown_task_lists_those_there_are() -> None:
    with pytest.raises(InputError, match=r"'chess'.*countdown, math"):
        task_named("chess")
