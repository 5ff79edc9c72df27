"""Answers by the plan of rule gumbel: the first step that sequential halving ends with."""

from __future__ import annotations

import pytest

from treewise.policy.scripted import ScriptedPolicy, decode_bytes, text_step
from treewise.search.budget import Budget
from treewise.search.rules import Rule
from treewise.search.types import SearchEnd


def test_the_planned_first_step_gives_the_answer(world) -> None:
    """Of the answers below the root action that sequential halving ends with, the best: not always the best of all."""
    options = {"rule": "gumbel", "considered": 4, "problems": 20}
    best_of_all = world.run(budget=Budget(simulations=16), **options)
    planned = world.run(budget=Budget(simulations=16), choose="planned", **options)
    for search in planned.values():
        tree, solutions = search.solutions.tree, search.solutions
        step = tree.planned_child(Rule(name="gumbel", own_weight=1.0).params())
        below = [n for n in solutions.finished if tree.path(n)[1] == step]
        assert below
        answer = search.answer()
        assert answer.node in below
        assert answer.value == pytest.approx(max(world.value_of(solutions.judgements[n].answer) for n in below))
        assert "planned" not in answer.reason
    assert any(planned[name].answer().text != best_of_all[name].answer().text for name in planned)


def test_a_planned_first_step_without_an_answer_is_said(world) -> None:
    """Every path below 8 dies, yet its own evaluation, worth a thousand visits, makes it the plan."""

    def script(ids, seed):
        text = decode_bytes(ids).split("\n")[1:-1]
        return (text_step(("81"[seed % 2] if not text else "9" if text[0] == "8" else "2") + "\n"),)

    options = {"rule": "gumbel", "considered": 8, "own_weight": 1000.0, "problems": 1, "task": world.Task(depth=2)}
    search = world.run(budget=Budget(simulations=8), policy=ScriptedPolicy(script), choose="planned", **options)["p0"]
    answer, tokens = search.answer(), search.solutions.tokens
    assert tokens.text(search.solutions.tree.planned_child(Rule(name="gumbel", own_weight=1000.0).params())) == "8\n"
    assert (answer.text, answer.end) == ("12", SearchEnd.BUDGET)
    assert "nothing finished below the planned first step" in answer.reason


def test_a_path_of_value_one_does_not_settle_a_planned_answer(world) -> None:
    policy = ScriptedPolicy(world.script(lambda ids, seed: "8"))
    options = {"rule": "gumbel", "choose": "planned", "merge": "none", "problems": 1}
    search = world.run(budget=Budget(simulations=40), policy=policy, **options)["p0"]
    assert (search.answer().end, search.bill.simulations) == (SearchEnd.BUDGET, 40)


def test_a_proven_answer_goes_before_the_plan(world) -> None:
    options = {"rule": "gumbel", "choose": "planned", "stop_when_proven": False, "problems": 10}
    policy = ScriptedPolicy(world.script(lambda ids, seed: "123"[seed % 3]))
    for search in world.run(
        budget=Budget(simulations=40), policy=policy, task=world.Task(depth=2, proof="12"), **options
    ).values():
        proven = any(search.solutions.judgements[n].answer == "12" for n in search.solutions.finished)
        assert not proven or search.answer().text == "12"


def test_a_plan_of_a_billion_simulations_is_no_burden(world) -> None:
    for search in world.run(budget=Budget(simulations=10**9, tokens=200), rule="gumbel").values():
        assert search.answer().finished
        assert search.answer().end is SearchEnd.BUDGET
