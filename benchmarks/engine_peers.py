"""One peer's seconds with the stub model of `benchmarks.engine`; run by the interpreter of the peer's own environment.

The stub: every state is a 64-bit hash of its path, has 8 actions with hashed priors and a hashed value in [0, 1], and never
ends. Nothing of Treewise is imported here.

Run: python engine_peers.py PEER SIMULATIONS REPEATS  (prints one JSON list of seconds)
"""

from __future__ import annotations

import json
import sys
import time
import types
from collections.abc import Callable

ACTIONS = 8
_MASK = (1 << 64) - 1


def mix(number: int) -> int:
    """SplitMix64's finaliser."""
    z = (number + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def value(state: int) -> float:
    """The stub's value of a state, in [0, 1)."""
    return (mix(state) >> 11) * 2.0**-53


def priors(state: int) -> list[float]:
    """The stub's priors, from eight bytes of one hash."""
    bits = mix(state ^ 0x5851F42D4C957F2D)
    weights = [1.0 + ((bits >> (8 * i)) & 255) for i in range(ACTIONS)]
    total = sum(weights)
    return [w / total for w in weights]


def open_spiel(simulations: int, repeats: int) -> list[float]:
    """OpenSpiel's Python MCTSBot with PUCT."""
    import numpy as np
    import pyspiel
    from open_spiel.python.algorithms import mcts

    class State:
        __slots__ = ("key",)

        def __init__(self, key: int) -> None:
            self.key = key

        def clone(self) -> State:
            return State(self.key)

        def apply_action(self, action: int) -> None:
            self.key = mix(self.key * 8 + action)

        def is_terminal(self) -> bool:
            return False

        def is_chance_node(self) -> bool:
            return False

        def current_player(self) -> int:
            return 0

    class Evaluator:
        def evaluate(self, state: State) -> list[float]:
            return [value(state.key)]

        def prior(self, state: State) -> list[tuple[int, float]]:
            return list(enumerate(priors(state.key)))

    kind = types.SimpleNamespace(
        reward_model=pyspiel.GameType.RewardModel.TERMINAL, dynamics=pyspiel.GameType.Dynamics.SEQUENTIAL
    )
    game = types.SimpleNamespace(get_type=lambda: kind, max_utility=lambda: 1.0)
    seconds = []
    for repeat in range(repeats):
        bot = mcts.MCTSBot(
            game,
            1.25,
            simulations,
            Evaluator(),
            solve=False,
            random_state=np.random.RandomState(repeat),
            child_selection_fn=mcts.SearchNode.puct_value,
        )
        began = time.perf_counter()
        bot.mcts_search(State(repeat))
        seconds.append(time.perf_counter() - began)
    return seconds


def mctx(simulations: int, repeats: int) -> list[float]:
    """mctx's muzero_policy, batch 1, compiled for the CPU; compilation is not timed."""
    import jax
    import jax.numpy as jnp
    import mctx as library

    def scramble(x: jax.Array) -> jax.Array:
        x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
        x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
        return x ^ (x >> 16)

    def logits(key: jax.Array) -> jax.Array:
        bits = scramble(key[:, None] * 8 + jnp.arange(ACTIONS, dtype=jnp.uint32) + 1)
        return jnp.log(1.0 + (bits & 255).astype(jnp.float32))

    def score(key: jax.Array) -> jax.Array:
        return scramble(key + 77).astype(jnp.float32) * 2.0**-32

    def step(_: object, rng: object, action: jax.Array, key: jax.Array) -> tuple[object, jax.Array]:
        key = scramble(key * 8 + action.astype(jnp.uint32))
        zeros = jnp.zeros_like(score(key))
        return library.RecurrentFnOutput(reward=zeros, discount=zeros + 1, prior_logits=logits(key), value=score(key)), key

    @jax.jit
    def search(key: jax.Array, rng: jax.Array) -> jax.Array:
        root = library.RootFnOutput(prior_logits=logits(key), value=score(key), embedding=key)
        return library.muzero_policy(None, rng, root, step, simulations, dirichlet_fraction=0.0).action

    seconds = []
    for repeat in range(repeats + 1):
        arguments = jnp.array([repeat], jnp.uint32), jax.random.PRNGKey(repeat)
        began = time.perf_counter()
        search(*arguments).block_until_ready()
        seconds.append(time.perf_counter() - began)
    return seconds[1:]


def treequest(simulations: int, repeats: int) -> list[float]:
    """treequest's StandardMCTS in place, 8 samples a node; a simulation is one of its steps, which makes one node."""
    import treequest as library

    seconds = []
    for repeat in range(repeats):
        algorithm = library.StandardMCTS(samples_per_action=ACTIONS)
        state, counter = algorithm.init_tree(), [repeat << 32]

        def generate(_: object, counter: list[int] = counter) -> tuple[int, float]:
            counter[0] += 1
            return counter[0], value(counter[0])

        began = time.perf_counter()
        for _ in range(simulations):
            state = algorithm.step(state, {"step": generate}, inplace=True)
        seconds.append(time.perf_counter() - began)
    return seconds


def treequest_adaptive(simulations: int, repeats: int) -> list[float]:
    """treequest's ABMCTSA in place, as it is shipped; a simulation is one of its steps. Processor seconds."""
    import treequest as library

    seconds = []
    for repeat in range(repeats):
        algorithm = library.ABMCTSA()
        state, counter = algorithm.init_tree(), [repeat << 32]

        def generate(_: object, counter: list[int] = counter) -> tuple[int, float]:
            counter[0] += 1
            return counter[0], value(counter[0])

        began = time.process_time()
        for _ in range(simulations):
            state = algorithm.step(state, {"step": generate}, inplace=True)
        seconds.append(time.process_time() - began)
    return seconds


def llm_reasoners(simulations: int, repeats: int) -> list[float]:
    """llm-reasoners' MCTS, depth limit 10; a simulation is one of its iterations, which runs on to the depth limit.

    Its modules import torch and transformers for types alone: empty stand-ins spare their download.
    """
    for name, member in (("torch", "Tensor"), ("transformers", "StoppingCriteriaList")):
        stand_in = types.ModuleType(name)
        setattr(stand_in, member, object)
        sys.modules[name] = stand_in
    from reasoners.algorithm.mcts import MCTS

    class World:
        def init_state(self) -> int:
            return 1

        def step(self, state: int, action: int) -> tuple[int, dict[str, object]]:
            return mix(state * 8 + action), {}

        def is_terminal(self, state: int) -> bool:
            return False

    class Config:
        def get_actions(self, state: int) -> range:
            return range(ACTIONS)

        def fast_reward(self, state: int, action: int) -> tuple[float, dict[str, object]]:
            return value(state * 8 + action), {}

        def reward(self, state: int, action: int, **_: object) -> tuple[float, dict[str, object]]:
            return value(state * 8 + action), {}

    seconds = []
    for _ in range(repeats):
        search = MCTS(depth_limit=10, n_iters=simulations, output_strategy="last_iter")
        began = time.perf_counter()
        search(World(), Config())
        seconds.append(time.perf_counter() - began)
    return seconds


PEERS: dict[str, Callable[[int, int], list[float]]] = {
    "open_spiel": open_spiel,
    "mctx": mctx,
    "treequest": treequest,
    "treequest ab-mcts-a": treequest_adaptive,
    "llm-reasoners": llm_reasoners,
}

if __name__ == "__main__":
    print(json.dumps(PEERS[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]))))
