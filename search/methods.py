"""From a method's name to a started search. Adding a method: one file with a `TreeSearch`, one line here."""

from __future__ import annotations

from treewise.search.adaptive import AdaptiveSearch
from treewise.search.beam import BeamSearch
from treewise.search.belief_mcts import BeliefMCTS
from treewise.search.belief_search import BeliefSearch
from treewise.search.breadth_first import BreadthFirstSearch
from treewise.search.budget import Budget
from treewise.search.depth_first import DepthFirstSearch
from treewise.search.dvts import DiverseSearch
from treewise.search.entropy_forks import EntropyForkSearch
from treewise.search.hybrid import HybridSearch
from treewise.search.mcts import MCTSSearch
from treewise.search.particles import ParticleSearch
from treewise.search.rebase import RebaseSearch
from treewise.search.sampling import SamplingSearch
from treewise.search.settings import MethodName, SearchSettings
from treewise.search.tree_search import TreeSearch
from treewise.search.types import Ids, InputError, Problem, Task

METHODS: dict[MethodName, type[TreeSearch]] = {
    "mcts": MCTSSearch,
    "belief": BeliefSearch,
    "ab-mcts": AdaptiveSearch,
    "beam": BeamSearch,
    "dvts": DiverseSearch,
    "rebase": RebaseSearch,
    "particles": ParticleSearch,
    "breadth-first": BreadthFirstSearch,
    "depth-first": DepthFirstSearch,
    "hybrid": HybridSearch,
    "entropy-forks": EntropyForkSearch,
    "greedy": SamplingSearch,
    "best-of-n": SamplingSearch,
    "majority": SamplingSearch,
}


def start_search(
    problem: Problem,
    prompt_ids: Ids,
    *,
    task: Task,
    settings: SearchSettings,
    budget: Budget,
    seed: int,
    context_length: int,
) -> TreeSearch:
    """Return a search that has asked nothing yet. Raises ContextOverflow or InputError when it cannot be run."""
    if settings.method == "auto":
        raise InputError("method 'auto' was not replaced by one that runs", "call treewise.search.auto.choose_method first")
    method = BeliefMCTS if settings.method == "mcts" and settings.backup == "belief" else METHODS[settings.method]
    return method(problem, prompt_ids, task=task, settings=settings, budget=budget, seed=seed, context_length=context_length)
