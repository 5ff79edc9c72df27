"""What decides a search: one frozen record, read by every method, stored with every trace.

This file knows no task and no model. A field set where nothing reads it is an error and not a silent no-op: see
`_refuse_idle`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal, get_args

from treewise.search.rules import Rule
from treewise.search.types import InputError

MethodName = Literal[
    "auto",
    "mcts",
    "belief",
    "ab-mcts",
    "beam",
    "dvts",
    "rebase",
    "particles",
    "breadth-first",
    "depth-first",
    "hybrid",
    "entropy-forks",
    "best-of-n",
    "majority",
    "greedy",
]
RuleName = Literal["puct", "alphazero", "uct", "gumbel"]
ChoiceName = Literal["value", "visits", "majority", "weighted-majority", "planned"]
AggregationName = Literal["last", "min", "product"]


@dataclass(frozen=True)
class SearchSettings:
    """Options of a search."""

    method: MethodName = "mcts"
    """Search method; auto chooses by evaluator and budget, and says why."""
    method_reason: str = ""
    """Why method auto chose this method: one sentence, set by it and changing nothing."""
    width: int | None = None
    """Children asked for when a node is expanded, at least 1; None is the method's own default (`WIDTHS`). mcts: when it is first
    expanded."""
    lanes: int | None = None
    """Requests under way at once in one tree; fewer when little budget remains. 1 is exactly sequential. None is the method's own
    default (`LANES`)."""
    beams: int = 4
    """beam, breadth-first: partial solutions kept a level; dvts: subtrees, each of which keeps one."""
    run_to: Literal["finish", "leaf"] = "finish"
    """mcts: a simulation goes on until its path ends ("finish"), or ends with one expansion ("leaf")."""
    rule: RuleName = "puct"
    """mcts: how a child is chosen."""
    exploration: float = 1.0
    """mcts: weight of the exploration term (c of PUCT and UCT, pb_c_init of AlphaZero); at least 0."""
    variance_scaled: bool = False
    """mcts: explore in proportion to how much returns vary: puct and alphazero by the parent's returns, uct as UCB-V."""
    first_play: Literal["absolute", "parent", "reduction"] = "parent"
    """mcts: value of a child that has neither visits nor an evaluation."""
    first_play_value: float = 0.0
    """mcts: that value for "absolute"; the reduction for "reduction"."""
    value_range: Literal["fixed", "siblings", "none"] = "none"
    """mcts: rescaling of values before they meet the exploration term."""
    own_weight: float = 1.0
    """mcts: how many visits a node's own evaluation counts for; at least 0."""
    backup: Literal["mean", "max", "belief"] = "mean"
    """mcts: selection uses the mean of the visits, the best value below, or the posterior that the path to a node is right given
    every reading in the tree (belief backup); with the last, answers are chosen by their posterior too."""
    in_flight: Literal["wu", "virtual_loss"] = "wu"
    """mcts: how unfinished simulations count in selection."""
    ties: Literal["seeded", "first"] = "seeded"
    """mcts: which of equally good children is chosen: by a hash of seed, problem and child, or the one that came first."""
    widening_k: float = 2.0
    """mcts: a node is given another child while it has at most widening_k * visits**widening_alpha samples; 0 keeps `width`."""
    widening_alpha: float = 0.5
    """mcts: exponent of widening, in [0, 1]."""
    considered: int = 16
    """mcts, rule gumbel: most root actions considered."""
    merge: Literal["ids", "text", "none"] = "text"
    """Identical sibling steps become one child: same ids, same text up to white space, or never. Samples of several steps (the
    other methods) are merged by ids in place of text, since their later steps were written after just these ids."""
    samples: int = 16
    """best-of-n, majority: solutions sampled; rebase, particles: partial solutions a level; hybrid: solutions of the first wave;
    entropy-forks: solutions before the first fork."""
    score_temperature: float | None = None
    """rebase, particles: scores (rebase) or their log-odds (particles) are divided by this before the softmax; at least 0, and 0
    gives all to the best. None is the method's own default (`SCORE_TEMPERATURES`)."""
    threshold: float = 0.5
    """depth-first: steps of a score below this wait until nothing else is left; in [0, 1]."""
    forks: int = 2
    """entropy-forks: steps at which each solution's tree is forked a round."""
    arm_posterior: Literal["gaussian", "beta"] = "gaussian"
    """ab-mcts: what the scores of an arm are taken for: Gaussian ones of unknown mean and spread, or Beta."""
    arm_backup: Literal["best", "all"] = "best"
    """ab-mcts: an arm holds the scores along the best way below it, or all scores below it (as published)."""
    belief_discount: float = 0.6
    """belief: a node's worth is multiplied by this for each time it was expanded; in (0, 1]."""
    belief_depth_gain: float = 0.68
    """belief: a node at depth d has its worth divided by success**(gain * d), where success is the learned rate of right steps: 0
    is breadth first, 1 makes up for what depth alone takes from a posterior."""
    belief_stop: float = 0.995
    """belief, and mcts with belief backup: the search ends when an answer's posterior is above this; 1 never ends it early."""
    choose: ChoiceName | None = None
    """How the answer is chosen among finished paths; None is "majority" for method majority and "value" for the others. Rule
    gumbel only: "planned" is the best value below the first step that sequential halving ends with."""
    aggregate: AggregationName = "last"
    """How the values of a path's steps become the path's value: the last, the least, the product."""
    max_steps: int | None = None
    """Most steps a path; None takes the task's default."""
    step_tokens: int | None = None
    """Most tokens a step; None takes the task's default."""
    stop_when_proven: bool = True
    """End as soon as the task itself shows an answer to be right."""
    prune: bool = True
    """End when the rest of the budget cannot change the answer: a finished path of value 1 where the last value chooses, a lead
    larger than all votes to come where votes choose. Where visits or the plan choose there is no such rule."""

    def __post_init__(self) -> None:
        for name, words in _WORDS.items():
            if getattr(self, name) not in words:
                raise InputError(f"{name} is {getattr(self, name)!r}", f"give one of {', '.join(map(str, words))}")
        for name in ("samples", "beams", "considered", "forks"):
            _at_least(name, getattr(self, name), 1)
        for name in ("width", "lanes", "max_steps", "step_tokens"):
            value = getattr(self, name)
            if value is not None:
                _at_least(name, value, 1)
        for name, low, high in (
            ("belief_discount", 0.0, 1.0),
            ("belief_depth_gain", 0.0, 2.0),
            ("belief_stop", 0.0, 1.0),
            ("threshold", 0.0, 1.0),
        ):
            if not low <= getattr(self, name) <= high:
                raise InputError(f"{name} is {getattr(self, name)!r}", f"give a number in [{low:g}, {high:g}]")
        if self.score_temperature is not None and not 0 <= self.score_temperature < math.inf:
            raise InputError(f"score_temperature is {self.score_temperature!r}", "give a number of at least 0")
        self._refuse_idle()
        if self.choose == "planned" and self.rule != "gumbel":
            raise InputError("choose 'planned' needs the plan of rule 'gumbel'", "use rule gumbel, or choose in another way")
        if self.method == "mcts":
            self.build_rule()
            if (self.width or WIDTHS["mcts"]) == 1 and self.widening_k == 0:
                raise InputError("width 1 with widening_k 0 is a single path", "give more width, widening, or method greedy")

    @property
    def choice(self) -> ChoiceName:
        """How the answer is chosen, resolved."""
        return self.choose or ("majority" if self.method == "majority" else "value")

    @property
    def balance(self) -> float:
        """`score_temperature`, resolved."""
        return SCORE_TEMPERATURES[self.method] if self.score_temperature is None else self.score_temperature

    def _refuse_idle(self) -> None:
        """Raise InputError for options that were set where another option leaves them without effect."""
        on_method, on_rule = f"on method {self.method!r}", f"on rule {self.rule!r}"
        cases: tuple[tuple[bool, frozenset[str], str, str], ...] = (
            (self.rule != "gumbel", frozenset({"considered"}), on_rule, "use rule gumbel"),
            (self.rule == "gumbel", NOT_GUMBEL, on_rule, "use another rule"),
            (self.first_play == "parent", frozenset({"first_play_value"}), "on first_play 'parent'", "use another first_play"),
            (self.widening_k == 0, frozenset({"widening_alpha"}), "on widening_k 0", "give more widening_k"),
        )
        set_here = [f.name for f in fields(self) if getattr(self, f.name) != f.default]
        for name in set_here:
            readers = READ_BY.get(name)
            if readers is not None and self.method not in readers:
                raise InputError(f"{name} has no effect {on_method}", f"leave it out, or use {' or '.join(sorted(readers))}")
        for idle, names, where, remedy in cases:
            changed = [name for name in set_here if name in names]
            if idle and changed:
                raise InputError(f"{', '.join(changed)} has no effect {where}", f"leave it out, or {remedy}")

    def build_rule(self, *, tie_seed: int = 0) -> Rule:
        """Return the selection rule; `tie_seed` as in `Rule`. Raises InputError when a number is out of its range."""
        return Rule(
            name=self.rule,
            exploration=self.exploration,
            variance_scaled=self.variance_scaled,
            first_play=self.first_play,
            first_play_value=self.first_play_value,
            value_range=self.value_range,
            own_weight=self.own_weight,
            backup="max" if self.backup == "belief" else self.backup,
            in_flight=self.in_flight,
            widening_k=self.widening_k,
            widening_alpha=self.widening_alpha,
            tie_seed=tie_seed,
        )


WIDTHS: dict[str, int] = {
    "mcts": 1,
    "belief": 2,
    "beam": 4,
    "dvts": 4,
    "breadth-first": 4,
    "depth-first": 4,
    "hybrid": 2,
    "entropy-forks": 2,
}
"""Default of `width`, for the methods that read it."""

LANES: dict[str, int] = {"mcts": 4, "belief": 8, "ab-mcts": 4, "hybrid": 4}
"""Default of `lanes`, for the methods that read it."""

SCORE_TEMPERATURES: dict[str, float] = {"rebase": 0.1, "particles": 1.0}
"""Default of `score_temperature`, for the methods that read it."""

_MCTS = (
    "run_to",
    "rule",
    "exploration",
    "variance_scaled",
    "first_play",
    "first_play_value",
    "value_range",
    "own_weight",
    "backup",
    "in_flight",
    "ties",
    "widening_k",
    "widening_alpha",
    "considered",
)

ENDS_ITSELF = frozenset({"beam", "dvts", "rebase", "particles", "breadth-first", "entropy-forks"})
"""Methods that end without any limit in the budget; with one they start anew until it is reached."""

READ_BY: dict[str, frozenset[str]] = {
    **{name: frozenset({"mcts"}) for name in _MCTS},
    **{name: frozenset({"belief"}) for name in ("belief_discount", "belief_depth_gain")},
    "belief_stop": frozenset({"belief", "mcts"}),
    "width": frozenset(WIDTHS),
    "lanes": frozenset(LANES),
    "score_temperature": frozenset(SCORE_TEMPERATURES),
    "threshold": frozenset({"depth-first"}),
    "forks": frozenset({"entropy-forks"}),
    "arm_posterior": frozenset({"ab-mcts"}),
    "arm_backup": frozenset({"ab-mcts"}),
    "beams": frozenset({"beam", "dvts", "breadth-first"}),
    "samples": frozenset({"best-of-n", "majority", "rebase", "particles", "hybrid", "entropy-forks"}),
}
"""Methods that read a field; a field that is not here is read by all."""

NOT_GUMBEL = frozenset({"exploration", "variance_scaled", "first_play", "first_play_value", "value_range", "in_flight"})
"""Fields that rule gumbel does not read: it completes and rescales values, and explores by its plan."""


_WORDS: dict[str, tuple[str | None, ...]] = {
    "method": get_args(MethodName),
    "run_to": ("finish", "leaf"),
    "rule": get_args(RuleName),
    "ties": ("seeded", "first"),
    "merge": ("ids", "text", "none"),
    "arm_posterior": ("gaussian", "beta"),
    "arm_backup": ("best", "all"),
    "choose": (None, *get_args(ChoiceName)),
    "aggregate": get_args(AggregationName),
}
"""Fields that hold one of a few words; those of the rule are checked by `Rule`."""


def _at_least(name: str, value: int, low: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise InputError(f"{name} is {value!r}", f"give a whole number of at least {low}")
