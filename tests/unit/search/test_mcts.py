"""MCTS: budgets, ends, lanes and what is kept, on a world whose values are known."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treewise.policy.scripted import ScriptedPolicy, text_step
from treewise.search.budget import Budget
from treewise.search.mcts import tie_seed
from treewise.search.trace import Origin
from treewise.search.tree import ROOT, State
from treewise.search.tree_search import TreeSearch
from treewise.search.types import Finish, InputError, PolicyError, SearchEnd, Standing, Step
from treewise.value.evaluators import ConstantEvaluator

ORIGIN = Origin("digits", "mcts", "{}", "hash", 0, "scripted", "mean digit", "0")


def left_over(search: TreeSearch) -> tuple[int, int, int, list[int]]:
    """What would be in flight after the end: marks, tokens, simulations, nodes under expansion."""
    tree = search.solutions.tree
    flying = [n for n in range(tree.size) if tree.state(n) is State.IN_FLIGHT]
    return tree.in_flight_total(), search.meter.reserved_tokens, search.meter.reserved_simulations, flying


NOTHING = (0, 0, 0, [])


@pytest.mark.parametrize("lanes", [1, 2, 16])
@pytest.mark.parametrize("tokens", [0, 1, 3, 4, 9, 10, 40, 333])
def test_the_token_budget_is_never_passed_whatever_the_lanes(world, tokens: int, lanes: int) -> None:
    for search in world.run(budget=Budget(tokens=tokens), lanes=lanes).values():
        assert search.bill.policy_tokens <= tokens
        assert left_over(search) == NOTHING
        assert search.answer().end is SearchEnd.BUDGET


def test_a_budget_of_one_solution_finishes_a_path(world) -> None:
    """Small budgets that never finish a path are the commonest fault: the first path is followed to its end."""
    policy = ScriptedPolicy(world.script(lambda ids, seed: str(seed % 9)))
    for search in world.run(budget=Budget(tokens=16), policy=policy, max_steps=5).values():
        assert search.answer().finished


def test_one_simulation_finishes_a_path_and_is_counted(world) -> None:
    """E35: a simulation is one path followed to its end; it costs one proposal a level."""
    for search in world.run(budget=Budget(simulations=1), policy=ScriptedPolicy(world.script(lambda i, s: str(s % 9)))).values():
        assert search.answer().finished
        assert search.bill.simulations == 1
        assert search.bill.rounds == 5


def test_no_budget_runs_nothing_and_says_so(world) -> None:
    for search in world.run(budget=Budget(simulations=0)).values():
        answer = search.answer()
        assert (answer.finished, answer.text, answer.value) == (False, None, None)
        assert answer.reason == "no path ended in an answer: the budget is spent"
        assert answer.bill.policy_tokens == 0


@given(
    order=st.integers(0, 10**6),
    lanes=st.sampled_from([1, 3, 8]),
    widths=st.sampled_from([(2, 0.0), (3, 1.0), (1, 2.0)]),
    leaf=st.booleans(),
)
@settings(max_examples=25)
def test_any_order_of_completion_gives_the_same_trace(
    world, order: int, lanes: int, widths: tuple[int, float], leaf: bool
) -> None:
    options = {"lanes": lanes, "width": widths[0], "widening_k": widths[1], "run_to": "leaf" if leaf else "finish"}
    first = world.run(budget=Budget(tokens=150), problems=3, **options)
    other = world.run(
        budget=Budget(tokens=150), problems=3, policy=ScriptedPolicy(world.random_digits, shuffle=True, seed=order), **options
    )
    for name, search in first.items():
        one, two = search.trace(ORIGIN), other[name].trace(ORIGIN)
        assert one.nodes == two.nodes
        assert (one.outcome.text, one.outcome.value, one.outcome.end) == (two.outcome.text, two.outcome.value, two.outcome.end)


@pytest.mark.parametrize("ties", ["seeded", "first"])
def test_one_lane_equals_the_sequential_rule_bit_for_bit(world, ties: str) -> None:
    """A plain recursive search, written here with Python numbers, makes the same tree."""
    search = world.run(budget=Budget(simulations=40), problems=1, lanes=1, width=2, widening_k=0.0, merge="none", ties=ties)["p0"]
    policy = ScriptedPolicy(world.random_digits)
    prompt = policy.encode(world.Task().prompt(search.problem))
    reference = SequentialSearch(prompt=prompt, run_seed=0, problem_id="p0", world=world, ties=ties)
    for _ in range(40):
        reference.simulate()
    tree = search.solutions.tree
    assert tree.size == len(reference.parent)
    assert [tree.parent(n) for n in range(tree.size)] == reference.parent
    assert [tree.visits(n) for n in range(tree.size)] == reference.visits
    means = [tree.mean(n) for n in range(tree.size)]
    assert all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(means, reference.means(), strict=True))
    assert reference.ties_met > 0


class SequentialSearch:
    """PUCT with c = 1, first play = parent's value, own evaluation worth one visit, in plain Python."""

    def __init__(self, *, prompt, run_seed: int, problem_id: str, world, ties: str) -> None:
        from treewise.search.seeds import sibling_seed

        self.seed = lambda node, index: sibling_seed(run_seed, problem_id, node, index)
        self.script, self.world = world.random_digits, world
        drawn = tie_seed(run_seed, problem_id)
        self.lot = (lambda child: split_mix_64(drawn, child)) if ties == "seeded" else (lambda child: -child)
        self.ties_met = 0
        self.parent, self.visits, self.sums, self.own = [-1], [0], [0.0], [math.nan]
        self.ids, self.text, self.done, self.closed, self.children = [prompt], [""], [False], [False], [[]]

    def means(self) -> list[float]:
        return [s / n if n else math.nan for s, n in zip(self.sums, self.visits, strict=True)]

    def backup(self, node: int, value: float) -> None:
        while node >= 0:
            self.visits[node] += 1
            self.sums[node] += value
            node = self.parent[node]

    def q(self, node: int) -> float:
        return (self.sums[node] + self.own[node]) / (self.visits[node] + 1)

    def exhausted(self, node: int) -> bool:
        return self.done[node] or (self.closed[node] and all(self.exhausted(c) for c in self.children[node]))

    def best_child(self, node: int) -> int | None:
        live = [c for c in self.children[node] if not self.exhausted(c)]
        prior = 1 / len(self.children[node]) if self.children[node] else 0.0
        total = math.sqrt(max(self.visits[node], 1.0))
        scores = {c: self.q(c) + total * prior / (1 + self.visits[c]) for c in live}
        self.ties_met += list(scores.values()).count(max(scores.values(), default=0.0)) > 1
        return max(live, key=lambda c: (scores[c], self.lot(c))) if live else None

    def simulate(self) -> None:
        node = 0
        while self.children[node]:
            child = self.best_child(node)
            if child is None:
                return
            node = child
        while True:
            finished = False
            for index in range(2):
                step = self.script(self.ids[node], self.seed(node, index))[0]
                text = self.text[node] + step.text
                child = len(self.parent)
                self.children[node].append(child)
                dead, ended = "9" in step.text, len(text) == 2 * 5
                self.parent.append(node)
                self.visits.append(0)
                self.sums.append(0.0)
                self.own.append(0.0 if dead else float_32(self.world.value_of(text)))
                self.ids.append(self.ids[node] + step.ids)
                self.text.append(text)
                self.done.append(dead or ended)
                self.closed.append(False)
                self.children.append([])
                finished = finished or (ended and not dead)
            self.closed[node] = True
            new = self.children[node]
            for child in [c for c in new if self.own[c] == 0.0 and "9" in self.text[c]]:
                self.backup(child, 0.0)
            for child in [c for c in new if self.done[c] and "9" not in self.text[c]]:
                self.backup(child, self.world.value_of(self.text[child]))
            following = self.best_child(node)
            if finished or following is None:
                return
            node = following


def split_mix_64(seed: int, index: int) -> int:
    """The `index`-th number of SplitMix64 from `seed`, as its authors give it (Steele, Lea & Flood 2014)."""
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def float_32(value: float) -> float:
    """The value as the tree stores it."""
    import numpy as np

    return float(np.float32(value))


def test_an_evaluation_that_is_no_number_ends_its_search_and_no_other(world) -> None:
    class Broken(world.MeanDigit):
        def evaluate(self, paths):
            values = super().evaluate(paths)
            return [type(v)(math.nan) if p.problem.id == "p2" else v for p, v in zip(paths, values, strict=True)]

    found = world.run(budget=Budget(simulations=10), evaluator=Broken(), concurrency=6)
    for name, search in found.items():
        assert left_over(search) == NOTHING
        if name == "p2":
            assert search.answer().end is SearchEnd.FAILED
            assert "nan" in search.answer().reason
            assert "'p2'" in search.answer().reason
        else:
            assert search.answer().end is SearchEnd.BUDGET
            assert search.bill.simulations == 10


def test_a_wrong_number_of_values_is_an_error_and_never_a_default(world) -> None:
    """S04."""

    class Short(world.MeanDigit):
        def evaluate(self, paths):
            return super().evaluate(paths)[:-1]

    for search in world.run(budget=Budget(simulations=10), evaluator=Short()).values():
        assert search.answer().end is SearchEnd.FAILED
        assert "evaluations for" in search.answer().reason


def test_a_failed_request_ends_its_search_with_the_reason_and_keeps_what_is_finished(world) -> None:
    """S22: a swallowed exception never becomes an accuracy."""
    failing = ScriptedPolicy(world.random_digits, fault=lambda t, r: PolicyError("lost connection") if t == 150 else None)
    found = world.run(budget=Budget(simulations=30), policy=failing)
    ends = [search.answer().end for search in found.values()]
    assert ends.count(SearchEnd.FAILED) == 1
    (failed,) = [s for s in found.values() if s.answer().end is SearchEnd.FAILED]
    assert "lost connection" in failed.answer().reason
    assert failed.answer().finished
    assert left_over(failed) == NOTHING


def test_a_dead_backend_ends_every_search_and_leaves_nothing_in_flight(world) -> None:
    for search in world.run(
        budget=Budget(simulations=50), policy=ScriptedPolicy(world.random_digits, fail_after=40), lanes=8
    ).values():
        assert search.answer().end is SearchEnd.FAILED
        assert left_over(search) == NOTHING


def test_stopping_the_run_cancels_what_is_under_way(world) -> None:
    from treewise.search.driver import Driver
    from treewise.search.methods import start_search
    from treewise.search.settings import SearchSettings
    from treewise.search.types import Problem

    policy, task = ScriptedPolicy(world.random_digits), world.Task()
    searches = [
        start_search(
            Problem(f"p{i}", "x\n"),
            policy.encode(task.prompt(Problem("p", "x\n"))),
            task=task,
            settings=SearchSettings(),
            budget=Budget(simulations=5 if i == 0 else 500),
            seed=0,
            context_length=999,
        )
        for i in range(3)
    ]
    running = Driver(policy, world.MeanDigit()).run(searches, concurrency=3)
    assert next(running).problem.id == "p0"
    running.close()
    assert [s.answer().end for s in searches] == [SearchEnd.BUDGET, SearchEnd.CANCELLED, SearchEnd.CANCELLED]
    assert all(left_over(s) == NOTHING for s in searches)
    assert policy.collect(wait=False) == []


def test_identical_siblings_are_one_child_with_their_multiplicity(world) -> None:
    """S13."""
    policy = ScriptedPolicy(world.script(lambda ids, seed: "4"))
    search = world.run(budget=Budget(simulations=1), policy=policy, width=4, problems=1)["p0"]
    tree = search.solutions.tree
    (child,) = tree.children(ROOT).tolist()
    assert tree.multiplicity(child) == 4
    assert search.bill.duplicates == 15


def test_the_same_step_in_other_tokens_is_one_child(world) -> None:
    """E32: "4" and " 4" are the same step; by ids they are two."""

    def script(ids, seed):
        return (text_step(" 4\n" if seed % 2 else "4\n"),)

    sizes = {}
    for merge in ("text", "ids"):
        options = {"width": 8, "merge": merge, "problems": 1, "task": world.Task(depth=1)}
        search = world.run(budget=Budget(simulations=1), policy=ScriptedPolicy(script), **options)["p0"]
        sizes[merge] = len(search.solutions.tree.children(ROOT))
    assert sizes == {"text": 1, "ids": 2}


def test_every_token_generated_is_in_the_tree_or_counted_as_a_copy(world) -> None:
    """S38, E37: no paid generation is thrown away, with 64 lanes either."""
    for search in world.run(budget=Budget(simulations=64), lanes=64, width=4).values():
        tree, tokens = search.solutions.tree, search.solutions.tokens
        kept = sum(len(tokens.ids(n)) * tree.multiplicity(n) for n in range(1, tree.size))
        assert kept == search.bill.policy_tokens
        assert search.bill.dropped == 0


def test_a_small_world_is_searched_to_exhaustion_and_its_best_path_found(world) -> None:
    """S14, E05, exhaustive check: every path of two digits from {1, 2, 3} is found, and the best one is the answer."""
    policy = ScriptedPolicy(world.script(lambda ids, seed: "123"[seed % 3]))
    task = world.Task(depth=2)
    search = world.run(budget=Budget(simulations=10_000), policy=policy, task=task, widening_k=1.0, problems=1)["p0"]
    assert search.answer().end is SearchEnd.EXHAUSTED
    found = {search.solutions.judgements[n].answer for n in search.solutions.finished}
    assert found == {"".join(pair) for pair in product("123", repeat=2)}
    assert search.answer().text == "33"


def test_a_proven_answer_ends_the_search_at_once(world) -> None:
    policy = ScriptedPolicy(world.script(lambda ids, seed: "123"[seed % 3]))
    search = world.run(budget=Budget(simulations=10_000), policy=policy, task=world.Task(depth=2, proof="12"), problems=1)["p0"]
    assert (search.answer().end, search.answer().text) == (SearchEnd.PROVEN, "12")
    assert search.bill.simulations < 60


@pytest.mark.parametrize(("proof", "end"), [("88", SearchEnd.SETTLED), (None, SearchEnd.BUDGET)])
def test_a_proven_path_settles_the_search_and_a_reading_of_one_does_not(world, proof: str | None, end: SearchEnd) -> None:
    """The evaluator gives every path 1; others that come later may equal it, and the lot may fall on them."""
    policy = ScriptedPolicy(world.script(lambda ids, seed: "8"))
    search = world.run(
        budget=Budget(simulations=100),
        policy=policy,
        problems=1,
        task=world.Task(depth=2, proof=proof),
        evaluator=ConstantEvaluator(1.0),
        stop_when_proven=False,
        merge="none",
    )["p0"]
    assert search.answer().end is end
    assert (search.bill.simulations == 100) == (end is SearchEnd.BUDGET)


@pytest.mark.parametrize("method", ["mcts", "majority"])
@pytest.mark.parametrize("choose", ["majority", "weighted-majority"])
def test_pruning_never_changes_the_answer_and_saves_something(world, method: str, choose: str) -> None:
    def run(prune: bool):
        policy = ScriptedPolicy(world.script(lambda ids, seed: "81"[seed % 5 == 0]))
        limits = {"samples": 60} if method == "majority" else {}
        task = world.Task(depth=1)
        return world.run(
            budget=Budget(simulations=60),
            problems=8,
            method=method,
            choose=choose,
            prune=prune,
            policy=policy,
            task=task,
            merge="none",
            **limits,
        )

    whole, pruned = run(False), run(True)
    assert {n: s.answer().text for n, s in whole.items()} == {n: s.answer().text for n, s in pruned.items()}
    assert any(s.answer().end is SearchEnd.SETTLED for s in pruned.values())
    assert sum(s.bill.policy_tokens for s in pruned.values()) < sum(s.bill.policy_tokens for s in whole.values())


def test_a_path_that_never_finishes_is_cut_and_counted(world) -> None:
    """S28, S41: the step limit ends a path; it is dead, with a reason, and no answer is made up."""
    search = world.run(budget=Budget(simulations=8), task=world.Task(depth=50), max_steps=3, problems=1)["p0"]
    answer = search.answer()
    assert not answer.finished
    assert search.bill.unfinished > 0
    dead = [j.reason for j in search.solutions.judgements.values() if j.standing is Standing.DEAD and "nine" not in j.reason]
    assert set(dead) == {"no answer within 3 steps"}


def test_a_full_context_ends_paths_and_not_the_search(world) -> None:
    search = world.run(budget=Budget(simulations=8), context=17, problems=1)["p0"]
    assert search.answer().end in (SearchEnd.BUDGET, SearchEnd.EXHAUSTED)
    assert search.bill.unfinished > 0


def test_the_ids_along_a_path_are_what_the_policy_was_asked_to_continue(world) -> None:
    """The prefix invariant: every request is the prompt and the ids of a node's path, nothing else."""
    policy = ScriptedPolicy(world.random_digits)
    search = world.run(budget=Budget(simulations=30), policy=policy, problems=1)["p0"]
    paths = {search.solutions.path(n).ids for n in range(search.solutions.tree.size)}
    assert {request.ids for _, request in policy.requests} <= paths


def test_each_sample_has_a_seed_of_its_own(world) -> None:
    policy = ScriptedPolicy(world.random_digits)
    world.run(budget=Budget(simulations=30), policy=policy, lanes=8, widening_k=1.0)
    seeds = [seed for _, request in policy.requests for seed in request.seeds]
    assert len(set(seeds)) == len(seeds)


def test_samples_without_a_token_are_dropped_and_counted_and_their_siblings_kept(world) -> None:
    """S32, S34."""

    def script(ids, seed):
        return (Step((), (), "", Finish.ERROR),) if seed % 3 == 0 else (text_step(f"{seed % 9}\n"),)

    search = world.run(budget=Budget(simulations=6), policy=ScriptedPolicy(script), width=6, problems=1)["p0"]
    assert search.bill.dropped > 0
    assert search.answer().finished


def test_a_policy_that_gives_nothing_usable_is_a_failure_and_no_wrong_answer(world) -> None:
    policy = ScriptedPolicy(lambda ids, seed: (Step((), (), "", Finish.ERROR),))
    for search in world.run(budget=Budget(simulations=6), policy=policy).values():
        assert search.answer().end is SearchEnd.FAILED
        assert "no usable sample" in search.answer().reason
        assert left_over(search) == NOTHING


def test_problems_do_not_share_state(world) -> None:
    """S17: the second problem alone gives what it gives behind the first."""
    together = world.run(budget=Budget(simulations=20), concurrency=1)
    mixed = world.run(budget=Budget(simulations=20), concurrency=6)
    for name in together:
        assert together[name].trace(ORIGIN).nodes == mixed[name].trace(ORIGIN).nodes


def test_more_simulations_find_better_answers(world) -> None:
    few = world.run(budget=Budget(simulations=2), problems=30)
    many = world.run(budget=Budget(simulations=60), problems=30)
    mean = lambda found: sum(s.answer().value or 0.0 for s in found.values()) / len(found)  # noqa: E731
    assert mean(many) > mean(few) + 0.1


@pytest.mark.parametrize("rule", ["puct", "alphazero", "uct", "gumbel"])
@pytest.mark.parametrize("backup", ["mean", "max"])
def test_every_rule_runs_with_lanes_and_answers(world, rule: str, backup: str) -> None:
    for search in world.run(budget=Budget(simulations=30), rule=rule, backup=backup, lanes=4).values():
        assert search.answer().finished
        assert left_over(search) == NOTHING


def test_gumbel_without_a_number_of_simulations_is_refused(world) -> None:
    with pytest.raises(InputError, match="simulations"):
        world.run(budget=Budget(tokens=100), rule="gumbel")
