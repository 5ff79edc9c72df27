"""Countdown's rules and splits: what one operation may give, and which problems are for training, validation and test.

This file knows no text format, no task and no model.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from treewise.search.types import TreewiseError

LIMIT = 200
"""Every number on the way is an integer in [0, LIMIT]."""

FEWEST, MOST = 2, 10
"""Least and greatest count of numbers of a problem."""

Split = Literal["train", "validation", "test"]


class BrokenRule(TreewiseError):
    """An operation or expression breaks a rule of Countdown."""


def combine(left: int, symbol: str, right: int) -> int:
    """Return `left symbol right`, an integer in [0, LIMIT], for one of the symbols + - * /.

    Raises BrokenRule when the result is negative, fractional, above LIMIT, or a division by zero.

    >>> combine(8, "*", 3)
    24
    """
    operation = f"{left} {symbol} {right}"
    if symbol == "/":
        if right == 0:
            raise BrokenRule(f"{operation} divides by zero")
        if left % right:
            raise BrokenRule(f"{operation} is not an integer")
        return left // right
    if symbol not in ("+", "-", "*"):
        raise BrokenRule(f"{symbol!r} is not one of the operations + - * /")
    result = left + right if symbol == "+" else left - right if symbol == "-" else left * right
    if result < 0:
        raise BrokenRule(f"{operation} is negative")
    if result > LIMIT:
        raise BrokenRule(f"{operation} is above {LIMIT}")
    return result


def split_codes(numbers: npt.NDArray[np.int64], target: npt.NDArray[np.int64]) -> npt.NDArray[np.str_]:
    """Return the split of each problem, str `[B]`, from int64 numbers `[B, n]` and targets `[B]`.

    The split is a hash of the multiset of numbers and the target, so a problem belongs to one split whatever seed made it.
    """
    key = np.zeros(len(target), dtype=np.uint64)
    for column in [*np.sort(numbers, axis=1).T, target]:
        key = (key ^ (column.astype(np.uint64) + np.uint64(1))) * np.uint64(0x100000001B3)
        key ^= key >> np.uint64(29)
    bucket = (key ^ (key >> np.uint64(32))) % np.uint64(20)
    return np.where(bucket == 0, "test", np.where(bucket == 1, "validation", "train"))
