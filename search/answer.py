"""Choosing the answer among the finished paths of a search, and saying why there is none.

Ties go by a seeded hash and not by order of creation, so that no rule favours what came first. This file knows trees only
through the candidates it is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from treewise.search.settings import AggregationName, ChoiceName


class Candidate(NamedTuple):
    """A finished path."""

    node: int
    text: str
    """Its answer."""
    values: tuple[float, ...]
    """Evaluator's value of each step on the path, root first; NaN where there is none; the last one is never NaN."""
    visits: tuple[int, ...]
    """Visits of each step on the path."""
    copies: int = 1
    """How many generated samples ended in this node."""


class Choice(NamedTuple):
    """The chosen candidate and the number that chose it."""

    candidate: Candidate
    value: float
    """The candidate's aggregated value, in [0, 1]."""


def aggregate(values: Sequence[float], how: AggregationName) -> float:
    """Return one value in [0, 1] for a path: of its last step, the least, or the product; NaN steps are left out.

    Source: best-of-n aggregations of PRM scores (Lightman et al. 2023, arXiv:2305.20050, section 2.6 uses the product).

    >>> aggregate([0.5, 0.8], "product")
    0.4
    """
    known = [v for v in values if v == v]
    if not known:
        raise ValueError("no value to aggregate")
    if how == "last":
        return known[-1]
    if how == "min":
        return min(known)
    product = 1.0
    for value in known:
        product *= value
    return product


def choose(
    candidates: Sequence[Candidate], *, choice: ChoiceName, aggregation: AggregationName = "last", seed: int = 0
) -> Choice | None:
    """Return the answer, or None when nothing finished.

    - `value`: the largest aggregated value.
    - `planned`: the same; the caller leaves only the paths below the planned first step.
    - `visits`: the most visited child again and again, among children that lead to a finished path.
    - `majority`: the answer text that most samples ended in (self-consistency, Wang et al. 2022, arXiv:2203.11171), and
      of those the path with the largest value.
    - `weighted-majority`: the same with each sample weighing its value (Li et al. 2022, arXiv:2206.02336, eq. 3).
    """
    if not candidates:
        return None
    worth = {c.node: aggregate(c.values, aggregation) for c in candidates}

    def best(among: Sequence[Candidate]) -> Choice:
        chosen = max(among, key=lambda c: (worth[c.node], _lot(seed, str(c.node))))
        return Choice(chosen, worth[chosen.node])

    if choice in ("value", "planned"):
        return best(candidates)
    if choice == "visits":
        return best(_most_visited(candidates))
    votes: dict[str, float] = {}
    for c in candidates:
        weight = c.copies * (worth[c.node] if choice == "weighted-majority" else 1.0)
        votes[c.text] = votes.get(c.text, 0.0) + weight
    winner = max(votes, key=lambda text: (votes[text], _lot(seed, text)))
    return best([c for c in candidates if c.text == winner])


def why_none(reasons: Sequence[str]) -> str:
    """Return what is said of paths that ended without an answer, from the reason of each: their number and the commonest.

    >>> why_none(["reaches 51, not 100", "ends", "reaches 51, not 100"])
    '; 3 ended without one, most often: reaches 51, not 100'
    """
    if not reasons:
        return ""
    reason, most = Counter(reasons).most_common(1)[0]
    how = "" if len(reasons) == 1 else ", most often" if most > 1 else ", for instance"
    return f"; {len(reasons)} ended without one{how}: {reason}"


def _most_visited(candidates: Sequence[Candidate]) -> Sequence[Candidate]:
    """Return the candidates that are left when each level keeps the children with the most visits."""
    left, depth = list(candidates), 0
    while len(left) > 1 and any(len(c.visits) > depth for c in left):
        deeper = [c for c in left if len(c.visits) > depth]
        most = max(c.visits[depth] for c in deeper)
        left = [c for c in deeper if c.visits[depth] == most]
        depth += 1
    return left


def _lot(seed: int, key: str) -> bytes:
    return blake2b(f"{seed}\x1f{key}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
