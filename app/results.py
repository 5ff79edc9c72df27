"""What is reported of one problem, and the count over all of them.

One line of JSON a problem; the names in it are fixed, scripts of users depend on them. This file knows no stream and no
search.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field

from treewise.search.types import Answer, Bill, SearchEnd, Verdict, VerdictKind


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one row of the input."""

    id: str
    answer: str | None
    """The best finished answer; None when nothing finished."""
    verdict: Verdict | None
    """None when there is no answer, or nothing to check it against."""
    value: float | None
    """Value in [0, 1] by which the answer was chosen."""
    reason: str
    """One sentence; starts with "failed: " after a fault of the infrastructure, with "input: " for an unusable row."""
    bill: Bill = field(default_factory=Bill)
    failed: bool = False
    """Policy, evaluator or an internal check failed."""
    rejected: bool = False
    """The row could not run."""

    @classmethod
    def of(cls, answer: Answer, verdict: Verdict | None) -> Result:
        """Return the result of a search that has ended."""
        failed = answer.end is SearchEnd.FAILED
        reason = f"failed: {answer.reason}" if failed else answer.reason
        if verdict is not None and verdict.kind is VerdictKind.UNDECIDED and verdict.reason:
            reason = f"{reason}; undecided: {verdict.reason}"
        return cls(answer.problem_id, answer.text, verdict, _finite(answer.value), reason, answer.bill, failed=failed)

    @property
    def finished(self) -> bool:
        """Whether there is an answer."""
        return self.answer is not None

    def line(self) -> str:
        """One line of strict JSON in ASCII, without the line break."""
        record = {
            "id": self.id,
            "answer": self.answer,
            "finished": self.finished,
            "verdict": None if self.verdict is None else self.verdict.kind.value,
            "value": self.value,
            "reason": self.reason,
            "bill": asdict(self.bill),
        }
        return json.dumps(record, allow_nan=False)


@dataclass(slots=True)
class Tally:
    """Counts over the results so far."""

    total: int = 0
    """Rows, unusable ones included."""
    correct: int = 0
    incorrect: int = 0
    undecided: int = 0
    unchecked: int = 0
    """Answers with nothing to check them against."""
    unfinished: int = 0
    """Searches that ended without an answer and did not fail."""
    failed: int = 0
    rejected: int = 0
    simulations: int = 0
    policy_tokens: int = 0
    evaluator_tokens: int = 0
    cancelled_tokens: int = 0
    """Upper bound of the tokens in withdrawn requests; not in `policy_tokens`."""
    cut: int = 0
    """Paths cut by a length limit or a budget."""

    def add(self, result: Result) -> None:
        """Count one result, under exactly one of the kinds."""
        self.total += 1
        self.simulations += result.bill.simulations
        self.policy_tokens += result.bill.policy_tokens
        self.evaluator_tokens += result.bill.evaluator_tokens
        self.cancelled_tokens += result.bill.cancelled_tokens
        self.cut += result.bill.unfinished
        if result.rejected:
            self.rejected += 1
        elif result.failed:
            self.failed += 1
        elif not result.finished:
            self.unfinished += 1
        elif result.verdict is None:
            self.unchecked += 1
        elif result.verdict.kind is VerdictKind.CORRECT:
            self.correct += 1
        elif result.verdict.kind is VerdictKind.INCORRECT:
            self.incorrect += 1
        else:
            self.undecided += 1

    def sentence(self, *, seconds: float) -> str:
        """The counts in words; `seconds` is the wall-clock time of the run."""
        kinds = ("incorrect", "undecided", "unchecked", "unfinished", "failed", "rejected")
        others = [f"{getattr(self, kind)} {kind}" for kind in kinds if getattr(self, kind)]
        parts = [f"{self.correct} of {self.total} correct", *others]
        parts.append(f"{self.simulations:,} simulations")
        parts.append(f"{self.policy_tokens:,} policy tokens")
        if self.cancelled_tokens:
            parts.append(f"at most {self.cancelled_tokens:,} more in cancelled requests")
        if self.evaluator_tokens:
            parts.append(f"{self.evaluator_tokens:,} evaluator tokens")
        rate = f" ({self.policy_tokens / seconds:,.0f} tokens/s)" if seconds > 0 and self.policy_tokens else ""
        parts.append(f"{seconds:.1f} s{rate}")
        return ", ".join(parts)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
