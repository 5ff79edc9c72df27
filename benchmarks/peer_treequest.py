"""treequest's methods on the scripted worlds; run by the interpreter of its own environment.

A node is a path; to generate from a node is to sample one step after it, and with `rollout` "yes" also to run on to the end of
the chain, whose reward is then the node's. treequest takes every node for one that can be improved upon, also a chain that has
ended: there the adapter hands back the same node with the same score, at no policy step; after as many such trials as the
budget has steps a search ends. Rewards that say nothing of depth keep AB-MCTS-A at the root for ever: with `progress` "yes" they
are multiplied by the share of the chain that is done, so it is told the length of the chains. `best` says how the answer is
picked: with "score" as the library does, the highest score of any node, finished or not; with "finished" through its ranking
function, finished chains first.

Run: python -m benchmarks.peer_treequest < job  (see peer_meter.serve)
"""

from __future__ import annotations

import logging
import types
from typing import Any, NamedTuple

import numpy as np
import treequest
from treequest.algos.ab_mcts_a import prob_state
from treequest.algos.tree import Tree

from benchmarks.peer_meter import LONGEST, Meter, Options, Outcome, serve
from benchmarks.worlds import Tags


def draw_inverse_gamma(shape: float, scale: float) -> float:
    """Return a draw from the distribution of `scipy.stats.invgamma.rvs`, which takes thirty times as long."""
    return float(scale / np.random.gamma(shape))  # noqa: NPY002  treequest draws from this generator


class Node(NamedTuple):
    """What treequest calls a state."""

    path: Tags
    chain: Tags
    """The path, or with rollouts the chain that was completed from it."""


ROOT = Node((), ())


class World:
    """Generates nodes and scores them."""

    def __init__(self, meter: Meter, options: Options) -> None:
        self.meter = meter
        self.options = options

    def ended(self, node: Node) -> bool:
        """Return whether nothing can be sampled after the node."""
        return node.path in self.meter.ended

    def children(self, parents: list[Node]) -> list[Node]:
        """Return one new node for each parent, all in one round; a rollout that the budget cuts short stays unfinished."""
        found = self.meter.sample([(parent.path, 1) for parent in parents])
        paths = [(*parent.path, step.tag) for parent, (step,) in zip(parents, found, strict=True)]
        chains = self.meter.complete(paths) if self.options["rollout"] == "yes" else paths
        return [Node(path, chain) for path, chain in zip(paths, chains, strict=True)]

    def score(self, node: Node) -> float:
        """Return the node's reward, in [0, 1]."""
        reward = self.meter.reward(node.chain, self.options["aggregate"])
        return reward * len(node.path) / LONGEST if self.options["progress"] == "yes" else reward

    def finished_first(self, pairs: list[tuple[Node, float]]) -> list[tuple[Node, float]]:
        """Return the nodes in the order in which they are preferred."""
        return sorted(pairs, key=lambda pair: (self.meter.ended.get(pair[0].chain) is not None, pair[1]), reverse=True)


def grow(algorithm: Any, meter: Meter, options: Options) -> Outcome:
    """Ask and tell until the budget is spent; return the best node's chain."""
    world = World(meter, options)
    state, spared = algorithm.init_tree(), 0
    while meter.left and spared < meter.budget:
        state, trials = algorithm.ask_batch(state, min(options["batch"], meter.left), ["step"])
        parents: list[Node] = [trial.parent_state or ROOT for trial in trials]
        growing = [parent for parent in parents if not world.ended(parent)]
        spared += len(parents) - len(growing)
        found = iter(world.children(growing) if growing else [])
        for trial, parent in zip(trials, parents, strict=True):
            node = parent if world.ended(parent) else next(found)
            state = algorithm.tell(state, trial.trial_id, (node, world.score(node)))
    ranking = world.finished_first if options["best"] == "finished" else None
    ((best, _),) = treequest.top_k(state, algorithm, 1, ranking)
    kept = len({node.path for node, _ in algorithm.get_state_score_pairs(state)})
    return Outcome(best.chain, None if options["rollout"] == "yes" else kept)


def ab_mcts(meter: Meter, options: Options) -> Outcome:
    """AB-MCTS-A: Thompson sampling between a new child and the old ones; mean and spread are those of its Gaussian prior."""
    prior = None
    if options["dist"] == "gaussian":
        prior = prob_state.GaussianPrior(m=options["mean"], tau_square=options["spread"])
    config = prob_state.PriorConfig(options["dist"], prior)
    return grow(treequest.ABMCTSA(dist_type=options["dist"], prior_config=config), meter, options)


def mcts(meter: Meter, options: Options) -> Outcome:
    """Standard MCTS: UCT with the softmax of scores as prior, a fixed number of children."""
    algorithm = treequest.StandardMCTS(samples_per_action=options["children"], exploration_weight=options["exploration"])
    return grow(algorithm, meter, options)


def index_nodes() -> None:
    """Have trees find a node by its index in constant time; treequest walks and sorts the whole tree each time."""
    add_node = Tree.add_node

    def add(self: Any, *arguments: Any, **options: Any) -> Any:
        node = add_node(self, *arguments, **options)
        self.__dict__.setdefault("added", []).append(node)
        return node

    Tree.add_node = add
    Tree.get_node = lambda self, index: self.root if index < 0 else self.added[index]


if __name__ == "__main__":
    index_nodes()
    logging.getLogger("treequest").setLevel(logging.ERROR)  # it warns of every trial that it throws away
    prob_state.invgamma = types.SimpleNamespace(rvs=draw_inverse_gamma)
    prob_state.beta = types.SimpleNamespace(rvs=np.random.beta)
    serve({"ab-mcts-a": ab_mcts, "mcts": mcts})
