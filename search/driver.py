"""Many searches, one policy, one evaluator.

The driver keeps the policy's batch full with the requests of all running searches, values what is new in batches while the
policy works, and tells each search its results in the order in which it asked, so that the same model outputs give the same
tree whatever order they come back in. A search that fails ends with its reason; the others go on. It knows no method and no
task.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from treewise.search.types import (
    Evaluation,
    EvaluationAsk,
    Evaluator,
    InputError,
    Policy,
    PolicyError,
    Proposal,
    Search,
    SearchEnd,
    TreewiseError,
)
from treewise.search.valuing import Valuer


@runtime_checkable
class Wakeable(Protocol):
    """A policy that works by itself while nobody waits for it, and whose waiting can be cut short."""

    def wake(self) -> None:
        """Let the `collect` that is waiting, or else the next one that would wait, return at once, perhaps with nothing. May be
        called from any thread."""
        ...


class Progress(NamedTuple):
    """Where a run stands."""

    ended: int
    """Searches that have ended."""
    running: int
    """Searches under way."""
    policy_tokens: int
    """Tokens generated so far by all of them."""
    simulations: int
    """Simulations completed so far by all of them."""


@dataclass(slots=True, eq=False)
class _Running:
    search: Search
    started: float
    seconds: float | None
    queue: deque[int] = field(default_factory=deque)
    """Tickets in the order of asking; evaluations go to the front."""
    results: dict[int, Proposal | Sequence[Evaluation]] = field(default_factory=dict)
    remote: dict[int, int] = field(default_factory=dict)
    """Ticket to the number the policy knows it by, while it is there."""
    told: bool = True
    """Whether it was told anything since it was last asked; else it wants nothing new."""
    valuing: int = 0
    """Evaluations asked for and not told yet."""
    late: bool = False
    """Its seconds are over and values are still on their way: it ends with them and sends nothing more."""


class Driver:
    """Carries requests between searches and models."""

    def __init__(
        self, policy: Policy, evaluator: Evaluator, *, overlap: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """With `overlap` a slow evaluator works in a thread of its own, while the policy's results are handled; the results of
        the searches are the same. A policy that is not `Wakeable` is then not waited for while the evaluator works."""
        self._policy = policy
        self._wakeable = policy if isinstance(policy, Wakeable) else None
        finished = self._wakeable.wake if self._wakeable is not None else _nothing
        self._valuer: Valuer[_Running] = Valuer(evaluator, overlap=overlap, finished=finished)
        self._woken = 0
        """Times in a row that the policy returned nothing."""
        self._clock = clock
        self._sent = 0
        self._owners: dict[int, tuple[_Running, int]] = {}
        """Policy's number to the search and its ticket."""
        self._running: list[_Running] = []
        self._ended: deque[Search] = deque()
        self._totals = [0, 0, 0]
        """Searches, policy tokens and simulations of what has ended."""

    def run(
        self, searches: Iterable[Search], *, concurrency: int = 64, on_progress: Callable[[Progress], None] | None = None
    ) -> Iterator[Search]:
        """Yield each search as it ends. New ones are taken from `searches` only when there is room for them.

        When the caller stops iterating, what is under way is cancelled and its requests are withdrawn; a batch that the
        evaluator works on is waited for.
        """
        if concurrency < 1:
            raise InputError(f"concurrency is {concurrency}", "give at least 1")
        waiting = iter(searches)
        more = True
        try:
            while True:
                while more and len(self._running) < concurrency:
                    search = next(waiting, None)
                    if search is None:
                        more = False
                        break
                    self._start(search)
                self._value()
                if on_progress is not None:
                    on_progress(self.progress())
                yield from self._take_ended()
                if not self._running:
                    if more:
                        continue
                    return
                self._collect()
                yield from self._take_ended()
                self._value()
                self._stop_late()
                yield from self._take_ended()
        finally:
            for running in list(self._running):
                running.search.stop(SearchEnd.CANCELLED)
                self._retire(running)
            self._ended.clear()
            self._valuer.close()

    def progress(self) -> Progress:
        """Return where the run stands."""
        bills = [r.search.bill for r in self._running]
        ended, tokens, simulations = self._totals
        return Progress(
            ended,
            len(self._running),
            tokens + sum(b.policy_tokens for b in bills),
            simulations + sum(b.simulations for b in bills),
        )

    def _take_ended(self) -> Iterator[Search]:
        """Hand out what has ended before anything slow is done: an interruption then finds it written."""
        while self._ended:
            yield self._ended.popleft()

    def _start(self, search: Search) -> None:
        running = _Running(search, self._clock(), search.seconds)
        self._running.append(running)
        if running.seconds is not None and running.seconds <= 0:
            search.stop(SearchEnd.BUDGET)
        self._pump(running)

    def _pump(self, running: _Running) -> None:
        """Tell what can be told, send what is asked for, until the search waits or is done."""
        while True:
            try:
                if self._advance(running):
                    continue
            except TreewiseError as error:
                running.search.fail(error)
            except Exception as error:  # noqa: BLE001 - one search ends here with its reason, the others go on
                fault = TreewiseError(f"{type(error).__name__} in task or method: {error}", "this is a fault of the program")
                fault.__cause__ = error
                running.search.fail(fault)
            if running.late and not running.valuing:
                running.search.stop(SearchEnd.BUDGET)
            if running.search.done:
                self._retire(running)
            return

    def _advance(self, running: _Running) -> bool:
        """Send what is asked for and tell one result; False when the search waits or is done."""
        if running.told and not running.search.done and not running.late:
            running.told = False
            self._send(running)
        if running.search.done or (running.late and not running.valuing):
            return False
        if not running.queue:
            raise TreewiseError("a search asked for nothing and is not done", "this is a fault of the method")
        if running.queue[0] not in running.results:
            return False
        ticket = running.queue.popleft()
        result = running.results.pop(ticket)
        running.valuing -= not isinstance(result, Proposal)
        running.told = True
        running.search.tell(ticket, result)
        return True

    def _send(self, running: _Running) -> None:
        front: list[int] = []
        for ask in running.search.ask():
            if isinstance(ask, EvaluationAsk):
                front.append(ask.ticket)
                running.valuing += 1
                self._valuer.add(running, ask)
                continue
            running.queue.append(ask.ticket)
            number = self._sent
            self._sent += 1
            try:
                self._policy.propose(number, ask.request)
            except TreewiseError as error:
                running.results[ask.ticket] = Proposal(ask.ticket, error=error)
                continue
            running.remote[ask.ticket] = number
            self._owners[number] = (running, ask.ticket)
        running.queue.extendleft(reversed(front))

    def _collect(self) -> None:
        """Wait for the policy or the evaluator and hand out what the policy brought."""
        try:
            proposals = self._wait()
        except TreewiseError as error:
            for running in list(self._running):
                running.search.fail(error)
                self._retire(running)
            return
        touched: dict[int, _Running] = {}
        for proposal in proposals:
            owner = self._owners.pop(proposal.ticket, None)
            if owner is None:
                continue
            running, ticket = owner
            running.remote.pop(ticket, None)
            running.results[ticket] = proposal
            touched[id(running)] = running
        for running in touched.values():
            self._pump(running)

    def _wait(self) -> list[Proposal]:
        """Return what the policy has; nothing when the evaluator was done first. Raises PolicyError for lost requests."""
        valuer, policy = self._valuer, self._policy
        if valuer.busy and (self._wakeable is None or not self._owners):
            proposals = policy.collect(wait=False)
            if not proposals:
                valuer.wait()
            return proposals
        proposals = policy.collect(wait=True)
        self._woken = 0 if proposals or valuer.ready else self._woken + 1
        if self._woken > (self._wakeable is not None):  # the wake of a batch taken before may come late, but only once
            raise PolicyError(f"the policy lost {len(self._owners)} requests under way", "report it as a fault of the policy")
        return proposals

    def _value(self) -> None:
        """Hand out the values that are there and begin the next batch, until the evaluator is busy or nothing waits for it."""
        while True:
            self._valuer.begin(lambda running: not running.search.done)
            valued = self._valuer.take()
            if not valued:
                return
            self._woken = 0
            touched: dict[int, _Running] = {}
            for running, ask, values in valued:
                if running.search.done:
                    continue
                if isinstance(values, TreewiseError):
                    running.search.fail(values)
                    self._retire(running)
                    continue
                running.results[ask.ticket] = values
                touched[id(running)] = running
            for running in touched.values():
                if not running.search.done:
                    self._pump(running)

    def _stop_late(self) -> None:
        """End the searches whose seconds are over; what came back before is valued first and can be the answer."""
        now = self._clock()
        for running in [r for r in self._running if r.seconds is not None and now - r.started >= r.seconds]:
            running.late = True
            self._pump(running)

    def _retire(self, running: _Running) -> None:
        """Take a search out; withdraw what it still has under way."""
        if running not in self._running:
            return
        self._running.remove(running)
        for number in running.remote.values():
            self._owners.pop(number, None)
            self._policy.cancel(number)
        bill = running.search.bill
        bill.seconds = self._clock() - running.started
        self._totals[0] += 1
        self._totals[1] += bill.policy_tokens
        self._totals[2] += bill.simulations
        self._ended.append(running.search)


def _nothing() -> None:
    """What is done for a policy that nobody needs to wake."""
