"""A policy that plays a script: deterministic, without a model, on a simulated clock. For tests, demonstrations and stubs.

The script says how a path goes on; this file adds what real backends add: limits, results in another order than they were
asked for, latency, requests that fail, and a backend that dies.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from treewise.policy.requests import check_request
from treewise.search.types import Finish, Ids, InputError, PolicyError, Prompt, Proposal, Step, StepRequest, TreewiseError

END_ID = 256
"""End of sequence in the byte codec: ids 0 to 255 are the bytes of UTF-8 text."""

Script: TypeAlias = Callable[[Ids, int], tuple[Step, ...]]
"""From the ids of prompt and path, and a seed, to the steps that follow; only those asked for are used. The seed of a greedy
request is 0."""

Fault: TypeAlias = Callable[[int, StepRequest], TreewiseError | None]
"""From ticket and request to the error with which it fails, or None."""


def encode_bytes(text: str) -> Ids:
    """Return the UTF-8 bytes of a text as ids.

    >>> encode_bytes("a\\n")
    (97, 10)
    """
    return tuple(text.encode())


def decode_bytes(ids: Ids) -> str:
    """Return the text of byte ids; ids from 256 on are special and left out.

    >>> decode_bytes((97, 10, END_ID))
    'a\\n'
    """
    return bytes(i for i in ids if i < END_ID).decode(errors="replace")


def text_step(text: str, *, end: bool = False, logprob: float = -1.0) -> Step:
    """Return a step of the byte codec that holds a text; with `end` an end-of-sequence token closes it.

    `logprob` is given to every token, in nats.

    >>> text_step("a\\n").finish, text_step("b", end=True).ids
    (<Finish.SEPARATOR: 'separator'>, (98, 256))
    """
    ids = encode_bytes(text) + ((END_ID,) if end else ())
    return Step(ids, (logprob,) * len(ids), text, Finish.END if end else Finish.SEPARATOR)


@dataclass(frozen=True, slots=True)
class Latency:
    """Simulated time a request takes: `base + per_token * tokens of its longest sample`, in seconds."""

    base: float = 0.0
    per_token: float = 0.0
    jitter: float = 0.0
    """Up to so many seconds more, drawn with the policy's seed."""


class ScriptedPolicy:
    """Plays a script. With `shuffle` results come back in a random order and in random portions, else by their latency."""

    def __init__(
        self,
        script: Script,
        *,
        encode: Callable[[str], Ids] = encode_bytes,
        decode: Callable[[Ids], str] = decode_bytes,
        vocabulary_size: int = END_ID + 1,
        context_length: int = 1 << 20,
        latency: Latency = Latency(),
        shuffle: bool = False,
        seed: int = 0,
        fault: Fault | None = None,
        fail_after: int | None = None,
        record: bool = True,
    ) -> None:
        """`encode` and `decode` are the codec of the script's ids; `seed` decides order and jitter, never a sample; `record`
        keeps every request in `requests`.

        `fault` chooses requests that fail; after `fail_after` requests the backend is dead: what is under way fails, and
        `propose` raises.
        """
        self._script = script
        self._encode = encode
        self._decode = decode
        self._vocabulary_size = vocabulary_size
        self._context = context_length
        self._latency = latency
        self._shuffle = shuffle
        self._random = random.Random(seed)
        self._fault = fault
        self._fail_after = fail_after
        self._under_way: dict[int, tuple[float, Proposal]] = {}
        self._closed = False
        self.now = 0.0
        """The simulated clock, in seconds; a waiting `collect` moves it on."""
        self.requests: list[tuple[int, StepRequest]] = []
        """Every request accepted so far, with its ticket, if they are recorded."""
        self._record = record
        self._accepted = 0

    @property
    def fingerprint(self) -> str:
        """Names the script."""
        return f"scripted:{getattr(self._script, '__qualname__', type(self._script).__qualname__)}"

    @property
    def context_length(self) -> int:
        """Most tokens of prompt, path and new tokens together."""
        return self._context

    def encode(self, prompt: Prompt) -> Ids:
        """Return the ids of the raw prompt and its prefill. Raises InputError when it is empty."""
        if not prompt.raw.strip():
            raise InputError("The prompt is empty", "Give the problem a text")
        return self._encode(prompt.raw + prompt.prefill)

    def decode(self, ids: Ids) -> str:
        """Return the text of ids without special tokens."""
        return self._decode(ids)

    def propose(self, ticket: int, request: StepRequest) -> None:
        """Start one request. Raises ContextOverflow, InputError for fields out of range, PolicyError when dead or closed."""
        if self._closed:
            raise PolicyError("The policy is closed", "Make a new one")
        if self._dead:
            raise self._death()
        if ticket in self._under_way:
            raise InputError(f"Ticket {ticket} is already under way", "Use each ticket once")
        check_request(request, context_length=self._context, vocabulary_size=self._vocabulary_size)
        self._accepted += 1
        if self._record:
            self.requests.append((ticket, request))
        proposal = self._play(ticket, request)
        longest = max((sum(len(step.ids) for step in chain) for chain in proposal.samples), default=0)
        seconds = self._latency.base + self._latency.per_token * longest + self._latency.jitter * self._random.random()
        self._under_way[ticket] = (self.now + seconds, proposal)
        if self._dead:
            for other, (due, _) in self._under_way.items():
                self._under_way[other] = (due, Proposal(other, error=self._death()))

    def collect(self, *, wait: bool) -> list[Proposal]:
        """Return finished proposals; with `wait` the clock moves on to the next one that finishes."""
        if not self._under_way:
            return []
        if self._shuffle:
            least = 1 if wait else 0
            chosen = self._random.sample(list(self._under_way), self._random.randint(least, len(self._under_way)))
        else:
            if wait:
                self.now = max(self.now, min(due for due, _ in self._under_way.values()))
            ready = [(due, ticket) for ticket, (due, _) in self._under_way.items() if due <= self.now]
            chosen = [ticket for _, ticket in sorted(ready)]
        return [self._under_way.pop(ticket)[1] for ticket in chosen]

    def cancel(self, ticket: int) -> None:
        """Forget a request; it is not returned later. Unknown tickets are ignored."""
        self._under_way.pop(ticket, None)

    def close(self) -> None:
        """Take no more requests."""
        self._closed = True
        self._under_way.clear()

    @property
    def _dead(self) -> bool:
        return self._fail_after is not None and self._accepted > self._fail_after

    def _death(self) -> PolicyError:
        return PolicyError(f"The scripted backend died after {self._fail_after} requests", "Start anew", retryable=True)

    def _play(self, ticket: int, request: StepRequest) -> Proposal:
        error = self._fault(ticket, request) if self._fault is not None else None
        if error is not None:
            return Proposal(ticket, error=error)
        seeds = [0] * len(request.seeds) if request.greedy else request.seeds
        samples = tuple(self._limited(self._script(request.ids, seed), request) for seed in seeds)
        return Proposal(ticket, samples, prompt_tokens=len(request.ids) * len(samples))

    def _limited(self, chain: tuple[Step, ...], request: StepRequest) -> tuple[Step, ...]:
        """Cut a chain to the steps and tokens asked for, and at the first step that ends the solution."""
        kept: list[Step] = []
        left = request.max_tokens
        for step in chain[: request.steps]:
            if len(step.ids) > left:
                if left:
                    ids = step.ids[:left]
                    kept.append(Step(ids, step.logprobs[:left], self._decode(ids), Finish.LENGTH))
                break
            left -= len(step.ids)
            kept.append(step)
            if step.finish is not Finish.SEPARATOR:
                break
        return tuple(kept)
