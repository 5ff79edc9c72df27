"""llm-reasoners' methods on the scripted worlds; run by the interpreter of its own environment.

A state is a path, an action the tag of a step; the actions of a state are `actions` sampled steps, all asked for at once. Its
search has no budget but a number of iterations or levels: MCTS iterates for as long as policy steps are left, though not more
often than the budget has steps (its progress bar's range is replaced by one that ends then), and in its last iteration a state
gets only as many actions as are left. Beam search is given the widest beam whose eight levels fit into the budget.

Its modules import torch and transformers for types alone: empty stand-ins spare their download.

Run: python -m benchmarks.peer_llm_reasoners < job  (see peer_meter.serve)
"""

from __future__ import annotations

import itertools
import sys
import types
from typing import Any

import numpy as np

from benchmarks.peer_meter import AGGREGATES, Meter, Options, Outcome, beam_steps, serve, widest
from benchmarks.worlds import Tags

for _name, _member in (("torch", "Tensor"), ("transformers", "StoppingCriteriaList")):
    sys.modules[_name] = types.ModuleType(_name)
    setattr(sys.modules[_name], _member, object)

from reasoners.algorithm import mcts as mcts_module  # noqa: E402  needs the stand-ins
from reasoners.algorithm.beam_search import BeamSearch  # noqa: E402

DEPTH_LIMIT = 16
"""Beyond every chain; the default of 5 would end no chain of 8."""


class World:
    """World model and search configuration at once."""

    def __init__(self, meter: Meter, actions: int) -> None:
        self.meter = meter
        self.actions = actions

    def init_state(self) -> Tags:
        return ()

    def step(self, state: Tags, action: int) -> tuple[Tags, dict[str, object]]:
        return (*state, action), {}

    def is_terminal(self, state: Tags) -> bool:
        return state in self.meter.ended

    def get_actions(self, state: Tags) -> list[int]:
        count = min(self.actions, self.meter.left)
        if not count:
            return []
        (steps,) = self.meter.sample([(state, count)])
        self.meter.read([(*state, step.tag) for step in steps])
        return [step.tag for step in steps]

    def fast_reward(self, state: Tags, action: int) -> tuple[float, dict[str, object]]:
        return self.meter.reward((*state, action), "last"), {}

    def reward(self, state: Tags, action: int, **_: object) -> tuple[float, dict[str, object]]:
        return self.fast_reward(state, action)


def mcts(meter: Meter, options: Options) -> Outcome:
    """MCTS (RAP's): expand, run on to the end of the chain along the best readings, back up."""
    world = World(meter, options["actions"])
    ranges = itertools.takewhile(lambda _: meter.left > 0, range(meter.budget))
    mcts_module.trange = lambda *_, **__: ranges
    search = mcts_module.MCTS(
        depth_limit=DEPTH_LIMIT,
        n_iters=meter.budget,
        w_exp=options["exploration"],
        cum_reward=AGGREGATES[options["cum_reward"]],
        calc_q={"mean": np.mean, "max": max}[options["calc_q"]],
    )
    return Outcome(search(world, world).terminal_state)


def beam(meter: Meter, options: Options) -> Outcome:
    """Beam search by the readings of the path."""
    actions = options["actions"]
    width = widest(meter.budget, lambda width: beam_steps(width, actions))
    how = options["aggregate"]
    search: Any = BeamSearch(beam_size=width, max_depth=DEPTH_LIMIT, reward_aggregator=AGGREGATES[how])
    world = World(meter, actions)
    return Outcome(search(world, world).terminal_state)


if __name__ == "__main__":
    serve({"mcts": mcts, "beam": beam})
