"""Beam search and breadth first: a perfect evaluator, a plain reference, what becomes of paths that finish or die."""

from __future__ import annotations

import pytest

from treewise.policy.scripted import ScriptedPolicy
from treewise.search.budget import Budget
from treewise.search.seeds import sibling_seed
from treewise.search.types import Judgement, Standing

PERFECT = [
    ("beam", {"beams": 1, "width": 24}),
    ("dvts", {"beams": 1, "width": 24}),
    ("breadth-first", {"beams": 1, "width": 24}),
    ("depth-first", {"width": 24}),
    ("rebase", {"samples": 24, "score_temperature": 0.0}),
    ("particles", {"samples": 24, "score_temperature": 0.0}),
]


@pytest.mark.parametrize(("method", "options"), PERFECT)
def test_with_a_perfect_evaluator_the_best_path_of_the_whole_tree_is_found(world, levels, method: str, options: dict) -> None:
    """81 paths; every step's value is the best that can still be reached. One path's worth of levels is enough."""
    oracle = levels.BestBelow("012", depth=4)
    for seed in range(5):
        task = world.Task(depth=4)
        task.step_tokens, task.max_steps = 2, 4
        options = {**options, "prune": False, "seed": seed, "problems": 1, "task": task}
        policy = ScriptedPolicy(levels.few("012"))
        search = world.run(budget=Budget(tokens=4 * 24 * 2), method=method, policy=policy, evaluator=oracle, **options)["p0"]
        assert search.solutions.path(search.answer().node).text == oracle.best
        assert search.bill.rounds == 4


class Early:
    """The digit task in which a step that ends with 0 ends a path with its answer, however short."""

    def __init__(self, world, **options) -> None:
        class Task(world.Task):
            def judge(self, path):
                if path.texts[-1].endswith("0\n") and "9" not in path.texts[-1] and len(path.ends) < self.depth:
                    return Judgement(Standing.FINISHED, answer=path.text.replace("\n", ""))
                return super().judge(path)

        self.task = Task(**options)


class Reference:
    """Both methods in plain Python: the texts of what is expanded, level by level, without merging and without a budget."""

    def __init__(self, levels, script, *, beams: int, width: int, keep_places: bool) -> None:
        self.levels, self.script, self.beams, self.width, self.keep_places = levels, script, beams, width, keep_places

    def run(self, seed: int = 0) -> list[list[tuple[str, int]]]:
        prompt = tuple(b"problem 0\n")
        first = self.beams * self.width if self.keep_places else self.width
        level, places, found, size = [(0, "", first)], self.beams, [], 1
        while level:
            found.append([(text, count) for _, text, count in level])
            tips = []
            for node, text, count in level:
                for index in range(count):
                    ids = prompt + tuple(text.encode())
                    (step,) = self.script(ids, sibling_seed(seed, "p0", node, index))
                    tips.append((size, text + step.text))
                    size += 1
            tips = [tip for tip in tips if "9" not in tip[1]]
            tips.sort(key=lambda tip: -self.levels.unique(tip[1]))
            if self.keep_places:
                kept = tips[:places]
                going = [tip for tip in kept if not self.ended(tip[1])]
                places -= len(kept) - len(going)
            else:
                going = [tip for tip in tips if not self.ended(tip[1])][: self.beams]
            level = [(node, text, self.width) for node, text in going]
        return found

    def ended(self, text: str) -> bool:
        return text.endswith("0\n") or text.count("\n") == 5


@pytest.mark.parametrize(("beams", "width", "deadly"), [(1, 3, 0), (3, 2, 0), (4, 4, 0), (6, 1, 0), (2, 3, 400)])
@pytest.mark.parametrize("method", ["beam", "breadth-first"])
def test_levels_are_those_of_a_plain_reference(world, levels, method: str, beams: int, width: int, deadly: int) -> None:
    """Paths that finish keep a place in beam search and none breadth first; dead ones (`9`) have none in either."""
    script = levels.few([f"{number:03}" for number in range(1000)] + ["9"] * deadly)
    options = {"beams": beams, "width": width, "merge": "none", "prune": False, "problems": 1, "evaluator": levels.Valued()}
    one_pass = 0
    for seed in range(20):
        policy = ScriptedPolicy(script)
        search = world.run(budget=Budget(), method=method, policy=policy, task=Early(world).task, seed=seed, **options)["p0"]
        reference = Reference(levels, script, beams=beams, width=width, keep_places=method == "beam").run(seed)
        shares = [share for level in reference for share in level]
        assert levels.expanded(policy)[: len(shares)] == shares
        ended = sum(search.solutions.standings[node] is not Standing.OPEN for node in range(search.solutions.tree.size))
        assert search.bill.simulations == ended
        if search.bill.rounds == len(reference):  # else nothing finished in the first pass
            one_pass += 1
            assert levels.expanded(policy) == shares
    assert one_pass >= 3


def test_beam_and_breadth_first_differ_where_paths_finish_early(world, levels) -> None:
    """The reference above tells them apart: else it would test one of them twice."""
    script = levels.few([f"{number:03}" for number in range(1000)])
    runs = [Reference(levels, script, beams=4, width=4, keep_places=keep).run() for keep in (True, False)]
    assert [len(level) for level in runs[0]] != [len(level) for level in runs[1]]


def test_equal_scores_are_not_ranked_by_age(world) -> None:
    """With the same value everywhere the first of four siblings is kept about once in four times."""

    class Same(world.MeanDigit):
        def evaluate(self, paths):
            return [type(v)(0.5) for v in super().evaluate(paths)]

    policy = ScriptedPolicy(lambda ids, seed: world.random_digits(ids, seed)[:1])
    options = {"beams": 1, "width": 4, "merge": "none", "problems": 200, "policy": policy, "evaluator": Same()}
    task = world.Task(depth=2, proof="none")
    first = 0
    for search in world.run(budget=Budget(), method="beam", task=task, **options).values():
        tree = search.solutions.tree
        kept = [n for n in tree.children(0).tolist() if len(tree.children(n))]
        first += kept[:1] == [1]
    assert 30 <= first <= 70


def test_where_the_best_step_leads_to_dead_ones_alone_the_next_best_is_taken_in_the_end(world, levels) -> None:
    """Below `1`, which looks best, everything is dead, so passes end there; what waited is tried before the search gives up."""
    value = lambda text: 0.9 if text == "1\n" else 0.5  # noqa: E731
    dead_below_1 = lambda ids, seed: levels.few("9" if levels.solution(ids).startswith("1") else "12")(ids, seed)  # noqa: E731
    options = {"beams": 1, "width": 2, "problems": 8, "evaluator": levels.Valued(value), "task": world.Task(depth=3)}
    found = world.run(budget=Budget(tokens=400), method="beam", policy=ScriptedPolicy(dead_below_1), **options).values()
    died = [any(standing is Standing.DEAD for standing in search.solutions.standings) for search in found]
    assert any(died)
    assert all(search.answer().finished for search in found)
