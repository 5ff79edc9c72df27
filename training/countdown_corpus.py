"""Countdown training text: random solved problems as token rows, in the embedded policy's vocabulary.

The solutions are made forwards by `value/countdown_problems.py`, each right by construction; problems of the validation and
test splits are not among them. This file does not know the model.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from treewise.value.countdown import LIMIT
from treewise.value.countdown_problems import Solutions, random_solutions

__all__ = ["BOS", "EOS", "PAD", "VOCABULARY", "Solutions", "random_solutions", "token_rows"]

WORDS: tuple[str, ...] = ("<pad>", "<bos>", "<eos>", "\n", "numbers", "target", "left", "=", "+", "-", "*", "/")
"""The non-numeric vocabulary; number `k` has id `len(WORDS) + k`."""

PAD, BOS, EOS, NEWLINE, NUMBERS, TARGET, LEFT, EQUALS = range(8)
OPERATION_IDS = np.array([8, 9, 10, 11], dtype=np.int64)
FIRST_NUMBER = len(WORDS)
VOCABULARY: tuple[str, ...] = WORDS + tuple(str(k) for k in range(LIMIT + 1))


def token_rows(solutions: Solutions) -> tuple[npt.NDArray[np.int64], int]:
    """Return token ids int64 `[B, T]` (no padding: all rows have the same length) and the prompt length in tokens."""
    rows, count = solutions.numbers.shape

    def word(token: int) -> npt.NDArray[np.int64]:
        return np.full((rows, 1), token, dtype=np.int64)

    def number(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return FIRST_NUMBER + values.reshape(rows, -1)

    parts = [word(BOS), word(NUMBERS), number(solutions.numbers), word(TARGET), number(solutions.target), word(NEWLINE)]
    prompt_length = sum(p.shape[1] for p in parts)
    for k in range(count - 1):
        left = solutions.remaining[k]
        result = left[:, -1]
        operation = OPERATION_IDS[solutions.operation[:, k]][:, None]
        parts += [number(solutions.left[:, k]), operation, number(solutions.right[:, k]), word(EQUALS), number(result)]
        parts += [word(LEFT), number(left), word(EOS if k == count - 2 else NEWLINE)]
    return np.concatenate(parts, axis=1), prompt_length
