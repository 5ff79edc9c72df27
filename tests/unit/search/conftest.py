"""A small world of digit steps for tests of searches: what a path is worth is known from its text alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

import pytest

from treewise.policy.scripted import ScriptedPolicy, text_step
from treewise.search.budget import Budget
from treewise.search.driver import Driver
from treewise.search.methods import start_search
from treewise.search.settings import SearchSettings
from treewise.search.tree_search import TreeSearch
from treewise.search.types import (
    Evaluation,
    Finish,
    Ids,
    Judgement,
    Path,
    Problem,
    Prompt,
    Standing,
    Step,
    StepGrammar,
    Verdict,
    VerdictKind,
)

DEPTH = 5
STEP_TOKENS = 2
"""A digit and a newline."""


class DigitTask:
    """A solution is `depth` digits; a step `9` is against the rules; `proof`, if given, is an answer that proves itself."""

    name = "digits"
    grammar = StepGrammar()
    step_tokens = 4
    max_steps = 8

    def __init__(self, *, depth: int = DEPTH, proof: str | None = None) -> None:
        self.depth, self.proof = depth, proof
        self.self_verifying = proof is not None

    def read(self, row: Mapping[str, object]) -> tuple[Problem, str | None]:
        return Problem(str(row["id"]), str(row["text"])), None

    def prompt(self, problem: Problem) -> Prompt:
        return Prompt((), problem.text)

    def judge(self, path: Path) -> Judgement:
        if "9" in path.texts[-1]:
            return Judgement(Standing.DEAD, reason="nine")
        if path.finish is Finish.LENGTH:
            return Judgement(Standing.DEAD, reason="cut")
        answer = path.text.replace("\n", "")
        if len(path.ends) >= self.depth:
            return Judgement(Standing.FINISHED, answer=answer, proven=answer == self.proof)
        return Judgement(Standing.OPEN)

    def verify(self, problem: Problem, answer: str, reference: str | None) -> Verdict:
        return Verdict(VerdictKind.CORRECT if answer == reference else VerdictKind.INCORRECT)


class MeanDigit:
    """The value of a path is its mean digit over 8, in [0, 1]; three tokens are read a path."""

    fingerprint = "mean digit"

    def evaluate(self, paths: Sequence[Path]) -> list[Evaluation]:
        return [Evaluation(value_of(path.text), (float(len(path.ends)),), 3) for path in paths]


def value_of(text: str) -> float:
    digits = [int(d) for d in text if d.isdigit()]
    return sum(min(d, 8) for d in digits) / (8 * len(digits))


def random_digits(ids: Ids, seed: int) -> tuple[Step, ...]:
    """Ten digits drawn by seed and path."""
    random = Random(f"{seed} {ids}")
    return tuple(text_step(f"{random.randrange(10)}\n") for _ in range(10))


def digits(script: Callable[[Ids, int], str]) -> Callable[[Ids, int], tuple[Step, ...]]:
    """A script of one step whose digit is given by a function of ids and seed."""
    return lambda ids, seed: (text_step(script(ids, seed) + "\n"),)


def run(
    *,
    budget: Budget,
    problems: int = 6,
    seed: int = 0,
    concurrency: int = 3,
    policy: ScriptedPolicy | None = None,
    evaluator: object | None = None,
    task: DigitTask | None = None,
    context: int = 4096,
    **settings: object,
) -> dict[str, TreeSearch]:
    """Run searches to their end; by problem id."""
    task = task or DigitTask()
    policy = policy or ScriptedPolicy(random_digits)
    options = SearchSettings(**settings)  # type: ignore[arg-type]
    searches = (
        start_search(
            p, policy.encode(task.prompt(p)), task=task, settings=options, budget=budget, seed=seed, context_length=context
        )
        for p in (Problem(f"p{i}", f"problem {i}\n") for i in range(problems))
    )
    driver = Driver(policy, evaluator or MeanDigit())  # type: ignore[arg-type]
    return {search.problem.id: search for search in driver.run(searches, concurrency=concurrency)}  # type: ignore[attr-defined,misc]


class DigitWorld:
    """All of it, as one fixture."""

    Task = DigitTask
    MeanDigit = MeanDigit
    run = staticmethod(run)
    value_of = staticmethod(value_of)
    random_digits = staticmethod(random_digits)
    script = staticmethod(digits)


@pytest.fixture(scope="session")
def world() -> type[DigitWorld]:
    """The digit world."""
    return DigitWorld
