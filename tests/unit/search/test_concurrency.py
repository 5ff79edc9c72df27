"""How many problems side by side: closed forms, and what real searches have under way."""

from __future__ import annotations

import pytest

from treewise.policy.scripted import Latency, ScriptedPolicy
from treewise.search.budget import Budget
from treewise.search.concurrency import Batching, lanes_for, problems_at_once, samples_at_once
from treewise.search.settings import SearchSettings
from treewise.search.types import Ids, Proposal, StepRequest


class Sized(ScriptedPolicy):
    """Says its batch size, and counts the most samples that any problem had under way."""

    batch_size: int | None = 256

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)  # type: ignore[arg-type]
        self.sizes: dict[int, tuple[Ids, int]] = {}
        self.most = 0

    def propose(self, ticket: int, request: StepRequest) -> None:
        super().propose(ticket, request)
        self.sizes[ticket] = request.ids[: request.prompt_length], len(request.seeds)
        loads: dict[Ids, int] = {}
        for prompt, samples in self.sizes.values():
            loads[prompt] = loads.get(prompt, 0) + samples
        self.most = max(self.most, *loads.values())

    def collect(self, *, wait: bool) -> list[Proposal]:
        found = super().collect(wait=wait)
        for proposal in found:
            self.sizes.pop(proposal.ticket, None)
        return found

    def cancel(self, ticket: int) -> None:
        super().cancel(ticket)
        self.sizes.pop(ticket, None)


@pytest.mark.parametrize(
    ("settings", "budget", "problems"),
    [
        ({}, Budget(), 96),  # 1.5 * 256 samples, 4 lanes
        ({"lanes": 1}, Budget(), 384),
        ({"lanes": 8, "width": 4}, Budget(), 12),
        ({"method": "greedy"}, Budget(), 384),
        ({"method": "best-of-n"}, Budget(), 24),
        ({"method": "best-of-n"}, Budget(simulations=4), 96),
        ({"method": "majority", "samples": 4096}, Budget(), 2),
        ({"method": "beam", "beams": 8, "width": 2}, Budget(), 24),
        ({"step_tokens": 32}, Budget(tokens=64), 192),
        ({}, Budget(tokens=4), 384),  # the digit task's steps have at most 4 tokens
        ({}, Budget(simulations=0), 384),
    ],
)
def test_problems_that_fill_the_batch(world, settings: dict[str, object], budget: Budget, problems: int) -> None:
    policy = Sized(world.random_digits)
    assert isinstance(policy, Batching)
    options = SearchSettings(**settings)  # type: ignore[arg-type]
    assert problems_at_once(policy, settings=options, budget=budget, task=world.Task()) == problems


def test_large_batches_are_capped_and_unknown_ones_get_a_fixed_number(world) -> None:
    policy, arguments = Sized(world.random_digits), {"settings": SearchSettings(), "budget": Budget(), "task": world.Task()}
    policy.batch_size = 1 << 20
    assert problems_at_once(policy, **arguments) == 1024  # type: ignore[arg-type]
    policy.batch_size = None
    assert problems_at_once(policy, **arguments) == 64  # type: ignore[arg-type]
    assert problems_at_once(ScriptedPolicy(world.random_digits), **arguments) == 64  # type: ignore[arg-type]


@pytest.mark.parametrize(("simulations", "lanes"), [(None, 4), (1, 4), (128, 4), (320, 10), (10_000, 32)])
def test_lanes_grow_with_the_budget(simulations: int | None, lanes: int) -> None:
    assert lanes_for(SearchSettings(), Budget(simulations=simulations)) == lanes
    assert lanes_for(SearchSettings(lanes=3), Budget(simulations=simulations)) == 3
    assert lanes_for(SearchSettings(method="best-of-n"), Budget(simulations=simulations)) == 1


@pytest.mark.parametrize(
    ("settings", "budget"),
    [
        ({}, Budget(simulations=40)),
        ({"lanes": 7}, Budget(simulations=60)),
        ({"method": "beam", "beams": 3, "width": 2}, Budget(simulations=60)),
        ({"method": "best-of-n", "samples": 10}, Budget()),
        ({"method": "best-of-n", "samples": 10}, Budget(simulations=6)),
        ({"method": "majority", "samples": 9, "prune": False}, Budget()),
        ({"method": "greedy"}, Budget()),
    ],
)
def test_what_a_search_has_under_way_is_what_is_counted_on(world, settings: dict[str, object], budget: Budget) -> None:
    policy = Sized(world.random_digits, latency=Latency(base=1.0, jitter=0.5))
    world.run(budget=budget, policy=policy, problems=4, **settings)
    counted = samples_at_once(SearchSettings(**settings), budget=budget, step_tokens=world.Task.step_tokens)  # type: ignore[arg-type]
    assert policy.most <= counted <= 2 * policy.most
