"""Method "auto": which search method for this evaluator and this budget, and why in one sentence.

The rule is as coarse as what was measured. It knows the kind of evaluator, whether the task proves answers, and about how many
solutions the budget pays for; it sees no problem and no result.

Every step scored: right answers in per cent on the scripted worlds (clean / noisy / deceptive / both; a solution is 8 steps),
`python -m benchmarks.methods_worlds --seeds 60 --first-seed 0 --budgets 16 32 128`:

| steps | belief | beam | ab-mcts | mcts | best-of-n | greedy |
|---|---|---|---|---|---|---|
| 16 | 0 / 0 / 5 / 2 | 0 / 2 / 3 / 3 | 2 / 2 / 5 / 2 | 2 / 2 / 0 / 5 | 0 / 0 / 3 / 2 | 2 / 2 / 2 / 2 |
| 32 | 78 / 20 / 33 / 12 | 17 / 2 / 8 / 5 | 8 / 8 / 2 / 2 | 3 / 0 / 3 / 0 | 3 / 5 / 3 / 0 | 2 / 2 / 2 / 2 |
| 128 | 100 / 85 / 62 / 50 | 98 / 77 / 42 / 27 | 70 / 38 / 25 / 17 | 7 / 3 / 10 / 5 | 7 / 2 / 7 / 2 | 2 / 2 / 2 / 2 |

No step scored, answers proven: Countdown (`benchmarks/baselines/countdown_search.json`, 450 problems of 4 to 6 numbers), mcts
24 / 40 / 56 / 66 / 81 / 88 and best-of-n 23 / 39 / 54 / 68 / 79 / 89 % at 64 to 2,048 tokens: no difference. Greedy decoding
has 48 / 29 / 19 % with 4 / 5 / 6 numbers, which best-of-n passes at 128 / 128 / 256 tokens: 3 to 5 solutions. Belief search
solved 15 of 60 there where mcts solved 48 (4 numbers, 256 tokens, validation): it needs scores.

Neither: majority, after Wang et al. 2022, arXiv:2203.11171. Our own 20 math problems show no difference to greedy.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from treewise.search.budget import Budget
from treewise.search.settings import MethodName, SearchSettings
from treewise.search.types import Task

EvaluatorKind = Literal["constant", "judgement", "value", "prm"]
"""constant: the same for every path. judgement: what the task can see, so dead and proven paths alone stand out. value: the
chance that a path ends well. prm: whether its steps are right."""

FEWEST_SOLUTIONS = 3.0
"""Below so many solutions nothing was measured to be better than the one most likely solution."""

TYPICAL_SHARE = 8.0
"""A solution is expected to take so small a part of the task's limits: 1/8 is 30 tokens on Countdown, where 27 to 50 were
measured, and 768 on math, where about 290 were."""

UNBOUNDED_SAMPLES = 100_000
"""Samples of majority where neither simulations nor tokens bound them."""


def evaluator_kind(fingerprint: str) -> EvaluatorKind:
    """Return what an evaluator is, by the word before the colon of its fingerprint; one that names no kind is a value.

    >>> evaluator_kind("judgement:countdown:0.5"), evaluator_kind("value_net:ab12")
    ('judgement', 'value')
    """
    word = fingerprint.partition(":")[0]
    return word if word in ("constant", "judgement", "prm") else "value"  # type: ignore[return-value]


def solutions_paid(budget: Budget, *, task: Task, settings: SearchSettings) -> float:
    """Return about how many solutions a budget pays for; infinite where neither simulations nor tokens bound it."""
    limit = (settings.step_tokens or task.step_tokens) * (settings.max_steps or task.max_steps)
    by_tokens = math.inf if budget.tokens is None else budget.tokens * TYPICAL_SHARE / limit
    return by_tokens if budget.simulations is None else min(by_tokens, float(budget.simulations))


def choose_method(settings: SearchSettings, *, budget: Budget, evaluator: EvaluatorKind, task: Task) -> SearchSettings:
    """Return the settings with a method in place of "auto" and the reason in `method_reason`; others are returned as they are."""
    if settings.method != "auto":
        return settings
    solutions = solutions_paid(budget, task=task, settings=settings)
    method: MethodName
    if solutions < FEWEST_SOLUTIONS:
        method = "greedy"
        reason = f"the budget pays for about {solutions:.1f} solutions, and no search of so few beats the most likely one"
    elif evaluator in ("value", "prm"):
        method = "belief"
        reason = "the evaluator scores unfinished steps, and no other method was right as often by such scores"
    elif task.self_verifying:
        method = "mcts"
        reason = (
            "nothing scores unfinished steps, but the task proves answers: sharing prefixes and leaving dead ends did as well as "
            "any other method"
        )
    else:
        method = "majority"
        reason = "nothing scores steps and the task proves no answer, so the commonest answer is the best guess"
    if method != "majority":
        return replace(settings, method=method, method_reason=reason)
    samples = min((n for n in (budget.simulations, budget.tokens) if n is not None), default=UNBOUNDED_SAMPLES)
    return replace(settings, method=method, method_reason=reason, samples=max(1, samples))
