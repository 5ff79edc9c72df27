"""What paths have taken so far, and so what the next one is likely to take: steps to its end, tokens a step.

Before anything is known the limits stand in for it; for those who share a budget among many paths, a part of them.
"""

from __future__ import annotations

LIKELY_TOKENS = 1 / 4
"""Part of the limit of tokens that a step is likely to take. Countdown: 24 allowed, 9 taken; math: 256 allowed, 35 taken."""


class Pace:
    """Running means of one search."""

    def __init__(self, *, max_steps: int, step_tokens: int) -> None:
        self._max_steps = max_steps
        self._step_tokens = step_tokens
        self._depths = self._ends = 0
        self._tokens = self._steps = 0

    def grown(self, *, tokens: int, steps: int) -> None:
        """Steps were generated, with so many tokens in all."""
        self._tokens += tokens
        self._steps += steps

    def ended(self, depth: int) -> None:
        """A path ended at this depth, finished or dead."""
        self._depths += depth
        self._ends += 1

    @property
    def depth(self) -> float:
        """Depth at which a path is expected to end; before one has, the limit."""
        return self._depths / self._ends if self._ends else float(self._max_steps)

    @property
    def step_tokens(self) -> float:
        """Tokens that a step is expected to take; before one is known, the limit."""
        return self._tokens / self._steps if self._steps else float(self._step_tokens)

    def path_tokens(self, depth: int) -> float:
        """Tokens that a path is expected to take from `depth` to its end; at least 1."""
        return max(1.0, self.step_tokens * max(1.0, self.depth - depth))

    def likely_tokens(self, depth: int) -> float:
        """The same with a part of a step's limit, but at least one token, before any step is known."""
        if self._steps:
            return self.path_tokens(depth)
        return max(1.0, LIKELY_TOKENS * self._step_tokens) * max(1.0, self.depth - depth)
