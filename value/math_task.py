"""The math task: word problems and competition problems whose final answer is a number or an expression.

A path is finished when the model ended it and it states a final answer; whether that is right is for a reference and the
checker in `math_answers.py` to say, after the search. Knows no model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from treewise.search.types import (
    Finish,
    InputError,
    Judgement,
    Message,
    Path,
    Problem,
    Prompt,
    Standing,
    StepGrammar,
    Verdict,
    VerdictKind,
)
from treewise.value.answer_extraction import final_answer
from treewise.value.math_answers import check_response, tidy
from treewise.value.problem_rows import row_id, unicode_text

INSTRUCTIONS = (
    "Solve the problem. Reason step by step: write each step as a short paragraph of its own, with a blank line between steps. "
    "End with the final answer in \\boxed{}."
)

NEXT_QUESTION = "\nQuestion:"
"""What a base model writes when it goes on to a problem of its own invention."""

TYPICAL_STEPS = 4
"""Steps that short word problems take; a limit below it finishes few paths."""


class MathTask:
    """Problems with a mathematical answer, checked against a reference where there is one.

    Steps are separated by blank lines: instruct models write paragraphs, and single newlines stand inside displayed formulas
    and lists, where a cut would leave half a step.
    """

    name = "math"
    self_verifying = False
    grammar = StepGrammar(separators=("\n\n",), stop_texts=(NEXT_QUESTION,))
    step_tokens = 256
    max_steps = 24

    def read(self, row: Mapping[str, object]) -> tuple[Problem, str | None]:
        """Return problem and reference of a row `{"id", "problem", "answer"?}`.

        The answer is a text or a number; a GSM8K solution that ends in `#### 42` is taken at its last line. Raises InputError
        naming the field and the value.
        """
        identity = row_id(row)
        text = row.get("problem")
        if not isinstance(text, str):
            remedy = "Rename the field 'question' to 'problem'" if "question" in row else "Give every row a text 'problem'"
            raise InputError(f"problem {identity!r}: 'problem' is {text!r}, not a text", remedy)
        return self.problem_from_text(identity, text), _reference(row.get("answer"), identity)

    def problem_from_text(self, identity: str, text: str) -> Problem:
        """Return the problem that the text states. Raises InputError when it is blank or not Unicode."""
        if not text.strip():
            raise InputError(f"problem {identity!r}: 'problem' is {text!r}, which is blank", "Write the problem's text")
        return Problem(id=identity, text=unicode_text(text, where=f"problem {identity!r}: 'problem'").strip())

    def least_steps(self, problem: Problem) -> int:
        """Return how many steps a solution usually has: a smaller limit of steps a path finishes few."""
        return TYPICAL_STEPS

    def prompt(self, problem: Problem) -> Prompt:
        """Return instructions and problem as turns for instruct models, and as a text to continue for base models."""
        return Prompt(
            messages=(Message("system", INSTRUCTIONS), Message("user", problem.text)),
            raw=f"{INSTRUCTIONS}\n\nQuestion: {problem.text}\n\nAnswer:\n",
        )

    def judge(self, path: Path) -> Judgement:
        """Return FINISHED when the path ended and states a final answer, DEAD when it ended otherwise, else OPEN.

        A complete box alone does not finish a path: "we will put it in \\\\boxed{...}" may stand in any step.
        """
        if path.finish is Finish.SEPARATOR:
            return Judgement(Standing.OPEN)
        if path.finish is Finish.LENGTH:
            return Judgement(Standing.DEAD, reason="cut by the token limit")
        if path.finish is Finish.ERROR:
            return Judgement(Standing.DEAD, reason="the policy gave up")
        found = final_answer(path.text.partition(NEXT_QUESTION)[0])
        answer = tidy(found.text) if found is not None else ""
        if not answer:
            return Judgement(Standing.DEAD, reason="no final answer")
        return Judgement(Standing.FINISHED, answer=answer)

    def verify(self, problem: Problem, answer: str, reference: str | None) -> Verdict:
        """Return whether an answer, bare or with the solution that states it, equals the reference; UNDECIDED without one."""
        if reference is None:
            return Verdict(VerdictKind.UNDECIDED, "there is no reference answer")
        return check_response(reference, answer)


def _reference(value: object, identity: str) -> str | None:
    """The reference as a text, or None. Raises InputError."""
    where = f"problem {identity!r}: 'answer'"
    if value is None:
        return None
    readable = isinstance(value, str | int | float) and not isinstance(value, bool)
    if not readable or (isinstance(value, float) and not math.isfinite(value)):
        raise InputError(f"{where} is {value!r}, neither a text nor a number", "Leave 'answer' out where there is no reference")
    text = unicode_text(value, where=where) if isinstance(value, str) else str(value)
    found = final_answer(text) if "####" in text else None
    text = (found.text if found is not None else text).strip()
    if not text:
        raise InputError(f"{where} is blank", "Leave 'answer' out where there is no reference")
    return text
