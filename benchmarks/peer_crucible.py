"""crucible-ttc's methods on the scripted worlds; run by the interpreter of its own environment.

A step of crucible is a text; the ones made here also carry their tag. It knows a chain to have ended by an explicit answer, so
that the worlds' answer is boxed at the end of the last step's text. Its own budget counts tokens of policy and verifier
together: it is set out of reach, and the simulations are ended when the policy steps are spent or there have been as many.

Run: python -m benchmarks.peer_crucible < job  (see peer_meter.serve)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crucible.config import RunConfig
from crucible.domain.types import Problem, Trace
from crucible.search import get_strategy

from benchmarks.peer_meter import LONGEST, Meter, Options, Outcome, beam_steps, serve, widest
from benchmarks.worlds import Tags, WorldStep


@dataclass(frozen=True)
class Step:
    """crucible's step, with the tag of the world's."""

    text: str
    token_count: int
    tag: int


def boxed(step: WorldStep) -> Step:
    """Return the world's step as crucible wants it."""
    text = step.text.rstrip()
    return Step(text if step.answer is None else f"{text} \\boxed{{{step.answer}}}", 1, step.tag)


def path_of(steps: Sequence[Any]) -> Tags:
    """Return the path of a trace's steps."""
    return tuple(step.tag for step in steps)


class World:
    """Policy and process verifier at once."""

    name = "world"

    def __init__(self, meter: Meter, config: RunConfig) -> None:
        self.meter = meter
        self.config = config

    def sample_step(self, problem: Problem, prefix: Sequence[Step], *, n: int, **_: object) -> list[Step]:
        """Return up to n next steps; the last ones of the budget end the simulations."""
        count = min(n, self.meter.left)
        steps = self.meter.sample([(path_of(prefix), count)])[0] if count else []
        if not self.meter.left:
            self.config.mcts_max_sims = 0
        path = path_of(prefix)
        self.meter.read([(*path, step.tag) for step in steps])
        return [boxed(step) for step in steps]

    def sample_full(self, problem: Problem, *, n: int, **_: object) -> list[Trace]:
        """Return n whole chains."""
        return [Trace(steps=[boxed(step) for step in chain]) for chain in self.meter.chains(n)]

    def score_steps(self, problem: Problem, prefix: Sequence[Step]) -> list[float]:
        """Return the readings of all steps."""
        return list(self.meter.readings(path_of(prefix)))


def run(method: str, meter: Meter, **settings: Any) -> Outcome:
    """Return the chain that a strategy chooses."""
    config = RunConfig(method=method, max_steps=16, budget_tokens=10**9, mcts_max_sims=meter.budget, **settings)
    world = World(meter, config)
    trace = get_strategy(method).search(Problem("problem", "problem"), world, None, world, config)
    return Outcome(path_of(trace.steps))


def beam(meter: Meter, options: Options) -> Outcome:
    """Beam search; without a width, the widest beam whose eight levels fit into the budget."""
    each = options["expansions"]
    width = options["width"] or widest(meter.budget, lambda width: beam_steps(width, each))
    return run("beam", meter, beam_width=width, beam_expansions=each, prm_aggregate=options["aggregate"])


def mcts(meter: Meter, options: Options) -> Outcome:
    """PUCT with a uniform prior over a fixed number of children."""
    return run(
        "mcts",
        meter,
        beam_expansions=options["expansions"],
        mcts_c_puct=options["exploration"],
        prm_aggregate=options["aggregate"],
    )


def best_of_n(meter: Meter, options: Options) -> Outcome:
    """The most frequent answer of whole chains ("majority"), or the chain with the best readings ("prm")."""
    count = meter.budget // LONGEST
    return run("best_of_n", meter, n=count, selection=options["selection"], prm_aggregate=options["aggregate"])


if __name__ == "__main__":
    serve({"beam": beam, "mcts": mcts, "best-of-n": best_of_n})
