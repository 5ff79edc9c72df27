"""The one gate through which an evaluator's numbers enter a search: anything but one finite probability a path is an error.

A missing or impossible value never becomes a default. This file knows no evaluator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from treewise.search.types import Evaluation, Evaluator, EvaluatorError, Path

_REMEDY = "Correct the evaluator; a default is never put in place of a value"


def evaluate_checked(evaluator: Evaluator, paths: Sequence[Path]) -> list[Evaluation]:
    """Return one evaluation a path, in order, each value a finite float in [0, 1].

    Raises EvaluatorError when the count differs from that of the paths, or a value is missing, NaN, infinite or outside [0, 1];
    it names the first path concerned. Errors of the evaluator itself pass through.
    """
    evaluations = evaluator.evaluate(paths)
    if len(evaluations) != len(paths):
        raise EvaluatorError(
            f"evaluator {evaluator.fingerprint} gave {len(evaluations)} evaluations for {len(paths)} paths "
            f"(first: problem {paths[0].problem.id!r}, {len(paths[0].texts)} steps)"
            if paths
            else f"evaluator {evaluator.fingerprint} gave {len(evaluations)} evaluations for no path",
            _REMEDY,
        )
    for path, evaluation in zip(paths, evaluations, strict=True):
        value = evaluation.value
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or not 0.0 <= value <= 1.0:
            raise EvaluatorError(
                f"evaluator {evaluator.fingerprint} gave the value {value!r}, not a number in [0, 1], "
                f"for problem {path.problem.id!r} after {len(path.texts)} steps",
                _REMEDY,
            )
        readings = evaluation.readings
        if readings and (len(readings) != len(path.texts) or not all(0.0 <= reading <= 1.0 for reading in readings)):
            raise EvaluatorError(
                f"evaluator {evaluator.fingerprint} gave the readings {readings!r}, not one number in [0, 1] a step, "
                f"for problem {path.problem.id!r} after {len(path.texts)} steps",
                _REMEDY,
            )
    return evaluations
