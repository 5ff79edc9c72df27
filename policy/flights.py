"""Requests on their way through vLLM: a ticket with its samples, and the engine requests that these are made of.

It reads vLLM's objects without importing it: `EngineCoreOutput`, one a step, and `RequestOutput`, at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from treewise.policy.samples import Sample
from treewise.search.types import PolicyError, StepRequest


@dataclass(slots=True)
class Flight:
    """One ticket under way."""

    ticket: int
    request: StepRequest
    samples: list[Sample]
    lanes: dict[str, Lane] = field(default_factory=dict)
    """Engine requests under way, by name."""
    cached_tokens: int = 0
    error: PolicyError | None = None


@dataclass(slots=True)
class Lane:
    """One engine request: a sample, or the continuation of one."""

    flight: Flight
    index: int
    """Of the sample."""
    by_text: bool
    """vLLM's output processor looks for stop texts in it."""
    ids: list[int] = field(default_factory=list)
    """Tokens drawn so far."""
    logprobs: list[float] = field(default_factory=list)
    cached_tokens: int = 0
    """Tokens of the prompt that came from the prefix cache."""
    sound: bool = True
    """Whether every log-probability was that of the token drawn."""

    def read(self, output: Any) -> None:
        """Take what the engine sent after one step."""
        if output.prefill_stats is not None:
            self.cached_tokens = output.prefill_stats.num_cached_tokens
        ids, found = output.new_token_ids, output.new_logprobs
        if not ids:
            return
        if found is None or found.logprob_token_ids[:, 0].tolist() != ids:  # the token that was drawn comes first
            self.sound = False
            return
        self.ids += ids
        self.logprobs += found.logprobs[:, 0].tolist()

    def read_whole(self, output: Any, completion: Any) -> None:
        """Take all at once what vLLM's output processor made of it."""
        self.cached_tokens = output.num_cached_tokens or 0
        self.ids = list(completion.token_ids)
        self.sound = completion.logprobs is not None and completion.logprobs.token_ids == self.ids
        if self.sound:
            self.logprobs = list(completion.logprobs.logprobs)
