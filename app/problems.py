"""Options and rows to problems: what can run, and what cannot with its reason.

Reading is complete before any model starts, so that a mistake in the last row is known in the first second. This file
knows tasks by their protocol and Countdown's generator; it knows no search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from treewise.app.config import SourceOptions
from treewise.app.rows import Row, name_of, read_rows
from treewise.search.types import InputError, Problem
from treewise.value.tasks import NamedTask


@dataclass(frozen=True)
class Item:
    """A problem to solve, with the reference that only the check after the search may see."""

    problem: Problem
    reference: str | None
    where: str
    """For messages: file and line."""


class Rejected(NamedTuple):
    """A row that cannot run."""

    id: str
    """The row's own id, or its place ("line 3") where it has none of its own."""
    where: str
    """For messages: file and line."""
    error: InputError


class ProblemSet(NamedTuple):
    """What a source holds, in its order."""

    items: list[Item]
    rejected: list[Rejected]


def read_problems(source: SourceOptions, task: NamedTask, *, seed: int) -> ProblemSet:
    """Return all problems of the one source that is given.

    Raises InputError when the source cannot be read at all, and for an unusable text on the command line.
    """
    if source.text is not None:
        return ProblemSet([_from_text(source.text, task)], [])
    if source.generate is not None:
        return ProblemSet(_generated(source, count=source.generate, seed=seed), [])
    if source.problems is None:
        raise InputError("there is no problem to solve", "give --problems FILE")
    return _from_rows(read_rows(source.problems), task, file=name_of(source.problems))


def _from_text(text: str, task: NamedTask) -> Item:
    if not text.strip():
        raise InputError(f"the problem is empty: {text!r}", "give the problem as text")
    return Item(task.problem_from_text("command-line", text), None, "command line")


def _generated(source: SourceOptions, *, count: int, seed: int) -> list[Item]:
    from treewise.value.countdown_problems import generate

    problems = generate(count, numbers=source.numbers, split=source.split, seed=seed)
    return [Item(problem, None, "generated") for problem in problems]


def _from_rows(rows: list[Row], task: NamedTask, *, file: str) -> ProblemSet:
    items: list[Item] = []
    rejected: list[Rejected] = []
    seen: dict[str, str] = {}
    for row in rows:
        where = f"{file}, {row.where}"
        try:
            problem, reference = _read(row, task)
        except InputError as error:
            rejected.append(Rejected(_own_id(row) or row.where, where, error))
            continue
        if problem.id in seen:
            twice = InputError(f"id {problem.id!r} was used in {seen[problem.id]} already", "give every problem an id of its own")
            rejected.append(Rejected(row.where, where, twice))
            continue
        seen[problem.id] = row.where
        items.append(Item(problem, reference, where))
    return ProblemSet(items, rejected)


def _read(row: Row, task: NamedTask) -> tuple[Problem, str | None]:
    if isinstance(row.content, InputError):
        raise row.content
    return task.read(row.content)


def _own_id(row: Row) -> str | None:
    if isinstance(row.content, InputError):
        return None
    own = row.content.get("id")
    if isinstance(own, int) and not isinstance(own, bool):
        return str(own)
    return own if isinstance(own, str) and own.strip() else None
