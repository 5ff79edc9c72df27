"""Method auto: a method for every budget and evaluator, said why, legal, and refused where nothing replaced it."""

from __future__ import annotations

import pytest

from treewise.app.config import EVALUATOR_KINDS, ModelOptions
from treewise.app.models import build_evaluator
from treewise.policy.scripted import ScriptedPolicy
from treewise.search.auto import choose_method, evaluator_kind, solutions_paid
from treewise.search.budget import Budget
from treewise.search.driver import Driver
from treewise.search.methods import METHODS, start_search
from treewise.search.settings import SearchSettings
from treewise.search.types import InputError, Problem
from treewise.value.evaluators import ConstantEvaluator, JudgementEvaluator
from treewise.value.tasks import task_named

AUTO = SearchSettings(method="auto")
KINDS = ("constant", "judgement", "value", "prm")
BUDGETS = [
    Budget(seconds=5.0),
    Budget(tokens=1),
    Budget(tokens=90),
    Budget(tokens=400),
    Budget(tokens=4096),
    Budget(simulations=1),
    Budget(simulations=64),
    Budget(simulations=64, tokens=10),
]


@pytest.mark.parametrize(
    ("kind", "proof", "budget", "method"),
    [
        ("value", None, Budget(tokens=400), "belief"),
        ("prm", "5", Budget(simulations=3), "belief"),
        ("prm", None, Budget(seconds=9.0), "belief"),
        ("judgement", "5", Budget(tokens=400), "mcts"),
        ("constant", "5", Budget(simulations=64), "mcts"),
        ("judgement", None, Budget(tokens=400), "majority"),
        ("constant", None, Budget(simulations=3), "majority"),
        ("value", None, Budget(simulations=2), "greedy"),
        ("judgement", "5", Budget(tokens=8), "greedy"),
        ("prm", None, Budget(simulations=64, tokens=8), "greedy"),
    ],
)
def test_the_rule(world, kind, proof: str | None, budget: Budget, method: str) -> None:
    found = choose_method(AUTO, budget=budget, evaluator=kind, task=world.Task(proof=proof))
    assert found.method == method
    assert len(found.method_reason) > 30


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("proof", [None, "12345"])
def test_every_choice_runs_to_an_end(world, kind, proof: str | None, budget: Budget) -> None:
    task, policy = world.Task(proof=proof), ScriptedPolicy(world.random_digits)
    settings = choose_method(AUTO, budget=budget, evaluator=kind, task=task)
    assert settings.method in METHODS
    if budget.seconds is not None:  # nothing else would end it: the rule alone is looked at
        return
    problem = Problem("p", "problem\n")
    search = start_search(
        problem, policy.encode(task.prompt(problem)), task=task, settings=settings, budget=budget, seed=0, context_length=4096
    )
    (ended,) = Driver(policy, world.MeanDigit()).run([search])
    assert ended.answer().error is None
    assert ended.bill.policy_tokens <= (budget.tokens or 10**9)


def test_a_larger_budget_never_brings_back_the_single_solution(world) -> None:
    task = world.Task()
    methods = [choose_method(AUTO, budget=Budget(tokens=t), evaluator="prm", task=task).method for t in range(1, 200)]
    assert methods == sorted(methods, reverse=True)  # greedy, then belief
    assert set(methods) == {"greedy", "belief"}


def test_solutions_are_counted_by_the_tighter_limit(world) -> None:
    """The digit task allows 8 steps of 4 tokens; an eighth of that is 4."""
    task = world.Task()
    assert solutions_paid(Budget(tokens=40), task=task, settings=AUTO) == 10
    assert solutions_paid(Budget(tokens=40, simulations=7), task=task, settings=AUTO) == 7
    assert solutions_paid(Budget(tokens=40), task=task, settings=SearchSettings(method="auto", max_steps=16)) == 5
    assert solutions_paid(Budget(seconds=1), task=task, settings=AUTO) == float("inf")


def test_majority_samples_as_much_as_the_budget_may_pay_for(world) -> None:
    task = world.Task()
    for budget, samples in ((Budget(simulations=40), 40), (Budget(tokens=900), 900), (Budget(tokens=900, simulations=50), 50)):
        assert choose_method(AUTO, budget=budget, evaluator="constant", task=task).samples == samples


def test_a_named_method_is_left_as_it_is(world) -> None:
    settings = SearchSettings(method="beam", beams=3)
    assert choose_method(settings, budget=Budget(tokens=1), evaluator="prm", task=world.Task()) is settings


def test_other_options_are_kept() -> None:
    settings = SearchSettings(method="auto", aggregate="min", merge="ids", prune=False)
    found = choose_method(settings, budget=Budget(tokens=9000), evaluator="value", task=task_named("countdown"))
    assert (found.aggregate, found.merge, found.prune) == ("min", "ids", False)
    with pytest.raises(InputError, match="no effect on method 'auto'"):
        SearchSettings(method="auto", beams=3)


def test_a_search_does_not_start_without_a_method(world) -> None:
    with pytest.raises(InputError, match="auto"):
        start_search(
            Problem("p", "x\n"), (1, 2), task=world.Task(), settings=AUTO, budget=Budget(tokens=9), seed=0, context_length=99
        )


def test_the_kind_of_an_evaluator_is_in_its_fingerprint() -> None:
    task = task_named("countdown")
    assert evaluator_kind(ConstantEvaluator().fingerprint) == "constant"
    assert evaluator_kind(JudgementEvaluator(task).fingerprint) == "judgement"
    assert evaluator_kind("prm:model:ab12") == "prm"
    assert evaluator_kind("mean digit") == "value"


def test_the_options_know_every_evaluator_before_it_is_loaded() -> None:
    for name, kind in EVALUATOR_KINDS.items():
        evaluator = build_evaluator(ModelOptions(evaluator=name), task_named("countdown"))
        assert evaluator_kind(evaluator.fingerprint) == kind
