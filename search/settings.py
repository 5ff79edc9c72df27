"""What decides a search: one frozen record, read by every method, stored with every trace.

This file knows no task and no model. A field set where nothing reads it is an error and not a silent no-op: see
`_refuse_idle`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

from treewise.search.rules import Rule
from treewise.search.types import InputError

MethodName = Literal["mcts", "greedy", "best-of-n", "majority"]
RuleName = Literal["puct", "alphazero", "uct", "gumbel"]
ChoiceName = Literal["value", "visits", "majority", "weighted-majority", "planned"]
AggregationName = Literal["last", "min", "product"]


@dataclass(frozen=True)
class SearchSettings:
    """Options of a search."""

    method: MethodName = "mcts"
    """Search method."""
    width: int = 1
    """mcts: children asked for when a node is first expanded; at least 1."""
    lanes: int = 4
    """mcts: simulations under way at once in one tree; fewer when little budget remains. 1 is exactly sequential."""
    run_to: Literal["finish", "leaf"] = "finish"
    """mcts: a simulation goes on until its path ends ("finish"), or ends with one expansion ("leaf")."""
    rule: RuleName = "puct"
    """mcts: how a child is chosen."""
    exploration: float = 1.0
    """mcts: weight of the exploration term (c of PUCT and UCT, pb_c_init of AlphaZero); at least 0."""
    first_play: Literal["absolute", "parent", "reduction"] = "parent"
    """mcts: value of a child that has neither visits nor an evaluation."""
    first_play_value: float = 0.0
    """mcts: that value for "absolute"; the reduction for "reduction"."""
    value_range: Literal["fixed", "siblings", "none"] = "none"
    """mcts: rescaling of values before they meet the exploration term."""
    own_weight: float = 1.0
    """mcts: how many visits a node's own evaluation counts for; at least 0."""
    backup: Literal["mean", "max"] = "mean"
    """mcts: selection uses the mean of the visits or the best value below."""
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
    """best-of-n, majority: solutions sampled."""
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
        for name, low in (("width", 1), ("lanes", 1), ("samples", 1), ("considered", 1)):
            _at_least(name, getattr(self, name), low)
        for name in ("max_steps", "step_tokens"):
            value = getattr(self, name)
            if value is not None:
                _at_least(name, value, 1)
        self._refuse_idle()
        if self.choose == "planned" and self.rule != "gumbel":
            raise InputError("choose 'planned' needs the plan of rule 'gumbel'", "use rule gumbel, or choose in another way")
        if self.method == "mcts":
            self.build_rule()
            if self.width == 1 and self.widening_k == 0:
                raise InputError("width 1 with widening_k 0 is a single path", "give more width, widening, or method greedy")

    @property
    def choice(self) -> ChoiceName:
        """How the answer is chosen, resolved."""
        return self.choose or ("majority" if self.method == "majority" else "value")

    def _refuse_idle(self) -> None:
        """Raise InputError for options that were set where another option leaves them without effect."""
        on_method, on_rule = f"on method {self.method!r}", f"on rule {self.rule!r}"
        cases: tuple[tuple[bool, frozenset[str], str, str], ...] = (
            (self.method != "mcts", MCTS_ONLY, on_method, "use method mcts"),
            (self.method in ("greedy", "mcts"), frozenset({"samples"}), on_method, "use best-of-n or majority"),
            (self.rule != "gumbel", frozenset({"considered"}), on_rule, "use rule gumbel"),
            (self.rule == "gumbel", NOT_GUMBEL, on_rule, "use another rule"),
            (self.first_play == "parent", frozenset({"first_play_value"}), "on first_play 'parent'", "use another first_play"),
            (self.widening_k == 0, frozenset({"widening_alpha"}), "on widening_k 0", "give more widening_k"),
        )
        for idle, names, where, remedy in cases:
            changed = [f.name for f in fields(self) if f.name in names and getattr(self, f.name) != f.default]
            if idle and changed:
                raise InputError(f"{', '.join(changed)} has no effect {where}", f"leave it out, or {remedy}")

    def build_rule(self, *, tie_seed: int = 0) -> Rule:
        """Return the selection rule; `tie_seed` as in `Rule`. Raises InputError when a number is out of its range."""
        return Rule(
            name=self.rule,
            exploration=self.exploration,
            first_play=self.first_play,
            first_play_value=self.first_play_value,
            value_range=self.value_range,
            own_weight=self.own_weight,
            backup=self.backup,
            in_flight=self.in_flight,
            widening_k=self.widening_k,
            widening_alpha=self.widening_alpha,
            tie_seed=tie_seed,
        )


MCTS_ONLY = frozenset(
    {
        "width",
        "lanes",
        "run_to",
        "rule",
        "exploration",
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
    }
)
"""Fields that only method mcts reads."""

NOT_GUMBEL = frozenset({"exploration", "first_play", "first_play_value", "value_range", "in_flight"})
"""Fields that rule gumbel does not read: it completes and rescales values, and explores by its plan."""


_WORDS: dict[str, tuple[str | None, ...]] = {
    "method": get_args(MethodName),
    "run_to": ("finish", "leaf"),
    "rule": get_args(RuleName),
    "ties": ("seeded", "first"),
    "merge": ("ids", "text", "none"),
    "choose": (None, *get_args(ChoiceName)),
    "aggregate": get_args(AggregationName),
}
"""Fields that hold one of a few words; those of the rule are checked by `Rule`."""


def _at_least(name: str, value: int, low: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise InputError(f"{name} is {value!r}", f"give a whole number of at least {low}")
