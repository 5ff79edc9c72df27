"""The vocabulary of Treewise: problems, steps, requests, results, and the protocols between the parts.

Everything here is plain data or a protocol. This file knows no model, no task and no search method. The invariant that
the rest relies on: a path is a sequence of token ids, `prompt ids + step ids + step ids ...`, and text is only a view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias, runtime_checkable

Ids: TypeAlias = tuple[int, ...]
"""Token ids."""

Scalar: TypeAlias = str | int | float | bool | None
"""A value that JSON and Parquet keep as it is."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem as a search may see it: never with its reference answer."""

    id: str
    """Unique within a run, not empty."""
    text: str
    """The problem for a reader and for prompts."""
    numbers: tuple[int, ...] = ()
    """Countdown only: the given numbers."""
    target: int | None = None
    """Countdown only: the number to reach."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat prompt."""

    role: str
    """`system`, `user` or `assistant`."""
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a task wants a policy to be asked; the policy renders it as chat or raw text and encodes it once."""

    messages: tuple[Message, ...]
    """Turns for an instruct model, with a chat template."""
    raw: str
    """The same for a base model: text that the solution continues directly."""
    prefill: str = ""
    """Start of the assistant's turn, already written; the solution goes on from here."""


@dataclass(frozen=True, slots=True)
class StepGrammar:
    """Where a step ends. Splitting is done on token boundaries: the token that completes a separator stays whole."""

    separators: tuple[str, ...] = ("\n",)
    """Any of these ends a step, once the step has a character that is not white space."""
    minimum_lines: int = 1
    """A step has at least so many non-empty lines before a separator counts (multi-line steps)."""
    guard_fences: bool = True
    """No step ends inside a ``` code fence or an open `\\boxed{`."""
    stop_texts: tuple[str, ...] = ()
    """Texts that end the whole solution, such as `"\\nQuestion:"`; the token that completes one is the last."""


class Finish(StrEnum):
    """Why the generation of a step ended."""

    SEPARATOR = "separator"
    """The step is complete, the path goes on."""
    END = "end"
    """End of sequence or a stop text: the path is finished."""
    LENGTH = "length"
    """Cut by the token limit: incomplete."""
    ERROR = "error"
    """The backend gave up on this sample."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step as it was generated."""

    ids: Ids
    """Token ids added by the step, separator or end-of-sequence token included; never empty unless `finish` is ERROR."""
    logprobs: tuple[float, ...]
    """Behaviour log-probability of each id, in nats, under the distribution it was sampled from; same length as `ids`."""
    text: str
    """The decoded ids without special tokens: a view, never re-tokenised."""
    finish: Finish


@dataclass(frozen=True, slots=True)
class StepRequest:
    """Ask a policy for `len(seeds)` continuations of one path."""

    ids: Ids
    """All the model sees: prompt and path."""
    prompt_length: int
    """How many of `ids` are the prompt; the rest is the partial solution."""
    seeds: tuple[int, ...]
    """One sampling seed a sample, in [0, 2**63)."""
    max_tokens: int
    """Most new tokens a sample, over all its steps; at least 1."""
    steps: int | None = 1
    """Steps a sample; None runs on until the solution ends or `max_tokens` is reached."""
    greedy: bool = False
    """Take the most likely token each time, whatever the policy's temperature; seeds are then without effect."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What came back for one request."""

    ticket: int
    """The number under which it was asked."""
    samples: tuple[tuple[Step, ...], ...] = ()
    """One chain of steps a seed, in the order of the seeds; empty when `error` is set."""
    prompt_tokens: int = 0
    """Tokens of the prompt and path that the backend was given, once per sample."""
    cached_tokens: int = 0
    """Of those, tokens served by a prefix cache."""
    error: TreewiseError | None = None
    """Set when the request failed after the policy's own retries."""


@runtime_checkable
class Policy(Protocol):
    """Proposes next steps. `propose` starts work, `collect` returns what is finished, in any order."""

    @property
    def fingerprint(self) -> str:
        """Names model, weights, tokenizer and sampling settings; goes into every trace."""
        ...

    @property
    def context_length(self) -> int:
        """Most tokens of prompt, path and new tokens together."""
        ...

    def encode(self, prompt: Prompt) -> Ids:
        """Return the prompt's token ids, generation prompt and prefill included. Raises InputError when it is empty."""
        ...

    def decode(self, ids: Ids) -> str:
        """Return the text of ids without special tokens."""
        ...

    def propose(self, ticket: int, request: StepRequest) -> None:
        """Start one request. Raises ContextOverflow when ids and `max_tokens` do not fit the context."""
        ...

    def collect(self, *, wait: bool) -> list[Proposal]:
        """Return finished proposals; with `wait`, at least one if any request is under way."""
        ...

    def cancel(self, ticket: int) -> None:
        """Forget a request; it is not returned later. Unknown tickets are ignored."""
        ...

    def close(self) -> None:
        """Free the model. Called once."""
        ...


@dataclass(frozen=True, slots=True)
class Path:
    """A partial or whole solution, as evaluators and tasks see it."""

    problem: Problem
    ids: Ids
    """Prompt and steps."""
    ends: tuple[int, ...]
    """For each step, the index in `ids` one past its last token; ascending; `ends[-1] == len(ids)` if there is a step."""
    prompt_length: int
    texts: tuple[str, ...]
    """The text of each step."""
    finish: Finish
    """Of the last step."""

    @property
    def text(self) -> str:
        """The solution so far as one text."""
        return "".join(self.texts)


class Standing(StrEnum):
    """What a task says of a path."""

    OPEN = "open"
    """More steps are wanted."""
    FINISHED = "finished"
    """It ends in an answer that can be given."""
    DEAD = "dead"
    """It ended without an answer or broke a rule that the task can see: no further steps, no answer."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A task's reading of a path, without any reference."""

    standing: Standing
    answer: str | None = None
    """The final answer, when FINISHED."""
    reason: str = ""
    """Why it is DEAD, for the trace."""
    proven: bool = False
    """FINISHED and shown right by the task itself (only self-verifying tasks)."""


class VerdictKind(StrEnum):
    """Outcome of checking an answer."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcome of checking an answer, with its reason."""

    kind: VerdictKind
    reason: str = ""


@runtime_checkable
class Task(Protocol):
    """A kind of problem: how rows are read, asked, judged and verified."""

    @property
    def name(self) -> str:
        """The word on the command line."""
        ...

    @property
    def self_verifying(self) -> bool:
        """Whether `judge` can prove an answer right without a reference."""
        ...

    @property
    def grammar(self) -> StepGrammar:
        """Where a step ends."""
        ...

    @property
    def step_tokens(self) -> int:
        """Default limit of tokens a step."""
        ...

    @property
    def max_steps(self) -> int:
        """Default limit of steps a path."""
        ...

    def read(self, row: Mapping[str, object]) -> tuple[Problem, str | None]:
        """Return problem and reference answer (None if there is none). Raises InputError naming the field."""
        ...

    def prompt(self, problem: Problem) -> Prompt:
        """Return what a policy is asked."""
        ...

    def judge(self, path: Path) -> Judgement:
        """Read a path, without a reference."""
        ...

    def verify(self, problem: Problem, answer: str, reference: str | None) -> Verdict:
        """Check an answer after a search. Never called by a search method."""
        ...


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An evaluator's word on one path."""

    value: float
    """Probability in [0, 1] that the path ends well."""
    outputs: tuple[float, ...] = ()
    """The evaluator's raw numbers behind it, for instance one score a step or one a head."""
    tokens: int = 0
    """Tokens that the evaluator read for it."""
    readings: tuple[float, ...] = ()
    """In [0, 1], one a step of the path, when the evaluator reads every step anew in the light of the later ones; the last
    belongs to the newest step. Empty when it has a word on the newest step only, which is then `value`."""


@runtime_checkable
class Evaluator(Protocol):
    """Values paths. Raises EvaluatorError in place of ever giving a default number."""

    @property
    def fingerprint(self) -> str:
        """Names model, weights and settings; goes into every trace."""
        ...

    def evaluate(self, paths: Sequence[Path]) -> list[Evaluation]:
        """Return one evaluation a path, in order."""
        ...


@dataclass(frozen=True, slots=True)
class ProposalAsk:
    """A search wants steps."""

    ticket: int
    """Rises by one with every ask of one search."""
    request: StepRequest


@dataclass(frozen=True, slots=True)
class EvaluationAsk:
    """A search wants values."""

    ticket: int
    paths: tuple[Path, ...]


Ask: TypeAlias = ProposalAsk | EvaluationAsk


class SearchEnd(StrEnum):
    """Why a search ended."""

    BUDGET = "budget"
    PROVEN = "proven"
    """The task itself showed a finished answer to be right."""
    EXHAUSTED = "exhausted"
    """Every path is finished or dead."""
    SETTLED = "settled"
    """The rest of the budget could not change the answer."""
    CONFIDENT = "confident"
    """The answer's posterior is high enough (belief search)."""
    COMPLETE = "complete"
    """The method did all that it does (for instance n samples)."""
    CANCELLED = "cancelled"
    FAILED = "failed"
    """Policy, evaluator or an internal check failed; `Answer.error` says how."""


@dataclass(slots=True)
class Bill:
    """What a search used."""

    policy_tokens: int = 0
    """Tokens generated."""
    evaluator_tokens: int = 0
    """Tokens that the evaluator read."""
    prompt_tokens: int = 0
    """Tokens of prompts and paths given to the policy, once a sample."""
    cached_tokens: int = 0
    """Of those, tokens served by the prefix cache."""
    rounds: int = 0
    """Proposals waited for one after another: the length of the longest chain of requests."""
    seconds: float = 0.0
    """Wall-clock seconds from the first ask to the end."""
    simulations: int = 0
    """Simulations completed."""
    duplicates: int = 0
    """Generated steps merged into an identical sibling."""
    unfinished: int = 0
    """Paths cut by a length limit or a budget before they finished."""
    dropped: int = 0
    """Samples that held no token and were not kept."""
    cancelled_tokens: int = 0
    """Most tokens that requests under way at the end may have generated, withdrawn or failed: their limits, an upper bound.
    `policy_tokens` has none of them."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a search, whenever it is stopped."""

    problem_id: str
    text: str | None
    """The best finished answer, or None when nothing finished."""
    node: int | None
    """The node in which it ends."""
    value: float | None
    """Value in [0, 1] by which it was chosen."""
    end: SearchEnd
    reason: str
    """One sentence for the user."""
    bill: Bill
    error: TreewiseError | None = None

    @property
    def finished(self) -> bool:
        """Whether there is an answer."""
        return self.text is not None


@runtime_checkable
class Search(Protocol):
    """A search over one problem as a state machine. It never calls a model and holds no clock."""

    @property
    def seconds(self) -> float | None:
        """Wall-clock seconds that the driver may give it; None is no limit."""
        ...

    def ask(self) -> list[Ask]:
        """Return the requests wanted now; empty while it waits or when it is done."""
        ...

    def tell(self, ticket: int, result: Proposal | Sequence[Evaluation]) -> None:
        """Apply one result. The driver calls this in the order in which tickets were asked, except that an evaluation
        follows at once on the result that it was asked for."""
        ...

    def fail(self, error: TreewiseError) -> None:
        """End with an error; what is finished is kept. Nothing is left in flight."""
        ...

    def stop(self, end: SearchEnd) -> None:
        """End now; what is finished is kept. Nothing is left in flight."""
        ...

    @property
    def done(self) -> bool:
        """Whether the search has ended."""
        ...

    @property
    def bill(self) -> Bill:
        """What it has used so far."""
        ...

    def answer(self) -> Answer:
        """The best answer so far."""
        ...


@dataclass(eq=False)
class TreewiseError(Exception):
    """Root of all errors of this package."""

    message: str
    """What is wrong, with the offending value."""
    remedy: str = ""
    """What to do about it."""
    retryable: bool = field(default=False, kw_only=True)
    """Whether the same call may succeed later."""

    def __str__(self) -> str:
        return f"{self.message}. {self.remedy}" if self.remedy else self.message


class InputError(TreewiseError):
    """A problem, an option or a file that the user gave is unusable."""


class ContextOverflow(InputError):
    """A prompt or path does not fit the model's context."""


class PolicyError(TreewiseError):
    """The policy's backend failed."""


class EvaluatorError(TreewiseError):
    """The evaluator failed, or returned a number that is none, or the wrong count."""


class TraceError(TreewiseError):
    """A trace cannot be read or is inconsistent."""


class ModelNotFound(InputError):
    """A model is neither a local folder nor cached, or its folder lacks a part."""
