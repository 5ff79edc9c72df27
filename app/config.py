"""The options of `treewise solve`: frozen records whose docstrings are the command line's help, checked in one place.

This file knows which options exist, what is legal and what decides a result (the hash). It reads no file, starts no model
and knows no search method; the search's own options are `SearchSettings` and `Budget`, as they are.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from typing import Annotated, Literal, TypeAlias

import tyro

from treewise.search.auto import EvaluatorKind, choose_method
from treewise.search.budget import Budget
from treewise.search.settings import ENDS_ITSELF, SearchSettings
from treewise.search.types import InputError, Scalar
from treewise.value.countdown import FEWEST, MOST, Split

TaskName: TypeAlias = Literal["countdown", "math"]
PolicyName: TypeAlias = Literal["auto", "vllm", "transformers", "scripted"]
EvaluatorName: TypeAlias = Literal["task"]

EVALUATOR_KINDS: dict[EvaluatorName, EvaluatorKind] = {"task": "judgement"}
"""What each evaluator is, before it is loaded."""

DEFAULT_SIMULATIONS = 32
"""Simulations a problem when no limit at all is given and the method neither ends by itself nor is told its samples."""


@dataclass(frozen=True)
class SourceOptions:
    """Where the problems come from: exactly one of text, problems and generate."""

    text: tyro.conf.Positional[str | None] = None
    """One problem as text, for instance "numbers 3 8 5 target 29"."""
    problems: str | None = None
    """A file of problems, .jsonl or .parquet; "-" reads JSON lines from standard input."""
    generate: int | None = None
    """countdown: make so many problems."""
    numbers: int = 4
    """countdown, with generate: numbers a problem, 2 to 10; the embedded model knows 3 to 6."""
    split: Split = "test"
    """countdown, with generate: the split that the problems belong to."""
    strict: bool = False
    """Run nothing when any row is unusable; else such rows are reported and the others run."""

    def __post_init__(self) -> None:
        if self.generate is not None:
            _at_least("generate", self.generate, 1)
        if not FEWEST <= self.numbers <= MOST:
            raise InputError(f"numbers is {self.numbers}", f"give {FEWEST} to {MOST} numbers a problem")

    def given(self) -> list[str]:
        """Names of the sources that are set."""
        return [name for name in ("text", "problems", "generate") if getattr(self, name) is not None]


@dataclass(frozen=True)
class ModelOptions:
    """What proposes steps and what values them."""

    task: TaskName = "countdown"
    """Kind of problem."""
    policy: PolicyName = "auto"
    """What runs the model: auto takes vllm where it is installed, else transformers; scripted plays random legal Countdown
    steps without a model."""
    model: str | None = None
    """Folder or cached name of a Hugging Face causal LM; countdown has an embedded one."""
    evaluator: EvaluatorName = "task"
    """What values a path: the task's own reading of it."""
    temperature: float = 1.0
    """Sampling temperature; at least 0, where 0 is greedy."""
    top_p: float = 1.0
    """Probability mass kept when sampling, in (0, 1]."""
    context: int | None = None
    """Most tokens of prompt and solution together; by default all that the model can take."""
    replicas: int = 1
    """vllm: engines side by side, one a GPU; each problem stays with one of them."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise InputError(f"temperature is {self.temperature}", "give a number of at least 0")
        if not 0 < self.top_p <= 1:
            raise InputError(f"top_p is {self.top_p}", "give a number in (0, 1]")
        if self.context is not None:
            _at_least("context", self.context, 2)
        _at_least("replicas", self.replicas, 1)


@dataclass(frozen=True)
class RunOptions:
    """How it runs and what it leaves."""

    seed: int = 0
    """Everything random follows from it."""
    concurrency: int | None = None
    """Problems under way at once; by default as many as keep the policy's batch full."""
    json: bool = False
    """One JSON line a problem, also on a terminal; elsewhere this is so anyway."""
    output: str | None = None
    """Folder for results.jsonl, the traces and the resolved config."""
    overwrite: bool = False
    """Replace the results that the output folder already holds."""
    config: str | None = None
    """TOML file with any of these options; what the command line says goes before it."""

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**63:
            raise InputError(f"seed is {self.seed}", "give a whole number in [0, 2**63)")
        if self.concurrency is not None:
            _at_least("concurrency", self.concurrency, 1)


@dataclass(frozen=True)
class SolveOptions:
    """Solve problems by a search over reasoning steps.

    Without any limit of the budget: 32 simulations a problem (best-of-n, majority: one a sample; greedy: 1; beam, dvts, rebase,
    particles, breadth-first, entropy-forks: none, since they end by themselves; with a limit they start anew until it is met).
    Exit status: 0 fine, 1 a problem failed for reasons of infrastructure, 2 unusable input or options (also when only some
    rows were unusable), 130 interrupted.
    """

    source: SourceOptions = field(default_factory=SourceOptions)
    models: ModelOptions = field(default_factory=ModelOptions)
    search: SearchSettings = field(default_factory=SearchSettings)
    budget: Budget = field(default_factory=Budget)
    run: RunOptions = field(default_factory=RunOptions)

    def resolved(self) -> SolveOptions:
        """Return the options with the default budget filled in and a method in place of auto.

        Raises InputError when there is not exactly one source, or an option would have no effect.
        """
        self._check_source()
        self._check_models()
        if self.search.method == "auto":
            return self._with_method().resolved()
        if not self.budget.unlimited:
            self._check_budget()
            return self
        if self.search.method in ENDS_ITSELF:
            return self
        own = {"greedy": 1, "best-of-n": self.search.samples, "majority": self.search.samples}
        simulations = own.get(self.search.method, DEFAULT_SIMULATIONS)
        return replace(self, budget=Budget(simulations=simulations))

    def _with_method(self) -> SolveOptions:
        from treewise.value.tasks import task_named

        budget = Budget(simulations=DEFAULT_SIMULATIONS) if self.budget.unlimited else self.budget
        task, kind = task_named(self.models.task), EVALUATOR_KINDS[self.models.evaluator]
        return replace(self, budget=budget, search=choose_method(self.search, budget=budget, evaluator=kind, task=task))

    def _check_source(self) -> None:
        given = self.source.given()
        if not given:
            raise InputError(
                "there is no problem to solve", 'give --problems FILE, --generate N, or a text such as "numbers 3 8 5 target 29"'
            )
        if len(given) > 1:
            raise InputError(f"problems come from {' and '.join(given)} at once", "give only one of them")
        if self.source.generate is None:
            changed = [name for name in ("numbers", "split") if getattr(self.source, name) != getattr(SourceOptions, name)]
            if changed:
                raise InputError(f"{' and '.join(changed)} has no effect without generate", "leave it out, or add --generate N")
        elif self.models.task != "countdown":
            raise InputError(f"task {self.models.task!r} has no generator", "give --problems FILE")

    def _check_models(self) -> None:
        if self.models.replicas > 1 and self.models.policy in ("scripted", "transformers"):
            raise InputError(
                f"replicas is {self.models.replicas}, which has no effect on policy {self.models.policy!r}",
                "leave it out, or use --policy vllm",
            )
        if self.models.policy == "scripted":
            if self.models.task != "countdown":
                raise InputError(
                    f"policy 'scripted' cannot do task {self.models.task!r}", "use --policy transformers or vllm with --model"
                )
            if self.models.model is not None:
                raise InputError(f"model {self.models.model!r} has no effect on policy 'scripted'", "leave one of them out")
        elif self.models.task == "math" and self.models.model is None:
            raise InputError(
                "task 'math' has no embedded model", "give --model with the folder or name of a Hugging Face causal LM"
            )

    def _check_budget(self) -> None:
        budget = self.budget
        if self.search.rule == "gumbel" and budget.simulations is None:
            raise InputError("rule 'gumbel' plans its root visits and has no number of simulations", "add --simulations N")
        if (
            self.models.evaluator == "task"
            and budget.evaluator_tokens
            and budget == Budget(evaluator_tokens=budget.evaluator_tokens)
        ):
            raise InputError(
                f"evaluator_tokens is {budget.evaluator_tokens}, but evaluator 'task' reads none: nothing would end a search",
                "add --simulations, --tokens or --seconds",
            )

    def flat(self) -> dict[str, Scalar]:
        """Every option by its name on the command line (with underscores)."""
        return {f.name: getattr(group, f.name) for group in self._groups() for f in fields(group)}

    def deciding(self) -> dict[str, Scalar]:
        """The options that decide what a search of one given problem does; paths and displays are left out."""
        return {name: value for name, value in self.flat().items() if name not in NOT_DECIDING}

    def canonical(self) -> str:
        """`deciding` as JSON with sorted keys: what traces store and what the hash is taken of."""
        return json.dumps(self.deciding(), sort_keys=True, ensure_ascii=True)

    def hash(self) -> str:
        """SHA-256 of `canonical`, 64 hexadecimal digits."""
        return sha256(self.canonical().encode("ascii")).hexdigest()

    def _groups(self) -> tuple[SourceOptions | ModelOptions | SearchSettings | Budget | RunOptions, ...]:
        return self.source, self.models, self.search, self.budget, self.run


NOT_DECIDING = frozenset(
    {
        "text",
        "problems",
        "generate",
        "numbers",
        "split",
        "strict",
        "concurrency",
        "replicas",
        "json",
        "output",
        "overwrite",
        "config",
    }
)
"""Options outside the hash: which problems, how many at once, where the results go."""

FlatSolveOptions = Annotated[SolveOptions, tyro.conf.OmitArgPrefixes, tyro.conf.DisallowNone]
"""As the command line shows it: one flat list of options."""


def _at_least(name: str, value: int, low: int) -> None:
    if value < low:
        raise InputError(f"{name} is {value}", f"give a whole number of at least {low}")
