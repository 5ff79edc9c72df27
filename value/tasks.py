"""The tasks by name. The only file that knows them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from treewise.search.types import InputError, Problem, Task
from treewise.value.countdown_task import CountdownTask
from treewise.value.math_task import MathTask


class NamedTask(Task, Protocol):
    """A task that can be chosen on the command line: it also takes problems as text and knows how long solutions are."""

    def problem_from_text(self, identity: str, text: str) -> Problem:
        """Return the problem that a text states. Raises InputError."""
        ...

    def least_steps(self, problem: Problem) -> int:
        """Return how many steps a solution needs, or usually has."""
        ...


TASKS: Mapping[str, Callable[[], NamedTask]] = MappingProxyType({"countdown": CountdownTask, "math": MathTask})
"""What makes each task."""


def task_named(name: str) -> NamedTask:
    """Return the task of that name. Raises InputError that lists the names.

    >>> task_named("math").self_verifying
    False
    """
    if name not in TASKS:
        raise InputError(f"there is no task {name!r}", f"Use one of {', '.join(TASKS)}")
    return TASKS[name]()
