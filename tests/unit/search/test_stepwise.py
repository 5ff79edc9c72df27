"""What the wave methods share: paying for a wave, small budgets, what paths take."""

from __future__ import annotations

from collections import Counter

import pytest

from treewise.policy.scripted import ScriptedPolicy, text_step
from treewise.search.budget import Budget
from treewise.search.pace import LIKELY_TOKENS, Pace
from treewise.search.types import SearchEnd


def test_pace_is_the_mean_of_what_paths_took() -> None:
    pace = Pace(max_steps=10, step_tokens=40)
    assert (pace.depth, pace.step_tokens, pace.path_tokens(0)) == (10, 40, 400)
    assert pace.likely_tokens(2) == LIKELY_TOKENS * 40 * 8
    pace.grown(tokens=30, steps=10)
    pace.grown(tokens=20, steps=0)
    assert pace.step_tokens == 5
    assert pace.path_tokens(4) == pace.likely_tokens(4) == 5 * 6
    pace.ended(4)
    pace.ended(7)
    assert pace.path_tokens(3) == 5 * 2.5
    assert pace.path_tokens(9) == 5  # beyond what is typical one more step is expected


def test_a_step_is_never_expected_to_take_less_than_a_token() -> None:
    assert Pace(max_steps=8, step_tokens=1).likely_tokens(0) == 8


def test_what_cannot_be_paid_for_in_the_worst_case_is_asked_for_when_earlier_steps_are_back(world, levels) -> None:
    """Steps may take 30 tokens and take 2. With 400 tokens no more than 13 may be asked for at once, and all 16 come."""
    policy = ScriptedPolicy(levels.few("12345678"))
    task = world.Task(depth=3)
    task.step_tokens, task.max_steps = 30, 3
    options = {
        "beams": 4,
        "width": 4,
        "merge": "none",
        "problems": 1,
        "policy": policy,
        "task": task,
        "evaluator": levels.Valued(),
    }
    search = world.run(budget=Budget(tokens=400), method="beam", **options)["p0"]
    tree = search.solutions.tree
    first_pass = Counter(tree.depth(node) for node in range(1, 1 + 48))
    assert first_pass == {1: 16, 2: 16, 3: 16}
    assert max(len(request.seeds) for _, request in policy.requests) <= 400 // 30
    assert search.bill.policy_tokens <= 400


@pytest.mark.parametrize("method", ["beam", "dvts", "rebase", "particles", "breadth-first"])
def test_a_wave_is_as_wide_as_the_rest_of_the_budget_pays_for(world, levels, method: str) -> None:
    """A step takes two tokens; it was guessed to take one, so that of 60 tokens twelve first steps are asked for. The 36 that are
    left pay for 4 paths of 4 more steps. What is left in the end does not pay for another path."""
    policy = ScriptedPolicy(levels.few("12345678"))
    task = world.Task()
    task.step_tokens, task.max_steps = 2, 5
    options = {"merge": "none", "problems": 1, "policy": policy, "task": task, "prune": False}
    if method == "breadth-first":
        options["width"] = 16  # it has no more first steps than that
    search = world.run(budget=Budget(tokens=60), method=method, **options)["p0"]
    widths = Counter()
    for text, count in levels.expanded(policy):
        widths[text.count("\n")] += count
    assert search.bill.policy_tokens >= 60 - 10
    assert widths[0] >= 12
    assert widths[1] == 4
    assert len(search.solutions.finished) >= 4


@pytest.mark.parametrize("tokens", range(10, 40))
@pytest.mark.parametrize("method", ["beam", "rebase", "particles", "hybrid", "depth-first"])
def test_one_path_is_brought_to_its_end_before_the_budget_is(world, levels, method: str, tokens: int) -> None:
    """A path takes ten tokens where the limits allow 32: whatever the budget above that, there is an answer."""
    policy = ScriptedPolicy(levels.chains("12345678", depth=5))
    for search in world.run(budget=Budget(tokens=tokens), method=method, policy=policy, problems=3).values():
        assert search.answer().finished
        assert search.bill.policy_tokens <= tokens


def test_a_budget_of_evaluator_tokens_ends_the_waves(world, levels) -> None:
    """Three tokens are read a path; the wave that passes the limit is the last."""
    policy = ScriptedPolicy(levels.few("12345678"))
    search = world.run(budget=Budget(evaluator_tokens=40), method="beam", policy=policy, merge="none", problems=1)["p0"]
    assert search.answer().end is SearchEnd.BUDGET
    assert search.bill.evaluator_tokens == 3 * 16


@pytest.mark.parametrize("aggregate", ["last", "min", "product"])
def test_paths_are_ranked_by_their_aggregated_value(world, levels, aggregate: str) -> None:
    """`1` then `3`: 0.2, 0.9. `2` then `4`: 0.6, 0.8. By the last value the first is better, by the others the second."""
    values = {"1\n": 0.2, "2\n": 0.6, "1\n3\n": 0.9, "2\n4\n": 0.8}
    policy = ScriptedPolicy(
        lambda ids, seed: levels.few({"": "12", "1\n": "3", "2\n": "4"}.get(levels.solution(ids), "5"))(ids, seed)
    )
    evaluator = levels.Valued(lambda text: values.get(text, 0.5))
    options = {"beams": 2, "width": 4, "problems": 1, "policy": policy, "evaluator": evaluator, "task": world.Task(depth=3)}
    search = world.run(budget=Budget(), method="beam", aggregate=aggregate, **options)["p0"]
    kept = [text for text, _ in levels.expanded(policy) if text.count("\n") == 2]
    assert kept == (["1\n3\n", "2\n4\n"] if aggregate == "last" else ["2\n4\n", "1\n3\n"])
    assert search.answer().finished


@pytest.mark.parametrize("method", ["hybrid", "entropy-forks", "beam"])
def test_paths_that_wait_are_tried_before_a_method_gives_up_without_an_answer(world, levels, method: str) -> None:
    """All whole solutions die at their third step the first sixteen times; what they left open is taken up then."""
    calls = Counter()

    def script(ids, seed):
        calls["all"] += 1
        steps = levels.chains("12345678", depth=5)(ids, seed)
        third = 2 - levels.solution(ids).count("\n")
        return (*steps[:third], text_step("9\n")) if calls["all"] <= 200 and 0 <= third < len(steps) else steps

    search = world.run(budget=Budget(tokens=4000), method=method, policy=ScriptedPolicy(script), problems=1)["p0"]
    assert search.answer().finished
