"""The Countdown task: reading problems, asking for solutions, judging them step by step, and verifying answers exactly.

A solution is one operation a line, `8 * 3 = 24 left 5 24`, with the numbers that are left after it. Every rule can be checked
from the text, so a path is dead at its first wrong step and proven at its right end. Knows no model and no solver.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

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
from treewise.value.countdown import FEWEST, LIMIT, MOST, BrokenRule
from treewise.value.countdown_problems import problem_text
from treewise.value.expressions import SYMBOLS, Expression, join, number, parse
from treewise.value.problem_rows import row_id

INSTRUCTIONS = f"""You solve Countdown problems: reach the target from the given numbers with + - * /.
Use every number exactly once. Every result on the way is a whole number from 0 to {LIMIT}.
Write one operation a line, then the word left and the numbers that remain, with the new one last.
Stop when a single number, the target, is left. Write nothing else.

Example
numbers 8 3 5 2 target 58
8 * 3 = 24 left 5 2 24
24 + 5 = 29 left 2 29
29 * 2 = 58 left 58"""

_SIGNS = re.escape("".join(SYMBOLS))
_STEP = re.compile(
    rf"\s*([0-9]{{1,9}})\s*([{_SIGNS}])\s*([0-9]{{1,9}})\s*=\s*([0-9]{{1,9}})\s*(?:\s(left)\b:?((?:[\s,]+[0-9]{{1,9}})*)\s*)?"
)
_NUMBER = re.compile(r"[+\-−]?[0-9]+(?:\.[0-9]+)?")
_TARGET = re.compile(r"\btarget\b|->|→|=>")
_LONGEST_QUOTE = 60


class CountdownTask:
    """Reach a target from numbers with + - * /, each used once, every result an integer in [0, LIMIT]."""

    name = "countdown"
    self_verifying = True
    grammar = StepGrammar(separators=("\n",))
    step_tokens = 24
    max_steps = MOST

    def read(self, row: Mapping[str, object]) -> tuple[Problem, str | None]:
        """Return the problem of a row `{"id", "numbers", "target"}`, and no reference: the task verifies itself.

        Raises InputError naming the field and the value.
        """
        identity = row_id(row)
        given = row.get("numbers")
        if not isinstance(given, list | tuple):
            raise InputError(f"problem {identity!r}: 'numbers' is {given!r}, not a list", 'Write them as "numbers": [8, 3, 5]')
        numbers = tuple(_whole(value, where=f"problem {identity!r}: item {i + 1} of 'numbers'") for i, value in enumerate(given))
        if not FEWEST <= len(numbers) <= MOST:
            raise InputError(f"problem {identity!r}: 'numbers' has {len(numbers)} items", f"Give {FEWEST} to {MOST} numbers")
        target = _whole(row.get("target"), where=f"problem {identity!r}: 'target'")
        return Problem(id=identity, text=problem_text(numbers, target), numbers=numbers, target=target), None

    def problem_from_text(self, identity: str, text: str) -> Problem:
        """Return the problem written as `numbers 8 3 5 target 29`, or shorter `8 3 5 -> 29`; commas are allowed.

        Raises InputError for any other text and for numbers out of range.
        """
        halves = _TARGET.split(text)
        remedy = "Write it as 'numbers 8 3 5 target 29' or '8 3 5 -> 29'"
        if len(halves) != 2:
            raise InputError(f"{text[:_LONGEST_QUOTE]!r} is not a Countdown problem", remedy)
        found: list[list[int | float]] = []
        for half in halves:
            rest = _NUMBER.sub(" ", half).replace("numbers", " ").strip(" \t\r\n,:;[]()")
            if re.sub(r"[\s,;]+", "", rest):
                raise InputError(f"{rest[:_LONGEST_QUOTE]!r} in {text[:_LONGEST_QUOTE]!r} is not a number", remedy)
            written = [n.replace("−", "-") for n in _NUMBER.findall(half)]
            if any(len(n) > 9 for n in written):
                raise InputError(f"{text[:_LONGEST_QUOTE]!r} has a number out of range", f"Use integers in [0, {LIMIT}]")
            found.append([float(n) if "." in n else int(n) for n in written])
        if len(found[1]) != 1:
            raise InputError(f"{text[:_LONGEST_QUOTE]!r} has {len(found[1])} targets", remedy)
        return self.read({"id": identity, "numbers": found[0], "target": found[1][0]})[0]

    def least_steps(self, problem: Problem) -> int:
        """Return how many steps every solution has: a smaller limit of steps a path finishes none."""
        return len(_stated(problem)[0]) - 1

    def prompt(self, problem: Problem) -> Prompt:
        """Return the question: instructions with one worked example for instruct models, the bare problem line for others."""
        numbers, target = _stated(problem)
        line = problem_text(numbers, target)
        return Prompt(messages=(Message("system", INSTRUCTIONS), Message("user", line)), raw=line + "\n")

    def judge(self, path: Path) -> Judgement:
        """Return DEAD at the first wrong step, FINISHED and proven when the target is the one number left, else OPEN.

        A last number that is not the target is DEAD too: the task knows it to be wrong and never gives it as an answer.
        """
        numbers, target = _stated(path.problem)
        written = [line for line in path.text.splitlines() if line.strip()]
        lines = tuple(written[: len(numbers)])  # every step uses up a number: the last of these is wrong at the latest
        try:
            pool = _left_after(numbers, lines)
        except BrokenRule as broken:
            cut = path.finish in (Finish.LENGTH, Finish.ERROR) and len(lines) == len(written)
            if cut and not _is_wrong(numbers, lines[:-1]):
                return _dead(_unfinished(path.finish))
            return _dead(str(broken))
        if len(pool) == 1:
            if pool[0].value != target:
                return _dead(f"reaches {pool[0].value}, not {target}")
            return Judgement(Standing.FINISHED, answer=pool[0].text, proven=True)
        if path.finish is not Finish.SEPARATOR:
            return _dead(_unfinished(path.finish) + f" with {len(pool)} numbers left")
        return Judgement(Standing.OPEN)

    def verify(self, problem: Problem, answer: str, reference: str | None) -> Verdict:
        """Return whether the expression keeps all rules and gives the target; never UNDECIDED. The reference is not used."""
        numbers, target = _stated(problem)
        try:
            expression = parse(answer)
        except BrokenRule as broken:
            return Verdict(VerdictKind.INCORRECT, str(broken))
        used, given = Counter(expression.numbers), Counter(numbers)
        if used != given:
            extra, missing = sorted((used - given).elements()), sorted((given - used).elements())
            faults = [f"{word} {' '.join(map(str, ns))}" for word, ns in (("wrongly uses", extra), ("leaves out", missing)) if ns]
            return Verdict(VerdictKind.INCORRECT, " and ".join(faults))
        if expression.value != target:
            return Verdict(VerdictKind.INCORRECT, f"gives {expression.value}, not {target}")
        return Verdict(VerdictKind.CORRECT, f"{expression.text} = {target}")


def _stated(problem: Problem) -> tuple[tuple[int, ...], int]:
    """Numbers and target. Raises InputError when the problem is not one of Countdown."""
    if problem.target is None or not problem.numbers:
        raise InputError(f"problem {problem.id!r} has no numbers or no target", "Choose the task that it belongs to")
    return problem.numbers, problem.target


def _whole(value: object, *, where: str) -> int:
    """An integer in [0, LIMIT]. Raises InputError."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"{where} is {value!r}, not an integer", f"Use integers in [0, {LIMIT}]")
    if not 0 <= value <= LIMIT:
        raise InputError(f"{where} is {value}", f"Use integers in [0, {LIMIT}]")
    return value


@lru_cache(maxsize=1 << 14)
def _left_after(numbers: tuple[int, ...], lines: tuple[str, ...]) -> tuple[Expression, ...]:
    """Return what is left of the numbers after these steps. Raises BrokenRule at the first wrong one.

    Kept, since a search reads each path once for every step that is added to it.
    """
    if not lines:
        return tuple(number(n) for n in numbers)
    pool = list(_left_after(numbers, lines[:-1]))
    _apply(lines[-1], pool)
    return tuple(pool)


def _is_wrong(numbers: tuple[int, ...], lines: tuple[str, ...]) -> bool:
    try:
        _left_after(numbers, lines)
    except BrokenRule:
        return True
    return False


def _apply(line: str, pool: list[Expression]) -> None:
    """Replace the operands of one step by its result, in place. Raises BrokenRule for a wrong step."""
    match = _STEP.fullmatch(line)
    if match is None:
        raise BrokenRule(f"{line.strip()[:_LONGEST_QUOTE]!r} is not a step")
    first, sign, second, result, has_left, left = match.groups()
    a, b = _take(pool, int(first)), _take(pool, int(second))
    joined = join(a, SYMBOLS[sign], b)
    if joined.value != int(result):
        raise BrokenRule(f"{a.value} {SYMBOLS[sign]} {b.value} is {joined.value}, not {int(result)}")
    pool.append(joined)
    if has_left and sorted(int(n) for n in re.findall("[0-9]+", left)) != sorted(e.value for e in pool):
        raise BrokenRule(f"left is {' '.join(str(e.value) for e in pool)}, not {' '.join(left.split()) or 'nothing'}")


def _take(pool: list[Expression], value: int) -> Expression:
    """Remove and return the first expression of that value. Raises BrokenRule when there is none."""
    for index, expression in enumerate(pool):
        if expression.value == value:
            return pool.pop(index)
    raise BrokenRule(f"{value} is not among the numbers left")


def _unfinished(finish: Finish) -> str:
    """How a path ended that ought to go on."""
    return {Finish.LENGTH: "cut by the token limit", Finish.ERROR: "the policy gave up"}.get(finish, "ends")


def _dead(reason: str) -> Judgement:
    return Judgement(Standing.DEAD, reason=reason)
