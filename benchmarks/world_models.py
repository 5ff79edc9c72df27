"""Treewise's view of the scripted worlds: a task, a policy and an evaluator over many open worlds, on a simulated clock.

A step is one token id, its tag, so that a budget of 512 tokens is one of 512 policy steps. The prompt of a world is one id too.
What is right stays in the scorer's process (`worlds.py`); here are texts, tags and readings.

The policy's backend works in passes, as an engine with continuous batching does: a pass takes every sample under way one step
on and lasts 20 ms + 0.2 ms a sample; what is asked for meanwhile joins the next pass. The evaluator reads all paths of one
call in 20 ms + 0.2 ms a path, while the policy goes on (`simulated_driver`). Only these latencies move the clock.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from benchmarks.worlds import TAGS, WORLDS, Tags, WorldError, WorldHandle, WorldServer, WorldSpec, WorldStep
from treewise.policy.requests import check_request
from treewise.search.driver import Driver
from treewise.search.types import (
    Evaluation,
    EvaluationAsk,
    Evaluator,
    EvaluatorError,
    Finish,
    Ids,
    InputError,
    Judgement,
    Message,
    Path,
    PolicyError,
    Problem,
    Prompt,
    Proposal,
    Standing,
    Step,
    StepGrammar,
    StepRequest,
    Verdict,
    VerdictKind,
)
from treewise.search.valuing import Valuer, Values

CONTEXT = 4096
"""Tokens of prompt and steps together: no world comes near it."""

LOGPROB = -1.0
"""Of every step, in nats: the worlds' steps are equally likely."""

_PROMPT = re.compile(r"world (\S+) seed (\d+)")
_ANSWER = re.compile(r" answer (\S+)\n")


class WorldTask:
    """Problems are worlds; a path is judged by its last text alone. Knows nothing that is right, nor how long chains are."""

    name = "worlds"
    self_verifying = False
    grammar = StepGrammar()
    step_tokens = 1
    max_steps = 16
    """More than any world needs."""

    def read(self, row: Mapping[str, object]) -> tuple[Problem, str | None]:
        """Return the problem of a row with `world` and `seed`."""
        text = f"world {row['world']} seed {row['seed']}"
        if not _PROMPT.fullmatch(text):
            raise InputError(f"row has world {row['world']!r} and seed {row['seed']!r}", "give a name and a whole number")
        return Problem(f"{row['world']}/{row['seed']}", text), None

    def prompt(self, problem: Problem) -> Prompt:
        """Return the problem's text."""
        return Prompt((Message("user", problem.text),), problem.text)

    def judge(self, path: Path) -> Judgement:
        """Return FINISHED when the last text gives an answer, DEAD when the chain ended without one."""
        answer = _ANSWER.search(path.texts[-1])
        if answer is not None:
            return Judgement(Standing.FINISHED, answer=answer[1])
        if path.finish is Finish.END:
            return Judgement(Standing.DEAD, reason="the chain ended without an answer")
        return Judgement(Standing.OPEN)

    def verify(self, problem: Problem, answer: str, reference: str | None) -> Verdict:
        """Return undecided without a reference; the harness asks the world's scorer instead."""
        if reference is None:
            return Verdict(VerdictKind.UNDECIDED, "the scorer's process knows")
        return Verdict(VerdictKind.CORRECT if answer == reference else VerdictKind.INCORRECT)


class OpenWorlds:
    """The worlds of one run, opened by their prompt and known by the prompt's one id."""

    def __init__(self, server: WorldServer, specs: Mapping[str, WorldSpec] = WORLDS) -> None:
        self.server = server
        self._specs = specs
        self._ids: dict[str, int] = {}
        self._handles: dict[int, WorldHandle] = {}
        self.answers: dict[WorldHandle, set[str]] = {}
        """Of each world: the answers of the finished chains that were handed out."""

    def open(self, text: str) -> int:
        """Return the id of the world that a prompt names. Raises InputError when there is none of that name."""
        if text not in self._ids:
            named = _PROMPT.fullmatch(text)
            if named is None or named[1] not in self._specs:
                raise InputError(f"the prompt {text[:80]!r} names no world", f"give one of {', '.join(self._specs)}")
            number = TAGS + len(self._ids)
            self._ids[text] = number
            handle = self.server.open(self._specs[named[1]], int(named[2]))
            self._handles[number] = handle
            self.answers[handle] = set()
        return self._ids[text]

    def handle(self, number: int) -> WorldHandle:
        """Return the world of a prompt's id. Raises InputError for an id of no open world."""
        if number not in self._handles:
            raise InputError(f"id {number} is the prompt of no open world", "encode the prompt first")
        return self._handles[number]


@dataclass(slots=True)
class Clock:
    """A simulated clock: `Driver(clock=clock)` reads it, policy and evaluator move it."""

    now: float = 0.0
    """Seconds."""
    alarm: float = math.inf
    """When the evaluator's call ends: a policy that is waited for is waited for no longer."""

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds that a batch takes: `base + each * batch`."""

    base: float = 0.020
    each: float = 0.0002

    def seconds(self, batch: int) -> float:
        """Return the seconds of a batch of so many samples or paths."""
        return self.base + self.each * batch


@dataclass(slots=True, eq=False)
class _Sample:
    """One chain under way."""

    handle: WorldHandle
    path: Tags
    seed: int
    left: int
    """Steps that it may still take."""
    chain: list[Step] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Request:
    ticket: int
    asked: float
    samples: list[_Sample]

    @property
    def going(self) -> list[_Sample]:
        """Samples that take another step."""
        return [sample for sample in self.samples if sample.left]


class WorldPolicy:
    """Proposes steps of open worlds, many requests at once, on the simulated clock."""

    def __init__(self, worlds: OpenWorlds, *, clock: Clock, latency: Latency = Latency()) -> None:
        self._worlds = worlds
        self._clock = clock
        self._latency = latency
        self._texts: dict[int, str] = {}
        self._requests: dict[int, _Request] = {}
        """Under way or waiting, by ticket, in the order of asking."""
        self._batch: tuple[float, list[tuple[_Request, _Sample]]] | None = None
        """End of the pass that runs, and what it takes a step on."""
        self._free = 0.0
        """End of the pass before."""
        self._ready: list[Proposal] = []
        self._closed = False
        self.busy = 0.0
        """Seconds in passes."""
        self.passes = 0
        self.samples = 0
        """Samples in all passes, each counted once a pass."""

    @property
    def fingerprint(self) -> str:
        """Names the worlds."""
        return "scripted worlds"

    @property
    def context_length(self) -> int:
        """Most ids of prompt and steps."""
        return CONTEXT

    def encode(self, prompt: Prompt) -> Ids:
        """Open the world that the prompt names, if it is not open, and return its id."""
        return (self._worlds.open(prompt.raw),)

    def decode(self, ids: Ids) -> str:
        """Return the texts of steps proposed before; a prompt has none."""
        return "".join(self._texts.get(i, "") for i in ids)

    def propose(self, ticket: int, request: StepRequest) -> None:
        """Start one request. Raises ContextOverflow, InputError, PolicyError when closed."""
        if self._closed:
            raise PolicyError("The policy is closed", "Make a new one")
        if ticket in self._requests:
            raise InputError(f"Ticket {ticket} is already under way", "Use each ticket once")
        check_request(request, context_length=CONTEXT, vocabulary_size=2 * TAGS)
        handle, path = self._worlds.handle(request.ids[0]), request.ids[1:]
        steps = request.max_tokens if request.steps is None else min(request.steps, request.max_tokens)
        seeds = [0] * len(request.seeds) if request.greedy else request.seeds
        samples = [_Sample(handle, path, seed, steps) for seed in seeds]
        self._move(self._clock.now)
        self._requests[ticket] = _Request(ticket, self._clock.now, samples)

    def collect(self, *, wait: bool) -> list[Proposal]:
        """Return what is finished; with `wait` the clock moves on to the next request that finishes, or to its alarm."""
        clock = self._clock
        self._move(clock.now)
        while wait and not self._ready and self._requests and clock.now < clock.alarm:
            end, _ = self._batch or self._begin()
            clock.now = max(clock.now, min(end, clock.alarm))
            self._move(clock.now)
        ready, self._ready = self._ready, []
        return ready

    def wake(self) -> None:
        """Do nothing: the clock's alarm ends a waiting `collect`."""

    def cancel(self, ticket: int) -> None:
        """Forget a request; a pass that runs is not shortened."""
        self._requests.pop(ticket, None)
        self._ready = [proposal for proposal in self._ready if proposal.ticket != ticket]

    def close(self) -> None:
        """Take no more requests."""
        self._closed = True
        self._requests.clear()
        self._ready.clear()

    def _move(self, now: float) -> None:
        """End the passes that are over by `now`. One that could start at `now` itself waits: more may be asked for now."""
        while True:
            if self._batch is None:
                if not self._requests or self._start() >= now:
                    return
                self._begin()
            elif self._batch[0] > now:
                return
            else:
                self._end(*self._batch)

    def _start(self) -> float:
        """When the next pass can start."""
        return max(self._free, min(request.asked for request in self._requests.values()))

    def _begin(self) -> tuple[float, list[tuple[_Request, _Sample]]]:
        start = self._start()
        batch = [(r, sample) for r in self._requests.values() for sample in r.going]
        seconds = self._latency.seconds(len(batch))
        self.busy += seconds
        self.passes += 1
        self.samples += len(batch)
        self._batch = (start + seconds, batch)
        return self._batch

    def _end(self, end: float, batch: list[tuple[_Request, _Sample]]) -> None:
        """Take the pass's samples one step on; requests that are through become ready."""
        self._free, self._batch = end, None
        batch = [(request, sample) for request, sample in batch if self._requests.get(request.ticket) is request]
        try:
            found = self._worlds.server.propose_many([(s.handle, s.path, (s.seed,)) for _, s in batch])
        except WorldError as error:
            raise PolicyError(f"a world refused to go on: {error}", "report it as a fault of the search") from error
        for (_, sample), (step,) in zip(batch, found, strict=True):
            self._take(sample, step)
        for request in {id(request): request for request, _ in batch}.values():
            if not request.going:
                del self._requests[request.ticket]
                self._ready.append(_proposal(request))

    def _take(self, sample: _Sample, step: WorldStep) -> None:
        finish = Finish.END if step.ended else Finish.SEPARATOR
        sample.chain.append(Step((step.tag,), (LOGPROB,), step.text, finish))
        sample.path = (*sample.path, step.tag)
        sample.left = 0 if step.ended else sample.left - 1
        self._texts[step.tag] = step.text
        if step.answer is not None:
            self._worlds.answers[sample.handle].add(step.answer)


def _proposal(request: _Request) -> Proposal:
    samples = tuple(tuple(sample.chain) for sample in request.samples)
    given = sum(1 + len(sample.path) - len(sample.chain) for sample in request.samples)
    return Proposal(request.ticket, samples, prompt_tokens=given)


class WorldEvaluator:
    """Reads paths of open worlds: the value is the newest step's reading, the outputs are all readings that came with it.

    Only with rescoring are they `readings` too, one a step.
    """

    def __init__(self, worlds: OpenWorlds, *, clock: Clock, latency: Latency = Latency()) -> None:
        self._worlds = worlds
        self._clock = clock
        self._latency = latency
        self.busy = 0.0
        """Seconds in calls."""
        self.calls = 0
        self.paths = 0
        """Paths in all calls."""

    @property
    def fingerprint(self) -> str:
        """Names the worlds."""
        return "scripted worlds"

    def evaluate(self, paths: Sequence[Path]) -> list[Evaluation]:
        """Return one evaluation a path, in order. Raises EvaluatorError when a world refuses."""
        seconds = self._latency.seconds(len(paths))
        self.busy += seconds
        self.calls += 1
        self.paths += len(paths)
        self._clock.now += seconds
        asks = [(self._worlds.handle(path.ids[0]), path.ids[1:]) for path in paths]
        try:
            found = self._worlds.server.score_many(asks)
        except WorldError as error:
            raise EvaluatorError(f"a world refused to score: {error}", "report it as a fault of the search") from error
        return [_evaluation(tuple(scores), handle.spec) for scores, (handle, _) in zip(found, asks, strict=True)]


def _evaluation(scores: tuple[float, ...], spec: WorldSpec) -> Evaluation:
    return Evaluation(scores[-1], scores, len(scores), readings=scores if spec.rescoring else ())


Owner = TypeVar("Owner")


class SimulatedValuer(Valuer[Owner]):
    """The driver's valuer on the simulated clock: values are there when the clock has come to the end of the evaluator's call."""

    def __init__(self, evaluator: Evaluator, *, clock: Clock) -> None:
        super().__init__(evaluator, overlap=False, finished=lambda: None)
        self._clock = clock

    @property
    def ready(self) -> bool:
        """Whether `take` has something to return."""
        return self.busy and self._clock.now >= self._clock.alarm

    def begin(self, wanted: Callable[[Owner], bool]) -> None:
        """Start on what waits, if the evaluator is idle: value it at once, set the alarm and put the clock back."""
        if not self.busy:
            began = self._clock.now
            super().begin(wanted)
            if self.busy:
                self._clock.alarm = self._clock.now
            self._clock.now = began

    def take(self) -> list[tuple[Owner, EvaluationAsk, Values]]:
        """Return the values of the call that has ended; empty while there is none."""
        if not self.ready:
            return []
        self._clock.alarm = math.inf
        return super().take()

    def wait(self) -> None:
        """Move the clock to the end of the call."""
        if self.busy:
            self._clock.now = max(self._clock.now, self._clock.alarm)


def simulated_driver(policy: WorldPolicy, evaluator: WorldEvaluator, *, clock: Clock) -> Driver:
    """Return a driver whose evaluator works beside the policy on the simulated clock, as in a thread of its own."""
    driver = Driver(policy, evaluator, overlap=False, clock=clock)
    driver._valuer = SimulatedValuer(evaluator, clock=clock)
    return driver
