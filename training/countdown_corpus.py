"""Countdown training text: random solvable problems with one random solution each, made forwards, as token rows.

Numbers are drawn first, then random legal steps are applied until one number is left, which becomes the target. So each
row is a right solution by construction and no solver is involved. Problems of the validation and test splits are dropped.
This file does not know the model.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treewise.value.countdown import LIMIT, Split, split_codes

WORDS: tuple[str, ...] = ("<pad>", "<bos>", "<eos>", "\n", "numbers", "target", "left", "=", "+", "-", "*", "/")
"""The non-numeric vocabulary; number `k` has id `len(WORDS) + k`."""

PAD, BOS, EOS, NEWLINE, NUMBERS, TARGET, LEFT, EQUALS = range(8)
OPERATION_IDS = np.array([8, 9, 10, 11], dtype=np.int64)
FIRST_NUMBER = len(WORDS)
VOCABULARY: tuple[str, ...] = WORDS + tuple(str(k) for k in range(LIMIT + 1))


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
    """Return at least one and at most `rows` solved problems with `count` numbers in `[1, largest]` and a target in `targets`."""
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


def token_rows(solutions: Solutions) -> tuple[npt.NDArray[np.int64], int]:
    """Return token ids int64 `[B, T]` (no padding: all rows have the same length) and the prompt length in tokens."""
    rows, count = solutions.numbers.shape
    word = lambda token: np.full((rows, 1), token, dtype=np.int64)  # noqa: E731
    number = lambda values: FIRST_NUMBER + values.reshape(rows, -1)  # noqa: E731
    parts = [word(BOS), word(NUMBERS), number(solutions.numbers), word(TARGET), number(solutions.target), word(NEWLINE)]
    prompt_length = sum(p.shape[1] for p in parts)
    for k in range(count - 1):
        left = solutions.remaining[k]
        result = left[:, -1]
        operation = OPERATION_IDS[solutions.operation[:, k]][:, None]
        parts += [number(solutions.left[:, k]), operation, number(solutions.right[:, k]), word(EQUALS), number(result)]
        parts += [word(LEFT), number(left), word(EOS if k == count - 2 else NEWLINE)]
    return np.concatenate(parts, axis=1), prompt_length
