"""One sample under way: takes tokens with their log-probabilities as a backend makes them and keeps them as steps.

It knows neither the backend nor the search; every policy that samples from a model uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from treewise.policy.steps import StepRules, StepSplitter
from treewise.policy.vocabulary import Vocabulary
from treewise.search.types import Finish, Step, StepRequest


class Sample:
    """The steps of one sample so far."""

    def __init__(self, vocabulary: Vocabulary, rules: StepRules, request: StepRequest) -> None:
        self._vocabulary = vocabulary
        self._limit = request.max_tokens
        self._wanted = request.steps
        self._stream = vocabulary.stream(request.ids)
        tail = request.ids[max(request.prompt_length, len(request.ids) - rules.stop_memory) :] if rules.stop_memory else ()
        self._splitter = StepSplitter(rules, before=vocabulary.decode(tail) if tail else "")
        self._ids: list[int] = []
        self._logprobs: list[float] = []
        self._start = 0
        self._steps: list[Step] = []
        self.done = False
        """Whether the sample takes no more tokens."""

    @property
    def ids(self) -> list[int]:
        """All tokens taken, in order."""
        return self._ids

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps that are complete."""
        return tuple(self._steps)

    def add(self, token: int, logprob: float) -> bool:
        """Take one token; return whether the sample is now done."""
        self._ids.append(token)
        self._logprobs.append(logprob)
        self._ended(self._splitter.push(token, self._stream.push(token)))
        return self.done

    def add_chunk(self, ids: Sequence[int], logprobs: Sequence[float], *, only_last: bool) -> None:
        """Take tokens until the sample is done.

        `only_last`: the backend has stopped at the first token that may end a step, so that the others need no look each. It
        must not be said where the grammar has stop texts.
        """
        peeked = self._stream.peek(ids) if only_last and len(ids) > 1 else None
        if peeked is None or not self._splitter.pass_over(peeked[0]):
            for token, logprob in zip(ids, logprobs, strict=True):
                if self.add(token, logprob):
                    return
            return
        self._ids += ids
        self._logprobs += logprobs
        self._ended(self._splitter.push(ids[-1], peeked[1]))
        if not self.done:
            self._stream.skip(ids)

    def end(self, finish: Finish) -> None:
        """Take no more: the backend stopped by itself. What is open becomes a last step with that finish."""
        if self.done:
            return
        self.done = True
        if self._start < len(self._ids):
            self._close(finish)
        elif finish is Finish.ERROR:
            self._steps.append(Step((), (), "", finish))
        elif finish is Finish.END and self._steps:
            self._steps[-1] = replace(self._steps[-1], finish=finish)

    def _ended(self, finish: Finish | None) -> None:
        """Go on after the last token taken, which has ended a step or has not."""
        if finish is not None:
            self._close(finish)
            self.done = finish is Finish.END or len(self._steps) == self._wanted
        if not self.done and len(self._ids) >= self._limit:
            self.end(Finish.LENGTH)

    def _close(self, finish: Finish) -> None:
        ids = tuple(self._ids[self._start :])
        self._steps.append(Step(ids, tuple(self._logprobs[self._start :]), self._vocabulary.decode(ids), finish))
        self._start = len(self._ids)
