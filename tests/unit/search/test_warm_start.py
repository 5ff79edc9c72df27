"""A search goes on from the trace of an earlier one (S68: no reuse of the tree between calls)."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from treewise.policy.scripted import ScriptedPolicy
from treewise.search.budget import Budget
from treewise.search.driver import Driver
from treewise.search.methods import start_search
from treewise.search.settings import SearchSettings
from treewise.search.trace import Origin, Trace
from treewise.search.trace_nodes import NodeTable
from treewise.search.tree_search import TreeSearch
from treewise.search.types import InputError, Problem, SearchEnd, TraceError
from treewise.search.warm_start import warm_start

ORIGIN = Origin("digits", "mcts", "{}", "hash", 0, "scripted", "mean digit", "0")
PROBLEM = Problem("p0", "problem 0\n")


def begin(world, simulations: int, *, problem: Problem = PROBLEM, task=None, **settings) -> TreeSearch:
    task, options = task or world.Task(), {"method": "mcts", "lanes": 1} | settings
    ids = ScriptedPolicy(world.random_digits).encode(task.prompt(problem))
    chosen = SearchSettings(**options)
    budget = Budget(simulations=simulations)
    return start_search(problem, ids, task=task, settings=chosen, budget=budget, seed=0, context_length=4096)


def finish(world, search: TreeSearch) -> Trace:
    for _ in Driver(ScriptedPolicy(world.random_digits), world.MeanDigit()).run([search]):
        pass
    return search.trace(ORIGIN)


def same(one: NodeTable, two: NodeTable) -> None:
    """Equal, but for the last places of means, which are summed in another order."""
    for field in fields(one):
        left, right = getattr(one, field.name), getattr(two, field.name)
        if isinstance(left, np.ndarray) and left.dtype.kind == "f":
            assert np.allclose(left, right, rtol=0, atol=1e-6, equal_nan=True), field.name
        else:
            assert np.array_equal(left, right), field.name


OPTIONS = [
    {},
    {"width": 3, "widening_k": 0},
    {"backup": "max"},
    {"rule": "uct"},
    {"run_to": "leaf"},
    {"merge": "ids", "width": 4},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_twenty_and_twenty_more_are_the_forty_of_one_search(world, options: dict[str, object]) -> None:
    """One lane, so that nothing but what is in the tree decides; the last two of 40 may differ in lanes, not here."""
    first = finish(world, begin(world, 20, **options))
    search = begin(world, 20, **options)
    warm_start(search, first, policy="scripted")
    both, whole = finish(world, search).nodes, finish(world, begin(world, 40, **options)).nodes
    assert both.visits[0] == whole.visits[0]
    same(both, whole)


def test_nothing_is_paid_twice_and_the_answer_is_there_at_once(world) -> None:
    first = finish(world, begin(world, 20))
    search = begin(world, 0)
    warm_start(search, first)
    again = finish(world, search)
    assert (search.bill.policy_tokens, search.bill.evaluator_tokens, search.bill.simulations) == (0, 0, 0)
    assert (again.outcome.text, again.outcome.value, again.outcome.node) == (
        first.outcome.text,
        first.outcome.value,
        first.outcome.node,
    )
    same(again.nodes, first.nodes)


def test_a_proven_answer_ends_it_at_once(world) -> None:
    loose, strict = begin(world, 200, stop_when_proven=False, prune=False), world.Task
    finish(world, loose)
    answer = loose.answer().text
    task = strict(proof=answer)
    first = finish(world, begin(world, 200, task=task, stop_when_proven=False, prune=False))
    search = begin(world, 20, task=task)
    warm_start(search, first)
    assert search.done
    assert (search.answer().end, search.answer().text) == (SearchEnd.PROVEN, answer)


def test_a_proof_taken_over_settles_the_search_that_does_not_stop_at_proofs(world) -> None:
    loose = begin(world, 200, stop_when_proven=False, prune=False)
    finish(world, loose)
    task = world.Task(proof=loose.answer().text)
    first = finish(world, begin(world, 200, task=task, stop_when_proven=False, prune=False))
    search = begin(world, 100, task=task, stop_when_proven=False)
    warm_start(search, first)
    finish(world, search)
    assert (search.answer().end, search.answer().text) == (SearchEnd.SETTLED, loose.answer().text)
    assert search.bill.simulations < 100


def test_what_cannot_go_on_is_refused(world) -> None:
    first = finish(world, begin(world, 5))
    for method in ("belief", "beam", "best-of-n"):
        with pytest.raises(InputError, match=method):
            warm_start(begin(world, 5, method=method, lanes=None), first)
    with pytest.raises(InputError, match="belief"):
        warm_start(begin(world, 5, backup="belief"), first)
    with pytest.raises(InputError, match="gumbel"):
        warm_start(begin(world, 5, rule="gumbel"), first)
    with pytest.raises(TraceError, match="'p0', not 'p1'"):
        warm_start(begin(world, 5, problem=Problem("p1", "problem 1\n")), first)
    with pytest.raises(TraceError, match="policy scripted, not another"):
        warm_start(begin(world, 5), first, policy="another")
    with pytest.raises(TraceError, match="method 'beam'"):
        warm_start(begin(world, 5), replace(first, origin=replace(ORIGIN, method="beam")))
    changed = begin(world, 5)
    changed.solutions._root = replace(changed.solutions._root, ids=(1, *changed.solutions._root.ids))
    with pytest.raises(TraceError, match="another prompt"):
        warm_start(changed, first)
