"""Evaluators' results, checked: one finite number in [0, 1] a path, or an error that names the path."""

from __future__ import annotations

import math
from collections.abc import Sequence

from treewise.search.types import Evaluation, Evaluator, EvaluatorError, Path


def evaluate_checked(evaluator: Evaluator, paths: Sequence[Path]) -> list[Evaluation]:
    """Return one evaluation a path. Raises EvaluatorError on a wrong count or a value that is not in [0, 1]."""
    evaluations = evaluator.evaluate(paths)
    if len(evaluations) != len(paths):
        raise EvaluatorError(
            f"evaluator {evaluator.fingerprint} gave {len(evaluations)} values for {len(paths)} paths",
            "it must return one evaluation a path, in order",
        )
    for path, evaluation in zip(paths, evaluations, strict=True):
        if not (math.isfinite(evaluation.value) and 0.0 <= evaluation.value <= 1.0):
            raise EvaluatorError(
                f"evaluator {evaluator.fingerprint} gave {evaluation.value} for problem {path.problem.id!r}, "
                f"step {len(path.ends)}: {path.texts[-1] if path.texts else ''!r}",
                "values are probabilities in [0, 1]",
            )
    return evaluations
