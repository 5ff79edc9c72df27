"""A policy whose backend may die once: it is made anew and its requests are sent again under the same tickets.

Only `EngineDied` counts as death; a request that fails by itself is handed on. A second death is an error that says so. This
file knows no backend: it is given a function that makes one.
"""

from __future__ import annotations

from collections.abc import Callable

from treewise.search.driver import Wakeable
from treewise.search.types import Ids, Policy, PolicyError, Prompt, Proposal, StepRequest


class EngineDied(PolicyError):
    """The process behind a policy has ended: everything under way there is lost, and nothing more can be sent."""


class RevivedPolicy:
    """Hands everything to the policy that `make` returns, and to a new one when that one died."""

    def __init__(
        self, make: Callable[[], Policy], *, revivals: int = 1, on_revival: Callable[[EngineDied], None] | None = None
    ) -> None:
        """Make the first policy. `revivals` is how many times a dead one is replaced; `on_revival` is told before each."""
        self._make = make
        self._left = self._revivals = revivals
        self._on_revival = on_revival
        self._policy = make()
        self._under_way: dict[int, StepRequest] = {}

    @property
    def fingerprint(self) -> str:
        """Of the policy behind."""
        return self._policy.fingerprint

    @property
    def context_length(self) -> int:
        """Of the policy behind."""
        return self._policy.context_length

    @property
    def batch_size(self) -> int | None:
        """Of the policy behind; None where it does not say."""
        size: int | None = getattr(self._policy, "batch_size", None)
        return size

    def encode(self, prompt: Prompt) -> Ids:
        """Return the prompt's token ids. Raises InputError when it is empty."""
        return self._policy.encode(prompt)

    def decode(self, ids: Ids) -> str:
        """Return the text of ids without special tokens."""
        return self._policy.decode(ids)

    def propose(self, ticket: int, request: StepRequest) -> None:
        """Start one request. Raises what the policy behind raises; EngineDied once it may not be made anew."""
        try:
            self._policy.propose(ticket, request)
        except EngineDied as death:
            self._revive(death, then=(ticket, request))
        self._under_way[ticket] = request

    def collect(self, *, wait: bool) -> list[Proposal]:
        """Return finished proposals; those that died with the backend come later, from its successor, or fail when there is
        none."""
        while True:
            found = [proposal for proposal in self._policy.collect(wait=wait) if proposal.ticket in self._under_way]
            deaths = [proposal.error for proposal in found if isinstance(proposal.error, EngineDied)]
            kept = [proposal for proposal in found if not isinstance(proposal.error, EngineDied)]
            for proposal in kept:
                del self._under_way[proposal.ticket]
            if not deaths:
                return kept
            try:
                self._revive(deaths[0])
            except PolicyError as error:
                kept += [Proposal(ticket, error=error) for ticket in self._under_way]
                self._under_way.clear()
            if kept or not wait or not self._under_way:
                return kept

    def cancel(self, ticket: int) -> None:
        """Forget a request; it is not returned later. Unknown tickets are ignored."""
        self._under_way.pop(ticket, None)
        self._policy.cancel(ticket)

    def wake(self) -> None:
        """Wake the policy behind, if it can be woken. May be called from any thread."""
        policy = self._policy
        if isinstance(policy, Wakeable):
            policy.wake()

    def close(self) -> None:
        """Free the model."""
        self._under_way.clear()
        self._policy.close()

    def _revive(self, death: EngineDied, *, then: tuple[int, StepRequest] | None = None) -> None:
        """Make a new policy and send it what was under way, then one more. Raises EngineDied when it may not or dies again,
        and what `make` raises."""
        while True:
            if not self._left:
                times = "once" if self._revivals == 1 else f"{self._revivals} times"
                message = f"{death.message}, and this after it was started anew {times}" if self._revivals else death.message
                raise EngineDied(message, death.remedy) from death
            self._left -= 1
            if self._on_revival is not None:
                self._on_revival(death)
            self._policy.close()
            self._policy = self._make()
            try:
                for ticket, request in self._under_way.items():
                    self._policy.propose(ticket, request)
                if then is not None:
                    self._policy.propose(*then)
                return
            except EngineDied as again:
                death = again
