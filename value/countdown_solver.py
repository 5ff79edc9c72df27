"""Exhaustive Countdown solver: the exact truth of a state, for measuring and for tests only.

No search, policy, trainer or command may import it. A solution's last operation joins two results, each made of one part of
the numbers; so the values that a multiset can reach follow from those of its parts, and are at most LIMIT + 1 many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from treewise.search.types import InputError
from treewise.value.countdown import LIMIT
from treewise.value.expressions import Expression, join, number

Numbers = tuple[int, ...]

LARGEST = 8
"""Most numbers it takes on: the work grows threefold with each."""


class CountdownSolver:
    """Knows what every multiset of numbers can reach, and remembers what it worked out.

    >>> CountdownSolver().solvable((8, 3, 5), 29)
    True
    """

    def __init__(self) -> None:
        self._reach: dict[Numbers, frozenset[int]] = {}

    def reachable(self, numbers: Sequence[int]) -> frozenset[int]:
        """Return every value in [0, LIMIT] that uses each number exactly once.

        Raises InputError for no number, more than LARGEST, or one outside [0, LIMIT].
        """
        if not 1 <= len(numbers) <= LARGEST:
            raise InputError(f"{len(numbers)} numbers", f"The solver takes 1 to {LARGEST}")
        if any(not 0 <= n <= LIMIT for n in numbers):
            raise InputError(f"numbers {list(numbers)}", f"Each must be in [0, {LIMIT}]")
        return self._values(tuple(sorted(numbers)))

    def solvable(self, numbers: Sequence[int], target: int) -> bool:
        """Return whether the numbers left can still give the target. Raises as `reachable`."""
        return target in self.reachable(numbers)

    def solution(self, numbers: Sequence[int], target: int) -> str | None:
        """Return one expression that gives the target, or None when there is none. Raises as `reachable`."""
        return self._build(tuple(sorted(numbers)), target).text if self.solvable(numbers, target) else None

    def _values(self, numbers: Numbers) -> frozenset[int]:
        known = self._reach.get(numbers)
        if known is not None:
            return known
        found = set(numbers) if len(numbers) == 1 else set()
        for part, rest in _halves(numbers):
            others = self._values(rest)
            for x in self._values(part):
                for y in others:
                    a, b = (x, y) if x >= y else (y, x)
                    if a + b <= LIMIT:
                        found.add(a + b)
                    found.add(a - b)
                    if a * b <= LIMIT:
                        found.add(a * b)
                    if b and a % b == 0:
                        found.add(a // b)
        values = frozenset(found)
        self._reach[numbers] = values
        return values

    def _build(self, numbers: Numbers, target: int) -> Expression:
        if len(numbers) == 1:
            return number(numbers[0])
        for part, rest in _halves(numbers):
            others = self._values(rest)
            for x in self._values(part):
                for y in others:
                    a, b = (x, y) if x >= y else (y, x)
                    first, second = (part, rest) if x >= y else (rest, part)
                    for symbol, hit in (
                        ("+", a + b == target),
                        ("-", a - b == target),
                        ("*", a * b == target),
                        ("/", b > 0 and a == b * target),
                    ):
                        if hit:
                            return join(self._build(first, a), symbol, self._build(second, b))
        raise InputError(f"{target} is out of reach of {list(numbers)}", "Ask `solvable` first")


def _halves(numbers: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """Every different way to deal the sorted numbers into two non-empty parts, each unordered pair once."""
    seen: set[Numbers] = set()
    for size in range(1, len(numbers) // 2 + 1):
        for chosen in combinations(range(len(numbers)), size):
            part = tuple(numbers[i] for i in chosen)
            if part in seen:
                continue
            seen.add(part)
            yield part, tuple(n for i, n in enumerate(numbers) if i not in chosen)
