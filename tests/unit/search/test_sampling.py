"""Greedy, best-of-n and majority in the same frame."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest

from treewise.policy.scripted import ScriptedPolicy, text_step
from treewise.search.budget import Budget
from treewise.search.types import SearchEnd


def test_best_of_n_draws_n_whole_solutions_and_gives_the_best(world) -> None:
    policy = ScriptedPolicy(world.random_digits)
    for search in world.run(budget=Budget(), method="best-of-n", samples=12, policy=policy).values():
        assert search.bill.simulations == 12
        assert search.bill.rounds == 1
        answers = [search.solutions.judgements[n].answer for n in search.solutions.finished]
        assert search.answer().value == pytest.approx(max(world.value_of(a) for a in answers))
    assert {request.steps for _, request in policy.requests} == {None}


@pytest.mark.parametrize("tokens", [0, 1, 7, 32, 33, 100, 333])
def test_the_token_budget_is_a_hard_limit(world, tokens: int) -> None:
    for search in world.run(budget=Budget(tokens=tokens), method="best-of-n", samples=1000).values():
        assert search.bill.policy_tokens <= tokens
        assert search.answer().end is SearchEnd.BUDGET
        assert search.meter.reserved_tokens == 0


def test_samples_with_a_common_start_share_nodes_and_keep_their_copies(world) -> None:
    policy = ScriptedPolicy(lambda ids, seed: tuple(text_step(f"{digit}\n") for digit in "12345"))
    search = world.run(budget=Budget(), method="majority", samples=7, policy=policy, prune=False, problems=1)["p0"]
    tree = search.solutions.tree
    assert tree.size == 6
    assert tree.multiplicity(search.solutions.finished[0]) == 7
    assert search.answer().text == "12345"


def test_greedy_asks_once_for_the_most_likely_tokens(world) -> None:
    policy = ScriptedPolicy(world.random_digits)
    search = world.run(budget=Budget(), method="greedy", policy=policy, problems=1)["p0"]
    assert [request.greedy for _, request in policy.requests] == [True]
    assert search.bill.simulations == 1
    assert search.answer().end is SearchEnd.COMPLETE


def test_majority_gives_the_most_frequent_answer(world) -> None:
    policy = ScriptedPolicy(lambda ids, seed: world.script(lambda i, s: "7" if seed % 4 == 0 else "3")(ids, seed))
    search = world.run(budget=Budget(), method="majority", samples=40, policy=policy, task=world.Task(depth=1), problems=1)["p0"]
    assert search.answer().text == "3"


@pytest.mark.parametrize("limit", [None, 3])
@pytest.mark.parametrize("choose", ["majority", "weighted-majority"])
def test_voting_ends_with_the_first_sample_after_which_no_sequence_of_votes_changes_the_answer(
    world, choose: str, limit: int | None
) -> None:
    """Against brute force: all sequences of five votes for one of two answers, or of dead paths, and all ways on from each part.

    An answer of value 0.5 (`4`) and one of 1 (`8`): with weights two of the first are no more than one of the second.
    """
    worth = {"4": 0.5 if choose == "weighted-majority" else 1.0, "8": 1.0, "9": 0.0}
    whole = 5 if limit is None else limit

    def leaders(votes: tuple[str, ...], more: tuple[str, ...] = ()) -> set[str]:
        """After these votes, and others that weigh as much as any can: a path of value 1 may end in either answer."""
        sums = {answer: worth[answer] * votes.count(answer) + more.count(answer) for answer in "48"}
        return {answer for answer, total in sums.items() if total == max(sums.values()) > 0}

    for votes in product("489", repeat=5):
        policy = ScriptedPolicy(each_of(votes))
        options = {
            "method": "majority",
            "choose": choose,
            "samples": 5,
            "problems": 1,
            "policy": policy,
            "task": world.Task(depth=1),
        }
        search = world.run(budget=Budget(simulations=limit), **options)["p0"]
        fixed = (
            drawn
            for drawn in range(1, whole)
            if len(now := leaders(votes[:drawn])) == 1
            and all(leaders(votes[:drawn], rest) == now for rest in product("489", repeat=whole - drawn))
        )
        expected = next(fixed, whole)
        assert search.bill.simulations == expected, votes
        if any(vote != "9" for vote in votes[:whole]):
            assert search.answer().text in leaders(votes[:whole]), votes
        settled = expected < whole and search.answer().finished
        assert (search.answer().end is SearchEnd.SETTLED) >= settled, votes


def each_of(votes: Sequence[str]):
    """A script that gives one after the other, whatever the seed."""
    left = iter(votes)
    return lambda ids, seed: (text_step(f"{next(left)}\n"),)


def test_a_budget_of_simulations_limits_the_samples(world) -> None:
    search = world.run(budget=Budget(simulations=5), method="best-of-n", samples=12, problems=1)["p0"]
    assert (search.bill.simulations, search.answer().end) == (5, SearchEnd.BUDGET)


def test_the_ids_along_a_path_are_those_of_one_sample(world) -> None:
    """Samples of several steps that begin with the same text in other tokens do not share that node: what follows was
    written after just these ids."""

    def script(ids, seed):
        return (text_step(" 4\n" if seed % 2 else "4\n"), text_step(f"{seed % 9}\n"), text_step(f"{seed % 5}\n"))

    policy = ScriptedPolicy(script)
    search = world.run(budget=Budget(), method="best-of-n", policy=policy, task=world.Task(depth=3), problems=1)["p0"]
    seeds = [seed for _, request in policy.requests for seed in request.seeds]
    (prompt,) = {request.ids for _, request in policy.requests}
    drawn = {prompt + tuple(i for step in script((), seed) for i in step.ids) for seed in seeds}
    assert {search.solutions.path(node).ids for node in search.solutions.finished} <= drawn


def test_a_sample_cut_between_two_steps_is_counted_as_unfinished(world) -> None:
    policy = ScriptedPolicy(lambda ids, seed: tuple(text_step("3\n") for _ in range(5)))
    search = world.run(budget=Budget(tokens=6), method="best-of-n", samples=1, policy=policy, problems=1)["p0"]
    assert (search.bill.policy_tokens, search.bill.unfinished, search.answer().finished) == (6, 1, False)
