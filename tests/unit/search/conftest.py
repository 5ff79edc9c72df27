"""Small worlds of digit steps for tests of searches: what a path is worth is known from its text alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from itertools import product
from random import Random

import pytest

from treewise.policy.scripted import ScriptedPolicy, encode_bytes, text_step
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


# For methods that grow a tree level by level: few steps below every path, and a value of every path that no other has.

PROMPT = len(encode_bytes("problem 0\n"))


def unique(text: str) -> float:
    """A number in (0, 1) drawn by a text: no two texts of a test have the same."""
    return (int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "little") + 0.5) / 2**32


def solution(ids: Ids) -> str:
    """The text behind the prompt of one of the first ten problems."""
    return bytes(ids[PROMPT:]).decode()


class Valued:
    """An evaluator that gives a path what a function of its text says, and keeps no state."""

    fingerprint = "valued"

    def __init__(self, value: Callable[[str], float] = unique) -> None:
        self._value = value

    def evaluate(self, paths: Sequence[Path]) -> list[Evaluation]:
        return [Evaluation(self._value(path.text)) for path in paths]


MANY = tuple("".join(digits) for digits in product("12345678", repeat=3))
"""So many steps that two samples hardly ever are the same."""


def few(choices: Sequence[str]) -> Callable[[Ids, int], tuple[Step, ...]]:
    """A script of single steps: below every path the same few, each as likely."""
    return lambda ids, seed: (text_step(f"{choices[seed % len(choices)]}\n"),)


def chains(choices: Sequence[str], *, depth: int) -> Callable[[Ids, int], tuple[Step, ...]]:
    """A script of whole solutions of steps that are each as likely, drawn anew from wherever one begins."""

    def script(ids: Ids, seed: int) -> tuple[Step, ...]:
        done = solution(ids).count("\n")
        return tuple(text_step(f"{choices[(seed >> 7 * i) % 8191 % len(choices)]}\n") for i in range(depth - done))

    return script


class BestBelow:
    """An evaluator that knows the best leaf below every path of a tree that can be written down."""

    fingerprint = "best below"

    def __init__(self, choices: str, *, depth: int) -> None:
        leaves = ["".join(f"{digit}\n" for digit in digits) for digits in product(choices, repeat=depth)]
        self.worth = {leaf: unique(leaf) for leaf in leaves}
        self.best = max(self.worth, key=lambda leaf: self.worth[leaf])
        self._below: dict[str, float] = {}
        for leaf, worth in self.worth.items():
            for end in range(2, len(leaf) + 1, 2):
                self._below[leaf[:end]] = max(worth, self._below.get(leaf[:end], 0.0))

    def evaluate(self, paths: Sequence[Path]) -> list[Evaluation]:
        return [Evaluation(self._below[path.text]) for path in paths]


def expanded(policy: ScriptedPolicy) -> list[tuple[str, int]]:
    """What was asked for: solution so far and number of samples, in the order of asking."""
    return [(solution(request.ids), len(request.seeds)) for _, request in policy.requests]


def texts(search: TreeSearch, nodes: Sequence[int]) -> list[str]:
    """The solutions that end in these nodes."""
    return [search.solutions.path(node).text for node in nodes]


class LevelWorld:
    """All of it, as one fixture."""

    Valued = Valued
    BestBelow = BestBelow
    MANY = MANY
    unique = staticmethod(unique)
    solution = staticmethod(solution)
    few = staticmethod(few)
    chains = staticmethod(chains)
    expanded = staticmethod(expanded)
    texts = staticmethod(texts)


@pytest.fixture(scope="session")
def levels() -> type[LevelWorld]:
    """The worlds for level methods."""
    return LevelWorld
