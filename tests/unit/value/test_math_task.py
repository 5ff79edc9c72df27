"""The math task: rows, prompts, judging and verifying."""

from __future__ import annotations

import pytest

from treewise.search.types import Finish, InputError, Judgement, Path, Problem, Standing, Task, VerdictKind
from treewise.value.math_task import MathTask

TASK = MathTask()
PROBLEM = Problem(id="m", text="What is 2 + 3?")


def judge(*steps: str, finish: Finish) -> Judgement:
    return TASK.judge(Path(PROBLEM, (), (), 0, steps, finish))


def test_it_is_a_task_that_needs_a_reference() -> None:
    assert isinstance(TASK, Task)
    assert not TASK.self_verifying
    assert TASK.verify(PROBLEM, "5", None).kind is VerdictKind.UNDECIDED


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("160", "160"),
        (160, "160"),
        (2.5, "2.5"),
        (None, None),
        ("2 * 21 = <<2*21=42>>42\n#### 42", "42"),
        (" \\frac{1}{2} ", "\\frac{1}{2}"),
    ],
)
def test_read_takes_rows_with_and_without_answer(answer: object, reference: str | None) -> None:
    problem, found = TASK.read({"id": 7, "problem": " What is it? ", "answer": answer})
    assert (problem.id, problem.text, found) == ("7", "What is it?", reference)
    assert TASK.read({"id": "a", "problem": "x"})[1] is None


def test_the_reference_is_not_in_the_problem() -> None:
    problem, _ = TASK.read({"id": "a", "problem": "What?", "answer": "8675309"})
    prompt = TASK.prompt(problem)
    assert "8675309" not in repr(problem) + repr(prompt)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"problem": "x"}, "no 'id'"),
        ({"id": "a"}, "'problem' is None"),
        ({"id": "a", "question": "x"}, "Rename the field 'question'"),
        ({"id": "a", "problem": 5}, "'problem' is 5"),
        ({"id": "a", "problem": " \n "}, "blank"),
        ({"id": "a", "problem": "x\udcff"}, "not Unicode"),
        ({"id": "a", "problem": "x", "answer": True}, "'answer' is True"),
        ({"id": "a", "problem": "x", "answer": ["5"]}, "'answer' is"),
        ({"id": "a", "problem": "x", "answer": float("nan")}, "'answer' is nan"),
        ({"id": "a", "problem": "x", "answer": " "}, "'answer' is blank"),
    ],
)
def test_read_names_the_field(row: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        TASK.read(row)


def test_prompt_asks_for_a_box_and_gives_the_problem_once() -> None:
    prompt = TASK.prompt(PROBLEM)
    assert "\\boxed{}" in prompt.messages[0].content
    assert prompt.messages[-1].content == PROBLEM.text
    assert prompt.raw.count(PROBLEM.text) == 1
    assert "\\boxed{}" in prompt.raw


def test_a_path_goes_on_until_the_model_ends_it() -> None:
    """S41: a box in the middle of the text is no stop."""
    assert judge("We will put it in \\boxed{}.\n\n", finish=Finish.SEPARATOR).standing is Standing.OPEN
    assert judge("2 + 3 = \\boxed{5}\n\n", finish=Finish.SEPARATOR).standing is Standing.OPEN
    done = judge("2 + 3 = \\boxed{5}\n\n", "That is all.", finish=Finish.END)
    assert done == Judgement(Standing.FINISHED, answer="5", proven=False)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("#### 1,000", "1000"),
        ("The answer is 5.", "5"),
        ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("\\boxed{3} or \\boxed{4}", "4"),
        ("The answer is 5\nQuestion: What is 6 + 3?\nAnswer: the answer is 9", "5"),
    ],
)
def test_final_answers(text: str, answer: str) -> None:
    """S11 among others: a problem that the model goes on to invent is not read."""
    assert judge(text, finish=Finish.END).answer == answer


@pytest.mark.parametrize("text", ["", "So it is 5", "\\boxed{}", "\\boxed{5", "\\boxed", "The answer is "])
def test_an_end_without_an_answer_is_dead(text: str) -> None:
    assert judge(text, finish=Finish.END) == Judgement(Standing.DEAD, reason="no final answer")


def test_a_cut_path_is_dead_even_with_a_box() -> None:
    assert judge("\\boxed{5} and", finish=Finish.LENGTH) == Judgement(Standing.DEAD, reason="cut by the token limit")
    assert judge("", finish=Finish.ERROR).standing is Standing.DEAD


def test_verify_takes_bare_answers_and_solutions() -> None:
    for answer in ("5", "\\boxed{5}", "2 + 3 = 5\n#### 5", "The answer is 5. I hope it is correct."):
        assert TASK.verify(PROBLEM, answer, "5").kind is VerdictKind.CORRECT
    assert TASK.verify(PROBLEM, "15", "5").kind is VerdictKind.INCORRECT


def test_usual_solutions_have_several_steps() -> None:
    """S28: the command line can warn when the limit of steps is below this."""
    assert TASK.least_steps(PROBLEM) > 1
    assert TASK.max_steps > TASK.least_steps(PROBLEM)
