"""The Countdown task: rows, texts, prompts, judging step by step, exact verification."""

from __future__ import annotations

import pytest

from treewise.search.types import Finish, InputError, Judgement, Path, Problem, Standing, Task, VerdictKind
from treewise.value.countdown_task import CountdownTask

TASK = CountdownTask()
PROBLEM = Problem(id="p", text="numbers 8 3 5 2 target 58", numbers=(8, 3, 5, 2), target=58)
STEPS = ("8 * 3 = 24 left 5 2 24\n", "24 + 5 = 29 left 2 29\n", "29 * 2 = 58 left 58")


def judge(*steps: str, finish: Finish = Finish.SEPARATOR, problem: Problem = PROBLEM) -> Judgement:
    ids = tuple(range(len(steps) + 1))
    return TASK.judge(Path(problem, ids, tuple(range(2, len(steps) + 2)), 1, steps, finish))


def test_it_is_a_task_that_verifies_itself() -> None:
    assert isinstance(TASK, Task)
    assert TASK.self_verifying


def test_read_takes_a_row() -> None:
    problem, reference = TASK.read({"id": "a", "numbers": [8, 3, 5, 2], "target": 58, "note": None})
    assert (problem.id, problem.numbers, problem.target, problem.text) == ("a", (8, 3, 5, 2), 58, "numbers 8 3 5 2 target 58")
    assert reference is None


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"numbers": [1, 2], "target": 3}, "no 'id'"),
        ({"id": "  ", "numbers": [1, 2], "target": 3}, "'id' is '  '"),
        ({"id": True, "numbers": [1, 2], "target": 3}, "'id' is True"),
        ({"id": "a", "target": 3}, "'numbers' is None"),
        ({"id": "a", "numbers": "1 2", "target": 3}, "'numbers' is '1 2'"),
        ({"id": "a", "numbers": {"1": 2}, "target": 3}, "'numbers' is"),
        ({"id": "a", "numbers": [1, "x"], "target": 3}, "item 2 of 'numbers' is 'x'"),
        ({"id": "a", "numbers": [1, 2.0], "target": 3}, "item 2 of 'numbers' is 2.0"),
        ({"id": "a", "numbers": [True, 2], "target": 3}, "item 1 of 'numbers' is True"),
        ({"id": "a", "numbers": [1, 2, None], "target": 3}, "item 3 of 'numbers' is None"),
        ({"id": "a", "numbers": [1, 201], "target": 3}, "item 2 of 'numbers' is 201"),
        ({"id": "a", "numbers": [-1, 2], "target": 3}, "item 1 of 'numbers' is -1"),
        ({"id": "a", "numbers": [], "target": 3}, "has 0 items"),
        ({"id": "a", "numbers": [5], "target": 5}, "has 1 items"),
        ({"id": "a", "numbers": list(range(11)), "target": 5}, "has 11 items"),
        ({"id": "a", "numbers": [1, 2]}, "'target' is None"),
        ({"id": "a", "numbers": [1, 2], "target": "3"}, "'target' is '3'"),
        ({"id": "a", "numbers": [1, 2], "target": 201}, "'target' is 201"),
        ({"id": "a\ud800", "numbers": [1, 2], "target": 3}, "not Unicode"),
    ],
)
def test_read_names_the_field_and_the_value(row: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said.replace("(", r"\(")) as caught:
        TASK.read(row)
    assert caught.value.remedy


@pytest.mark.parametrize(
    "text",
    ["numbers 8 3 5 target 29", "8 3 5 -> 29", " 8, 3, 5 → 29 ", "[8,3,5] -> 29", "numbers: 8 3 5, target: 29", "8 3 5 => 29"],
)
def test_problem_from_text(text: str) -> None:
    problem = TASK.problem_from_text("c", text)
    assert (problem.numbers, problem.target) == ((8, 3, 5), 29)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "8 3 5",
        "8 3 5 ->",
        "-> 29",
        "8 q 5 -> 29",
        "8 3 5 -> 29 30",
        "8.5 3 -> 9",
        "-8 3 -> 9",
        "8 3 -> 999",
        "8 3 -> 1 -> 2",
        "8 3 -> " + "9" * 5000,
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        TASK.problem_from_text("c", text)


def test_prompt_is_the_line_the_embedded_policy_was_trained_on() -> None:
    prompt = TASK.prompt(PROBLEM)
    assert prompt.raw == "numbers 8 3 5 2 target 58\n"
    assert [m.role for m in prompt.messages] == ["system", "user"]
    assert prompt.messages[1].content == "numbers 8 3 5 2 target 58"


def test_the_worked_example_of_the_instructions_is_right() -> None:
    lines = TASK.prompt(PROBLEM).messages[0].content.partition("Example\n")[2].split("\n")
    assert lines[0] == PROBLEM.text
    assert judge("\n".join(lines[1:]), finish=Finish.END).proven


def test_a_right_path_is_open_then_proven() -> None:
    assert judge() == Judgement(Standing.OPEN)
    assert judge(*STEPS[:1]) == Judgement(Standing.OPEN)
    assert judge(*STEPS[:2]) == Judgement(Standing.OPEN)
    done = Judgement(Standing.FINISHED, answer="(8 * 3 + 5) * 2", proven=True)
    assert judge(*STEPS, finish=Finish.END) == done
    assert judge(*STEPS[:2], STEPS[2] + "\n") == done


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ("8 * 4 = 32 left 3 5 2 32\n", "4 is not among the numbers left"),
        ("8 * 8 = 64 left 3 5 2 64\n", "8 is not among the numbers left"),
        ("8 * 3 = 25 left 5 2 25\n", "8 * 3 is 24, not 25"),
        ("3 - 8 = 5 left 5 2 5\n", "3 - 8 is negative"),
        ("8 / 3 = 2 left 5 2 2\n", "8 / 3 is not an integer"),
        ("8 * 3 = 24 left 5 24\n", "left is 5 2 24, not 5 24"),
        ("8 * 3 = 24 left 5 5 2 24\n", "left is 5 2 24, not 5 5 2 24"),
        ("8 * 3 = 24 left 8 2 24\n", "left is 5 2 24, not 8 2 24"),
        ("8 * 3 = 24 left\n", "left is 5 2 24, not nothing"),
        ("8 * 3 = 24 left 5 2 x\n", "is not a step"),
        ("left left 3\n", "is not a step"),
        ("8 + 3\n", "is not a step"),
        ("8 * 3 + 5 = 29\n", "is not a step"),
        ("99999999999999999999 * 3 = 24\n", "is not a step"),
    ],
)
def test_a_wrong_step_is_dead_with_its_reason(step: str, reason: str) -> None:
    judgement = judge(step)
    assert judgement.standing is Standing.DEAD
    assert reason in judgement.reason
    assert judgement.answer is None


def test_a_wrong_step_stays_dead_whatever_follows() -> None:
    assert judge("8 * 3 = 25 left 5 2 25\n", *STEPS[1:], finish=Finish.END).standing is Standing.DEAD


@pytest.mark.parametrize(
    "step",
    [
        "8 * 3 = 24\n",
        "3 * 8 = 24 left 24 2 5\n",
        "8×3=24 left: 5, 2, 24\n",
        "\n8 * 3 = 24 left 5 2 24\n",
        "  8 x 3 = 24  left  5 2 24 \n",
    ],
)
def test_spellings_that_are_tolerated(step: str) -> None:
    assert judge(step).standing is Standing.OPEN


def test_a_wrong_last_number_is_dead_not_an_answer() -> None:
    judgement = judge(STEPS[0], STEPS[1], "29 + 2 = 31 left 31", finish=Finish.END)
    assert judgement == Judgement(Standing.DEAD, reason="reaches 31, not 58")


def test_a_path_that_ends_early_is_dead() -> None:
    assert judge(*STEPS[:2], finish=Finish.END) == Judgement(Standing.DEAD, reason="ends with 2 numbers left")
    assert judge(finish=Finish.END).standing is Standing.DEAD


@pytest.mark.parametrize(("finish", "reason"), [(Finish.LENGTH, "cut by the token limit"), (Finish.ERROR, "the policy gave up")])
def test_a_cut_step_is_dead_for_being_cut(finish: Finish, reason: str) -> None:
    for steps in (("8 * 3 = 2",), STEPS[:1], (STEPS[0], "24 + 5 =")):
        judgement = judge(*steps, finish=finish)
        assert judgement.standing is Standing.DEAD
        assert judgement.reason.startswith(reason)


@pytest.mark.parametrize("finish", [Finish.LENGTH, Finish.SEPARATOR])
def test_the_first_wrong_step_is_the_reason_however_long_the_text(finish: Finish) -> None:
    wrong = "8 * 3 = 25 left 5 25\n"
    assert judge(wrong, *["5 + 0 = 5\n"] * 5000, finish=finish) == Judgement(Standing.DEAD, reason="8 * 3 is 24, not 25")
    assert judge(STEPS[0], wrong, finish=finish).reason != judge(wrong, STEPS[0], finish=finish).reason
    endless = judge(*STEPS, "\n", *["58 + 0 = 58\n"] * 5000, finish=finish)
    assert endless == Judgement(Standing.DEAD, reason="0 is not among the numbers left")


def test_a_step_after_the_last_number_is_dead() -> None:
    assert judge(*STEPS, "\n", "58 + 0 = 58 left 58\n").standing is Standing.DEAD


def test_equal_numbers_are_used_once_each() -> None:
    problem = Problem(id="q", text="", numbers=(5, 5, 2), target=20)
    assert judge("5 + 5 = 10 left 2 10\n", "10 * 2 = 20 left 20\n", problem=problem).answer == "(5 + 5) * 2"
    assert judge("5 * 2 = 10 left 5 10\n", "5 * 10 = 50 left 50\n", problem=problem).standing is Standing.DEAD


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        ("(8 * 3 + 5) * 2", VerdictKind.CORRECT, "= 58"),
        ("2 × (5 + 3 × 8)", VerdictKind.CORRECT, "= 58"),
        ("8 * 3 + 5 * 2", VerdictKind.INCORRECT, "gives 34, not 58"),
        ("29 * 2", VerdictKind.INCORRECT, "wrongly uses 29 and leaves out 3 5 8"),
        ("(8 * 3 + 5) * 2 + 0", VerdictKind.INCORRECT, "wrongly uses 0"),
        ("58", VerdictKind.INCORRECT, "wrongly uses 58"),
        ("", VerdictKind.INCORRECT, "ends where a number was expected"),
        ("(3 - 5) * 8 + 2", VerdictKind.INCORRECT, "negative"),
        ("__import__('os').getpid()", VerdictKind.INCORRECT, "unexpected"),
    ],
)
def test_verify_is_exact(answer: str, kind: VerdictKind, reason: str) -> None:
    verdict = TASK.verify(PROBLEM, answer, reference=None)
    assert verdict.kind is kind
    assert reason in verdict.reason


@pytest.mark.parametrize(
    ("answer", "reason"), [("5 * 2", "leaves out 5"), ("5 + 5 + 2 - 2", "wrongly uses 2"), ("5 * 2 + 5 - 5", "wrongly uses 5")]
)
def test_verify_counts_how_often_a_number_is_used(answer: str, reason: str) -> None:
    verdict = TASK.verify(Problem(id="q", text="", numbers=(5, 5, 2), target=10), answer, reference=None)
    assert verdict.kind is VerdictKind.INCORRECT
    assert verdict.reason == reason


def test_the_reference_has_no_say() -> None:
    assert TASK.verify(PROBLEM, "8 + 3 + 5 + 2", reference="8 + 3 + 5 + 2").kind is VerdictKind.INCORRECT


def test_a_problem_of_another_task_is_refused() -> None:
    with pytest.raises(InputError, match="no numbers"):
        TASK.prompt(Problem(id="m", text="What is 2 + 2?"))


def test_least_steps_is_one_less_than_the_numbers() -> None:
    """S28: a limit of steps below this finishes nothing, and the command line can say so."""
    assert TASK.least_steps(PROBLEM) == 3
