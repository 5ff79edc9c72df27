"""Random Countdown problems, solvable by construction: numbers first, then random legal steps, whose result is the target.

No solver is involved. `random_solutions` also makes the training text of the embedded policy, so its random stream is fixed:
the shipped weights are reproduced by it. This file knows no text format, no task and no model.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treewise.search.types import InputError, Problem
from treewise.value.countdown import FEWEST, LIMIT, MOST, Split, split_codes

SPLITS: tuple[Split, ...] = ("train", "validation", "test")

_BLOCK = 4096
_DRY_BLOCKS = 50


class Solutions(NamedTuple):
    """`B` problems of `n` numbers with a solution each."""

    numbers: npt.NDArray[np.int64]
    """int64 `[B, n]`, in the order in which the prompt gives them."""
    target: npt.NDArray[np.int64]
    """int64 `[B]`."""
    left: npt.NDArray[np.int64]
    """int64 `[B, n - 1]`: larger operand of each step."""
    operation: npt.NDArray[np.int64]
    """int64 `[B, n - 1]`: 0 to 3 for + - * /."""
    right: npt.NDArray[np.int64]
    """int64 `[B, n - 1]`: smaller operand of each step."""
    remaining: list[npt.NDArray[np.int64]]
    """After step `k`: int64 `[B, n - 1 - k]`, the numbers left, the new one last."""


def _apply(a: npt.NDArray[np.int64], b: npt.NDArray[np.int64], operation: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Results of `a op b` for `a >= b`, int64 `[B]`; -1 where the step is not legal."""
    divides = (b > 0) & (a % np.maximum(b, 1) == 0)
    result = np.choose(operation, [a + b, a - b, a * b, np.where(divides, a // np.maximum(b, 1), -1)])
    return np.where(result > LIMIT, -1, result)


def random_solutions(
    rng: np.random.Generator, *, rows: int, count: int, largest: int, targets: tuple[int, int], split: Split = "train"
) -> Solutions:
    """Return at most `rows` solved problems with `count` numbers in `[1, largest]` and a target in `targets`; perhaps none."""
    numbers = rng.integers(1, largest + 1, size=(rows, count))
    current = numbers.copy()
    lefts, operations, rights, remaining = [], [], [], []
    row = np.arange(rows)
    for size in range(count, 1, -1):
        i, j, operation, result = (np.zeros(rows, dtype=np.int64) for _ in range(4))
        todo = np.ones(rows, dtype=bool)
        while todo.any():
            k = int(todo.sum())
            first = rng.integers(0, size, size=k)
            second = (first + rng.integers(1, size, size=k)) % size
            x, y = current[todo, first], current[todo, second]
            swap = x < y
            i[todo], j[todo] = np.where(swap, second, first), np.where(swap, first, second)
            operation[todo] = rng.integers(0, 4, size=k)
            result[todo] = _apply(np.maximum(x, y), np.minimum(x, y), operation[todo])
            todo &= result < 0
        lefts.append(current[row, i])
        rights.append(current[row, j])
        operations.append(operation)
        kept = np.ones((rows, size), dtype=bool)
        kept[row, i] = kept[row, j] = False
        current = np.concatenate([current[kept].reshape(rows, size - 2), result[:, None]], axis=1)
        remaining.append(current)
    target = current[:, 0]
    wanted = (target >= targets[0]) & (target <= targets[1]) & (split_codes(numbers, target) == split)
    return Solutions(
        numbers[wanted],
        target[wanted],
        np.stack(lefts, axis=1)[wanted],
        np.stack(operations, axis=1)[wanted],
        np.stack(rights, axis=1)[wanted],
        [r[wanted] for r in remaining],
    )


def problem_text(numbers: tuple[int, ...], target: int) -> str:
    """Return the problem as a line of text.

    >>> problem_text((8, 3, 5), 29)
    'numbers 8 3 5 target 29'
    """
    return f"numbers {' '.join(map(str, numbers))} target {target}"


def generate(count: int, *, numbers: int, split: Split = "test", seed: int = 0) -> list[Problem]:
    """Return `count` solvable problems of `numbers` numbers in [1, 25] and targets in [10, 100], all different.

    The list depends on the arguments alone, and a shorter list is the start of a longer one. Whatever the seeds, problems of
    different splits are different. Raises InputError for arguments out of range, and when so many problems do not exist.
    """
    if count < 0:
        raise InputError(f"count is {count}", "Ask for 0 or more problems")
    if not FEWEST <= numbers <= MOST:
        raise InputError(f"numbers is {numbers}", f"Ask for {FEWEST} to {MOST} numbers a problem")
    if split not in SPLITS:
        raise InputError(f"split is {split!r}", f"Use one of {', '.join(SPLITS)}")
    if seed < 0:
        raise InputError(f"seed is {seed}", "Use a seed of 0 or more")
    rng = np.random.default_rng((seed, numbers, SPLITS.index(split)))
    seen: set[tuple[tuple[int, ...], int]] = set()
    problems: list[Problem] = []
    dry = 0
    while len(problems) < count:
        drawn = random_solutions(rng, rows=_BLOCK, count=numbers, largest=25, targets=(10, 100), split=split)
        before = len(problems)
        for row, goal in zip(drawn.numbers.tolist(), drawn.target.tolist(), strict=True):
            key = (tuple(sorted(row)), int(goal))
            if key in seen or len(problems) == count:
                continue
            seen.add(key)
            given = tuple(int(n) for n in row)
            name = f"countdown-{split}-{numbers}-{len(problems):06d}"
            problems.append(Problem(id=name, text=problem_text(given, key[1]), numbers=given, target=key[1]))
        dry = dry + 1 if len(problems) == before else 0
        if dry == _DRY_BLOCKS:
            raise InputError(
                f"only {len(problems)} different {split} problems of {numbers} numbers were found, {count} were asked for",
                "Ask for fewer problems, or for more numbers a problem",
            )
    return problems
