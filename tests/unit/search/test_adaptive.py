"""AB-MCTS-A on the digit world."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from treewise.policy.scripted import ScriptedPolicy
from treewise.search.arms import GENERATE, Arms
from treewise.search.budget import Budget
from treewise.search.settings import SearchSettings
from treewise.search.types import InputError, SearchEnd, Standing

METHOD = {"method": "ab-mcts"}


def shape(search) -> list[tuple[int, ...]]:
    """The tree as parents and ids of each node."""
    s = search.solutions
    return [(s.tree.parent(n), *s.tokens.ids(n)) for n in range(s.tree.size)]


def test_it_answers_better_than_as_many_tokens_of_independent_solutions(world) -> None:
    budget = Budget(tokens=300)
    found = {
        method: np.mean([s.answer().value for s in world.run(budget=budget, problems=30, **options).values()])
        for method, options in (("ab-mcts", METHOD), ("best-of-n", {"method": "best-of-n", "samples": 1000}))
    }
    assert found["ab-mcts"] > found["best-of-n"] + 0.02


@pytest.mark.parametrize("tokens", [0, 1, 2, 9, 10, 11, 25, 64, 200])
@pytest.mark.parametrize("lanes", [1, 3, 8])
def test_the_token_budget_is_hard_and_what_finished_is_answered(world, tokens: int, lanes: int) -> None:
    for search in world.run(budget=Budget(tokens=tokens), lanes=lanes, **METHOD).values():
        assert search.bill.policy_tokens <= tokens
        assert search.answer().finished == bool(search.solutions.finished)
        assert search.meter.reserved_tokens == 0
        assert search.arms.pending() == 0
        if tokens >= 2 * 25:  # a path of 5 digits may end at a nine before; the second try need not
            assert search.bill.simulations >= 1


@pytest.mark.parametrize("simulations", [0, 1, 5])
def test_simulations_are_paths_that_ended(world, simulations: int) -> None:
    for search in world.run(budget=Budget(simulations=simulations), **METHOD).values():
        s = search.solutions
        ended = sum(s.tree.multiplicity(n) for n, standing in enumerate(s.standings) if standing is not Standing.OPEN)
        assert search.bill.simulations == ended == simulations


def test_same_seed_same_tree_and_another_seed_another(world) -> None:
    def trees(seed: int) -> list[object]:
        return [shape(s) for s in world.run(budget=Budget(tokens=120), seed=seed, **METHOD).values()]

    assert trees(1) == trees(1)
    assert trees(1) != trees(2)


@pytest.mark.parametrize("change", [{"arm_posterior": "beta"}, {"arm_backup": "all"}, {"lanes": 1}])
def test_every_option_changes_the_search(world, change: dict[str, object]) -> None:
    budget = Budget(tokens=200)
    plain = [shape(s) for s in world.run(budget=budget, **METHOD).values()]
    assert [shape(s) for s in world.run(budget=budget, **METHOD, **change).values()] != plain


@pytest.mark.parametrize("options", [{"method": "mcts", "arm_backup": "all"}, {"method": "beam", "arm_posterior": "beta"}])
def test_its_options_are_refused_elsewhere(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match="has no effect"):
        SearchSettings(**options)  # type: ignore[arg-type]


def test_arms_hold_the_scores_of_the_tree_that_was_grown(world) -> None:
    """GENERATE of every open node: one score a sample that was drawn there, copies included."""
    for search in world.run(budget=Budget(tokens=300), **METHOD).values():
        tree = search.solutions.tree
        for node in range(tree.size):
            if not search.is_open(node):
                continue
            scores = [search.value(c) for c in tree.children(node).tolist() for _ in range(tree.multiplicity(c))]
            expected = (len(scores), sum(scores), sum(x * x for x in scores))
            assert search.arms.scores(node, GENERATE) == pytest.approx(expected)


def test_a_lane_goes_on_where_it_was_until_a_path_ends(world) -> None:
    """With one lane a step is asked for at the node before or below it, except after a path's end."""
    policy = ScriptedPolicy(world.random_digits)
    search = world.run(budget=Budget(tokens=200), lanes=1, problems=1, policy=policy, **METHOD)["p0"]
    paths = [request.ids[request.prompt_length :] for _, request in policy.requests]
    assert len({len(p) for p in paths}) > 2
    elsewhere = sum(after[: len(before)] != before for before, after in pairwise(paths))
    assert 0 < elsewhere <= search.bill.simulations


def test_a_policy_that_repeats_itself_uses_the_tree_up(world) -> None:
    policy = ScriptedPolicy(world.script(lambda ids, seed: "5"))
    search = world.run(budget=Budget(tokens=10_000), policy=policy, problems=1, **METHOD)["p0"]
    assert search.answer().end is SearchEnd.EXHAUSTED
    assert search.answer().text == "55555"
    assert search.bill.policy_tokens < 10_000


def test_only_dead_paths_end_with_a_reason(world) -> None:
    policy = ScriptedPolicy(world.script(lambda ids, seed: "9"))
    search = world.run(budget=Budget(tokens=100), policy=policy, problems=1, **METHOD)["p0"]
    answer = search.answer()
    assert answer.text is None
    assert "nine" in answer.reason


def test_a_context_that_is_full_ends_paths_and_not_the_search(world) -> None:
    """A prompt of 10 tokens and 3 steps of 2 fill it: paths are cut there one after the other until the budget is spent."""
    for search in world.run(budget=Budget(tokens=150), context=16, **METHOD).values():
        assert search.error is None
        assert search.answer().text is None
        assert sum("context" in j.reason for j in search.solutions.judgements.values()) > 1
        assert search.bill.policy_tokens > 130


def test_lanes_work_side_by_side_and_never_at_the_same_sample(world) -> None:
    policy = ScriptedPolicy(world.random_digits)
    search = world.run(budget=Budget(tokens=400), lanes=6, problems=1, policy=policy, **METHOD)["p0"]
    seeds = [request.seeds for _, request in policy.requests]
    assert len(seeds) == len(set(seeds))
    assert search.bill.rounds < len(seeds) / 2


def test_a_wave_counts_its_own_requests_in_its_draws(world, monkeypatch) -> None:
    """Within a wave each decision sees one request more under way; the next wave begins with none."""
    seen: list[int] = []
    decide = Arms.decide

    def watched(arms: Arms, number: int, *, start: int = 0) -> int:
        seen.append(arms.pending())
        return decide(arms, number, start=start)

    monkeypatch.setattr(Arms, "decide", watched)
    world.run(budget=Budget(simulations=40), lanes=3, problems=1, **METHOD)
    assert seen[:6] == [0, 1, 2, 0, 1, 2]
    assert max(seen) == 2
