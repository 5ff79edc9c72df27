"""Countdown's rules, problems and splits (stub to be grown)."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

LIMIT = 200
"""Every number on the way is an integer in [0, LIMIT]."""

Split = Literal["train", "validation", "test"]


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
