"""`Rule`: how a child is chosen, as a validated record of documented options, and as plain numbers for the kernels.

It knows no tree and compiles nothing; `scoring.py` reads the numbers.

Sources: UCT, Kocsis & Szepesvari 2006, and Auer et al. 2002 (UCB1). PUCT and the growing constant, Silver et al. 2018
(AlphaZero), supplementary pseudocode; Schrittwieser et al. 2020 (MuZero), appendix B. Gumbel, Danihelka et al. 2022, section 5
and appendix D. WU-UCT, Liu et al. 2020, eq. 4. Progressive widening, Couetoux et al. 2011. First-play reduction, Leela Chess
Zero. Exploration scaled by variance: UCB-V, Audibert, Munos & Szepesvari 2009, eq. 1; dynamic variance-scaled cPUCT, KataGo
(docs/KataGoMethods.md; the shrinkage to a usual spread is written differently there).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treewise.search.types import InputError

PUCT, ALPHAZERO, UCT, GUMBEL, CHANCE = range(5)
FIRST_ABSOLUTE, FIRST_PARENT, FIRST_REDUCTION = range(3)
RANGE_NONE, RANGE_FIXED, RANGE_SIBLINGS = range(3)
TOTAL_PARENT, TOTAL_CHILDREN, TOTAL_COMPLETED = range(3)

RuleParams: TypeAlias = NDArray[np.void]
"""One record of `PARAMS`, shape `[1]`, read-only: what kernels take in place of a `Rule`. A compiled call unpacks it in under
1 us, a named tuple of as many numbers in 5 us."""

PARAMS = np.dtype(
    [
        ("kind", np.int64),
        ("exploration", np.float64),
        ("exploration_base", np.float64),
        ("variance_scaled", np.int64),
        ("usual_spread", np.float64),
        ("usual_weight", np.float64),
        ("first_play", np.int64),
        ("first_play_value", np.float64),
        ("value_range", np.int64),
        ("value_min", np.float64),
        ("value_max", np.float64),
        ("own_weight", np.float64),
        ("backup_max", np.int64),
        ("virtual_loss", np.int64),
        ("loss_count", np.float64),
        ("loss_value", np.float64),
        ("loss_floor", np.float64),
        ("total", np.int64),
        ("total_floor", np.float64),
        ("widening_k", np.float64),
        ("widening_alpha", np.float64),
        ("revisit_terminals", np.int64),
        ("terminal_by_outcome", np.int64),
        ("value_scale", np.float64),
        ("visit_offset", np.float64),
        ("rescale_values", np.int64),
        ("tie_seed", np.int64),
    ]
)

_KINDS = {"puct": PUCT, "alphazero": ALPHAZERO, "uct": UCT, "gumbel": GUMBEL, "chance": CHANCE}
_FIRST_PLAYS = {"absolute": FIRST_ABSOLUTE, "parent": FIRST_PARENT, "reduction": FIRST_REDUCTION}
_RANGES = {"none": RANGE_NONE, "fixed": RANGE_FIXED, "siblings": RANGE_SIBLINGS}
_TOTALS = {"parent": TOTAL_PARENT, "children": TOTAL_CHILDREN, "completed": TOTAL_COMPLETED}


@dataclass(frozen=True)
class Rule:
    """How `Tree.descend` scores the children of a node. n, o: completed and unfinished visits of a child; N, O: of its parent;
    P: normalised prior; Q: value of the child, rescaled by `value_range`."""

    name: Literal["puct", "alphazero", "uct", "gumbel", "chance"] = "puct"
    """puct: Q + c P sqrt(T) / (1 + n + o). alphazero: the same with c = exploration + ln((T + base + 1) / base).
    uct: Q + c sqrt(ln T / (n + o)), infinite at n + o = 0; the child's own evaluation counts in n. T is the `total`.
    gumbel: softmax(ln P + sigma(completed Q)) - (n + o) / (1 + sum(n + o)), for nodes below the root. chance: P / (1 + n + o)."""
    exploration: float = 1.25
    """Weight of the exploration term: c of puct and uct, pb_c_init of alphazero; at least 0."""
    exploration_base: float = 19652.0
    """alphazero: pb_c_base; above 0."""
    variance_scaled: bool = False
    """Exploration in proportion to how much returns vary. puct, alphazero: the exploration term is multiplied by s /
    usual_spread, where s**2 = (usual_weight usual_spread**2 + sum of the parent's squared deviations) / (usual_weight + N).
    uct: UCB-V, Q + c sqrt(V ln T / (n + o)) + 1.5 c**2 ln T / (n + o), V the variance of the child's returns. All on the scale
    after `value_range`, where values are taken to have a range of 1. gumbel, chance: no effect."""
    usual_spread: float = 0.2
    """variance_scaled: standard deviation of returns at which puct explores as without; above 0. KataGo: 0.4 on [-1, 1]."""
    usual_weight: float = 2.0
    """variance_scaled: how many returns of that spread are taken as seen before the first; above 0."""
    first_play: Literal["absolute", "parent", "reduction"] = "absolute"
    """Q of a child with neither visits nor an evaluation: `first_play_value`; the parent's mean value; the parent's mean value
    minus `first_play_value` * sqrt(prior mass of the children that have a value). All on the scale after `value_range`."""
    first_play_value: float = 0.0
    """The value of "absolute", the reduction of "reduction"; "parent" ignores it."""
    value_range: Literal["none", "fixed", "siblings"] = "none"
    """Values used as they are; mapped from [value_min, value_max] to [0, 1]; mapped from the least and greatest value among the
    parent and its valued children to [0, 1]."""
    value_min: float = 0.0
    """Lower end of "fixed"."""
    value_max: float = 1.0
    """Upper end of "fixed"; above `value_min`."""
    own_weight: float = 0.0
    """How many visits a node's own evaluation counts for in Q; at least 0. 0: only backed-up returns count (AlphaZero)."""
    backup: Literal["mean", "max"] = "mean"
    """Q is the mean of the returns, or the best value below the child."""
    in_flight: Literal["wu", "virtual_loss"] = "wu"
    """Unfinished visits count in the exploration term only (WU-UCT), or count as `loss_count` visits each of value `loss_value`
    in both terms (virtual loss)."""
    loss_count: float = 1.0
    """virtual_loss: visits that one unfinished visit stands for; above 0."""
    loss_value: float = 0.0
    """virtual_loss: the value they are given."""
    loss_floor: float = 0.0
    """virtual_loss: least weight of Q against the losses. At 0 an unvisited child in flight has the value `loss_value`; KataGo
    has 0.25."""
    total: Literal["parent", "children", "completed"] = "parent"
    """T: N + O of the parent, sum(n + o) over the children, or sum(n) over the children."""
    total_floor: float = 1.0
    """Least T; above 0 lets the prior decide the first choice."""
    widening_k: float = 0.0
    """Progressive widening: another child is wanted while the samples drawn are at most k N**alpha; 0 turns it off."""
    widening_alpha: float = 0.5
    """Exponent of widening, in [0, 1]."""
    revisit_terminals: bool = False
    """Whether a subtree in which everything is finished is entered again, as the reference programs do."""
    terminal_by_outcome: bool = False
    """Whether the score of a terminal child, once visited, is its Q alone, without an exploration term (OpenSpiel)."""
    value_scale: float = 0.1
    """gumbel: c_scale of sigma(q) = (visit_offset + max n) c_scale q; at least 0."""
    visit_offset: float = 50.0
    """gumbel: c_visit of sigma; at least 0."""
    rescale_values: bool = True
    """gumbel: completed values are mapped to [0, 1] before sigma."""
    tie_seed: int = 0
    """0: among equal scores the first child wins. Else: the winner is drawn by a hash of this seed and the child's id."""

    def __post_init__(self) -> None:
        for name, choices in (
            ("name", _KINDS),
            ("first_play", _FIRST_PLAYS),
            ("value_range", _RANGES),
            ("total", _TOTALS),
            ("backup", ("mean", "max")),
            ("in_flight", ("wu", "virtual_loss")),
        ):
            if getattr(self, name) not in choices:
                raise InputError(f"rule option {name} is {getattr(self, name)!r}", f"give one of {', '.join(choices)}")
        for name, low, high in _LIMITS:
            value = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, (int, float))
                or not math.isfinite(value)
                or not low <= value <= high
            ):
                raise InputError(f"rule option {name} is {value!r}", f"give a finite number in [{low:g}, {high:g}]")
        for name in ("exploration_base", "loss_count", "usual_spread", "usual_weight"):
            if getattr(self, name) <= 0:
                raise InputError(f"rule option {name} is {getattr(self, name)!r}", "give a number above 0")
        if not self.value_min < self.value_max:
            raise InputError(
                f"value_min {self.value_min!r} is not below value_max {self.value_max!r}", "give an interval of positive width"
            )
        if isinstance(self.tie_seed, bool) or not isinstance(self.tie_seed, int) or not 0 <= self.tie_seed < 2**63:
            raise InputError(f"rule option tie_seed is {self.tie_seed!r}", "give a whole number in [0, 2**63)")

    def params(self) -> RuleParams:
        """Return the rule as numbers, one read-only record; the same array at every call."""
        return self._params

    @cached_property
    def _params(self) -> RuleParams:
        params = np.zeros(1, PARAMS)
        record = params[0]
        for name in PARAMS.names or ():
            if hasattr(self, name):
                value = getattr(self, name)
                if not isinstance(value, str):
                    record[name] = value
        record["kind"] = _KINDS[self.name]
        record["first_play"] = _FIRST_PLAYS[self.first_play]
        record["value_range"] = _RANGES[self.value_range]
        record["total"] = _TOTALS[self.total]
        record["backup_max"] = self.backup == "max"
        record["virtual_loss"] = self.in_flight == "virtual_loss"
        params.setflags(write=False)
        return params


_LIMITS = (
    ("exploration", 0.0, math.inf),
    ("exploration_base", 0.0, math.inf),
    ("usual_spread", 0.0, math.inf),
    ("usual_weight", 0.0, math.inf),
    ("first_play_value", -math.inf, math.inf),
    ("value_min", -math.inf, math.inf),
    ("value_max", -math.inf, math.inf),
    ("own_weight", 0.0, math.inf),
    ("loss_count", 0.0, math.inf),
    ("loss_value", -math.inf, math.inf),
    ("loss_floor", 0.0, math.inf),
    ("total_floor", 0.0, math.inf),
    ("widening_k", 0.0, math.inf),
    ("widening_alpha", 0.0, 1.0),
    ("value_scale", 0.0, math.inf),
    ("visit_offset", 0.0, math.inf),
)


def with_noise(weights: ArrayLike, noise: ArrayLike, *, fraction: float) -> NDArray[np.float64]:
    """Return the root prior (1 - fraction) * normalised weights + fraction * noise, shape `[K]`.

    Raises InputError when the shapes differ, a number is negative or not finite, or `fraction` is outside [0, 1].
    Source: Silver et al. 2017 (AlphaGo Zero), Methods, "Select".

    >>> with_noise([3.0, 1.0], [0.0, 1.0], fraction=0.5).tolist()
    [0.375, 0.625]
    """
    prior, sample = np.asarray(weights, np.float64), np.asarray(noise, np.float64)
    if prior.ndim != 1 or prior.shape != sample.shape:
        raise InputError(f"weights of shape {prior.shape} with noise of shape {sample.shape}", "give one noise number a child")
    for name, numbers in (("weights", prior), ("noise", sample)):
        if not np.all(np.isfinite(numbers)) or np.any(numbers < 0):
            raise InputError(f"{name} are {numbers.tolist()}", "give finite numbers of at least 0")
    if not 0.0 <= fraction <= 1.0:
        raise InputError(f"noise fraction is {fraction!r}", "give a number in [0, 1]")
    mass = prior.sum()
    prior = prior / mass if mass > 0 else np.full(prior.shape, 1.0 / max(1, prior.size))
    return (1.0 - fraction) * prior + fraction * sample


def widening_limit(visits: int, *, k: float, alpha: float) -> int:
    """Return how many samples a node visited `visits` times may have: one more is drawn while samples <= k visits**alpha.

    Source: Couetoux et al. 2011; the form of the threshold is MCTS.jl's.

    >>> widening_limit(9, k=1.0, alpha=0.5)
    4
    """
    return math.floor(k * math.pow(visits, alpha)) + 1
