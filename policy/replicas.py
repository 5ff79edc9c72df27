"""Data parallel: several policies of one model as one. Each problem stays with the replica that has its prefix in the cache.

A problem is known by its prompt. A new one goes to the replica with the fewest samples under way; the last `PINS` are
remembered. A replica that has died for good is left out, and its requests go to the others. It knows no backend.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from treewise.policy.revived import EngineDied
from treewise.search.driver import Wakeable
from treewise.search.types import Ids, InputError, Policy, Prompt, Proposal, StepRequest, TreewiseError

PINS = 1 << 16
"""Problems whose replica is remembered; one that was forgotten costs its prefix once more."""
_POLL = 0.001
"""Seconds between two looks at replicas that work by themselves."""


class ReplicatedPolicy:
    """Spreads problems over replicas. Those that are not `Wakeable` work only while they are waited for, one after the other."""

    def __init__(self, replicas: Sequence[Policy]) -> None:
        """Take over started policies. Raises InputError when there is none, or they differ in model or settings."""
        names = sorted({replica.fingerprint for replica in replicas})
        if len(names) != 1:
            raise InputError(f"replicas are {names}", "Give at least one, all of the same model and settings")
        self._replicas = list(replicas)
        self._living = list(range(len(replicas)))
        self._samples = [0] * len(replicas)
        """Samples under way a replica."""
        self._requests: dict[int, tuple[int, StepRequest]] = {}
        """Ticket to replica and request."""
        self._finished: list[Proposal] = []
        self._pins: OrderedDict[int, int] = OrderedDict()
        """Hash of a prompt to its replica, the least recently used first."""
        self._turn = 0
        self._woken = threading.Event()

    @property
    def fingerprint(self) -> str:
        """Of every replica: how many there are changes nothing."""
        return self._replicas[0].fingerprint

    @property
    def context_length(self) -> int:
        """Most tokens of prompt, path and new tokens together."""
        return min(replica.context_length for replica in self._replicas)

    @property
    def batch_size(self) -> int | None:
        """Of all replicas together; None where one does not say."""
        sizes = [getattr(replica, "batch_size", None) for replica in self._replicas]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def encode(self, prompt: Prompt) -> Ids:
        """Return the prompt's token ids. Raises InputError when it is empty."""
        return self._replicas[0].encode(prompt)

    def decode(self, ids: Ids) -> str:
        """Return the text of ids without special tokens."""
        return self._replicas[0].decode(ids)

    def propose(self, ticket: int, request: StepRequest) -> None:
        """Start one request on its problem's replica. Raises what that raises; EngineDied when no replica lives."""
        if ticket in self._requests:
            raise InputError(f"Ticket {ticket} is already under way", "Use each ticket once")
        while True:
            index = self._replica_of(request)
            try:
                self._replicas[index].propose(ticket, request)
            except EngineDied as death:
                self._lose(index, death)
                if not self._living:
                    raise
                continue
            self._requests[ticket] = index, request
            self._samples[index] += len(request.seeds)
            return

    def collect(self, *, wait: bool) -> list[Proposal]:
        """Return finished proposals; with `wait`, at least one if any request is under way and nobody calls `wake`."""
        found = self._take()
        while wait and not found and self._requests:
            busy = [index for index in self._living if self._samples[index]]
            asleep = [index for index in busy if not isinstance(self._replicas[index], Wakeable)]
            if asleep:
                self._turn += 1
                index = asleep[self._turn % len(asleep)]
                self._settle(index, self._replicas[index].collect(wait=True))
            elif self._woken.wait(_POLL):
                self._woken.clear()
                return self._take()
            found = self._take()
        return found

    def cancel(self, ticket: int) -> None:
        """Forget a request; it is not returned later. Unknown tickets are ignored."""
        self._finished = [proposal for proposal in self._finished if proposal.ticket != ticket]
        if ticket in self._requests:
            index, request = self._requests.pop(ticket)
            self._samples[index] -= len(request.seeds)
            self._replicas[index].cancel(ticket)

    def wake(self) -> None:
        """Let the collect that waits, or the next one that would, return at once. May be called from any thread."""
        self._woken.set()

    def close(self) -> None:
        """Free every model."""
        self._requests.clear()
        self._finished.clear()
        for replica in self._replicas:
            replica.close()

    def replica_of(self, prompt: Ids) -> int | None:
        """The replica that a prompt's problem is with; None for one that was not seen, or is forgotten."""
        return self._pins.get(hash(prompt))

    def _replica_of(self, request: StepRequest) -> int:
        key = hash(request.ids[: request.prompt_length])
        index = self._pins.get(key)
        if index is None or (index not in self._living and self._living):
            index = min(self._living or (0,), key=lambda i: (self._samples[i], i))
        self._pins[key] = index
        self._pins.move_to_end(key)
        if len(self._pins) > PINS:
            self._pins.popitem(last=False)
        return index

    def _take(self) -> list[Proposal]:
        """What is finished anywhere."""
        for index in list(self._living):
            if self._samples[index]:
                self._settle(index, self._replicas[index].collect(wait=False))
        found, self._finished = self._finished, []
        return found

    def _settle(self, index: int, proposals: list[Proposal]) -> None:
        """Keep what a replica returned; when it died, send what it had under way to another."""
        for proposal in proposals:
            if not isinstance(proposal.error, EngineDied):
                _, request = self._requests.pop(proposal.ticket)
                self._samples[index] -= len(request.seeds)
                self._finished.append(proposal)
        death = next((p.error for p in proposals if isinstance(p.error, EngineDied)), None)
        if death is not None:
            self._lose(index, death)

    def _lose(self, index: int, death: EngineDied) -> None:
        """Leave a dead replica out; its requests go to the others, or fail when there are none."""
        if index in self._living:
            self._living.remove(index)
        stranded = [(ticket, request) for ticket, (owner, request) in self._requests.items() if owner == index]
        self._samples[index] = 0
        for ticket, _ in stranded:
            del self._requests[ticket]
            self._replicas[index].cancel(ticket)
        for ticket, request in stranded:
            try:
                if not self._living:
                    raise death
                self.propose(ticket, request)
            except TreewiseError as error:
                self._finished.append(Proposal(ticket, error=error))
