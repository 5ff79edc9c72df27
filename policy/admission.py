"""Which requests an engine gets next, so that its cache of keys and values holds what they share.

Problems are served in the order in which they first asked, each as far as it goes before a later one gets its memory: depth
first over problems. What is at the engine is held to half of the cache; the other half keeps the paths of searches that are
between two steps. Where memory is plenty every request goes at once. It knows no engine, only block and cache size.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from typing import NamedTuple

from treewise.search.types import StepRequest

SHARE = 0.5
"""Of the cache, what requests at the engine may fill."""
MARGIN = 2.0
"""A sample is expected to need so many times the mean of those before."""
FIRST = 0.25
"""Of their limit, what the first samples are expected to need."""
REMEMBERED = 1 << 16
"""Problems whose turn is remembered."""


class _Waiting(NamedTuple):
    turn: int
    number: int
    """Of all requests, so that no two are equal."""
    ticket: int
    request: StepRequest


class Admission:
    """Requests that wait, and the memory of those that do not."""

    def __init__(self, *, blocks: int, block_size: int) -> None:
        """`blocks` of `block_size` tokens are in the cache."""
        self._limit = int(SHARE * blocks)
        self._block_size = block_size
        self._waiting: list[_Waiting] = []
        """A heap."""
        self._numbers: dict[int, int] = {}
        """Ticket to number of what waits; what is no longer here was dropped."""
        self._next_number = 0
        self._held: dict[int, int] = {}
        """Blocks of each request at the engine."""
        self._total = 0
        self._turns: OrderedDict[int, int] = OrderedDict()
        self._next_turn = 0
        self._tokens = self._samples = 0

    def add(self, ticket: int, request: StepRequest) -> None:
        """Let a request wait for its turn."""
        self._numbers[ticket] = self._next_number
        heapq.heappush(self._waiting, _Waiting(self._turn(request), self._next_number, ticket, request))
        self._next_number += 1

    def next(self) -> int | None:
        """Return the ticket of the next request that may go, or None; one may always go when none is at the engine."""
        while self._waiting and self._numbers.get(self._waiting[0].ticket) != self._waiting[0].number:
            heapq.heappop(self._waiting)
        if not self._waiting:
            return None
        blocks = self._blocks(self._waiting[0].request)
        if self._held and self._total + blocks > self._limit:
            return None
        ticket = heapq.heappop(self._waiting).ticket
        del self._numbers[ticket]
        self._held[ticket] = blocks
        self._total += blocks
        return ticket

    def done(self, ticket: int, *, samples: int, tokens: int) -> None:
        """A request is back with so many samples, of so many tokens together."""
        self._total -= self._held.pop(ticket)
        self._samples += samples
        self._tokens += tokens

    def drop(self, ticket: int) -> None:
        """A request under way will not come back."""
        if ticket in self._held:
            self._total -= self._held.pop(ticket)
        else:
            self._numbers.pop(ticket, None)

    def clear(self) -> None:
        """Forget all requests."""
        self._waiting.clear()
        self._numbers.clear()
        self._held.clear()
        self._total = 0

    def _turn(self, request: StepRequest) -> int:
        key = hash(request.ids[: request.prompt_length])
        turn = self._turns.pop(key, None)
        if turn is None:
            turn = self._next_turn
            self._next_turn += 1
        self._turns[key] = turn
        if len(self._turns) > REMEMBERED:
            self._turns.popitem(last=False)
        return turn

    def _blocks(self, request: StepRequest) -> int:
        """Blocks that a request is expected to fill: its path once, and what each sample adds."""
        expected = MARGIN * self._tokens / self._samples if self._samples else FIRST * request.max_tokens
        new = min(request.max_tokens, int(expected) + 1)
        return len(request.ids) // self._block_size + len(request.seeds) * (new // self._block_size + 1)
