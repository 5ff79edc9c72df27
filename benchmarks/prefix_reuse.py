"""Does search read shared prefixes once? Prompt tokens that vLLM computed, by its own counters, over those it had to.

Run: python -m benchmarks.prefix_reuse [--caches 256 12] [--searches 64]
Writes benchmarks/baselines/prefix_reuse.json.

Searches run side by side over `VLLMPolicy` with a roomy and with a tight cache of keys and values (MiB). Counted:

- computed: prompt tokens looked up in the prefix cache less those found there, from the scheduler's own statistics, with the
  tokens of requests that were pushed out of memory and read again.
- needed: what the same requests, one after the other, would compute with a cache without end in blocks of the same size. A block
  is shared when it is full, and at least the last token of a prompt is always computed, so every sample reads the rest of
  its path behind the last full block: with blocks of 32 tokens and steps of 9 that is most of what is computed.
- distinct: tokens of prompts and paths, each common beginning counted once. Computed over distinct is what is left to be won by
  smaller blocks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import tyro

from benchmarks.throughput import Arguments as Load
from benchmarks.throughput import Recorder, run_searches
from treewise.policy.reasoner import embedded_model
from treewise.policy.vllm_policy import EngineOptions, VLLMPolicy
from treewise.search.types import Ids, Proposal
from treewise.value.countdown_problems import generate
from treewise.value.tasks import task_named


@dataclass(frozen=True)
class Arguments:
    """What is measured."""

    model: Path | None = None
    """Model folder; the embedded policy if left out."""
    caches: tuple[int, ...] = (256, 12)
    """Memory for keys and values, in MiB, one engine each."""
    searches: int = 64
    """Searches side by side."""
    problems: int = 64
    """Problems a run."""
    numbers: int = 6
    """Numbers a problem."""
    simulations: int = 8
    """Simulations a problem."""
    lanes: int = 4
    """Requests that one search may have under way."""
    max_num_seqs: int = 64
    """Samples that the engine generates at the same time."""
    block_size: int = 32
    """Tokens a block of the prefix cache."""
    seed: int = 0
    """Seed of problems and samples."""
    output: Path = Path(__file__).parent / "baselines" / "prefix_reuse.json"
    """Where the figures go."""


class Served(NamedTuple):
    """One sample as the engine saw it."""

    prompt: Ids
    """Prompt and path."""
    output: Ids
    """What was generated."""


class Counted(NamedTuple):
    """vLLM's own counters over one run."""

    looked_up: int
    found: int
    looked_up_again: int
    """By requests that had been pushed out of memory."""
    found_again: int

    @property
    def computed(self) -> int:
        """Prompt tokens computed."""
        return self.looked_up - self.found + self.looked_up_again - self.found_again


def needed(samples: Iterable[Served], *, block_size: int) -> int:
    """Return the prompt tokens that a cache without end computes, blocks of `block_size` tokens, samples one after the other.

    >>> shared = tuple(range(8))
    >>> needed([Served(shared, (8, 9)), Served((*shared, 8, 9), (1,)), Served(shared, (7,))], block_size=4)
    14
    """
    known: set[Ids] = set()
    total = 0
    for prompt, output in samples:
        found = 0
        while found + block_size < len(prompt) and prompt[: found + block_size] in known:
            found += block_size
        total += len(prompt) - found
        whole = (*prompt, *output)[:-1]  # the last token was drawn and never read
        known.update(whole[:end] for end in range(block_size, len(whole) + 1, block_size))
    return total


def distinct(prompts: Iterable[Ids]) -> int:
    """Return how many tokens the prompts have, each common beginning counted once.

    >>> distinct([(1, 2, 3), (1, 2, 4), (1, 2)])
    4
    """
    total, before = 0, ()
    for prompt in sorted(set(prompts)):  # neighbours in order share the longest beginnings
        common = next((i for i, (a, b) in enumerate(zip(before, prompt, strict=False)) if a != b), min(len(before), len(prompt)))
        total += len(prompt) - common
        before = prompt
    return total


class SampleRecorder(Recorder):
    """Keeps every sample with the request it answers, in the order in which they came back."""

    def __init__(self, policy: VLLMPolicy) -> None:
        super().__init__(policy)
        self.samples: list[Served] = []
        self._asked: dict[int, Ids] = {}

    def propose(self, ticket: int, request: Any) -> None:
        """Hand on and keep."""
        super().propose(ticket, request)
        self._asked[ticket] = request.ids

    def collect(self, *, wait: bool) -> list[Proposal]:
        """Hand on and keep."""
        finished = super().collect(wait=wait)
        for proposal in finished:
            ids = self._asked.pop(proposal.ticket)
            for chain in proposal.samples:
                self.samples.append(Served(ids, tuple(i for step in chain for i in step.ids)))
        return finished


def counting(policy: VLLMPolicy) -> list[int]:
    """Return a list of four totals that grow with the scheduler's statistics from now on."""
    totals = [0, 0, 0, 0]
    processor = policy.engine.output_processor
    before = processor.update_scheduler_stats

    def update(stats: Any) -> None:
        before(stats)
        if stats is not None:
            cache = stats.prefix_cache_stats
            for i, value in enumerate((cache.queries, cache.hits, cache.preempted_queries, cache.preempted_hits)):
                totals[i] += value

    processor.update_scheduler_stats = update
    return totals


def measure(arguments: Arguments, *, cache: int) -> dict[str, int | float]:
    """Search all problems with one engine and return the row of figures."""
    task = task_named("countdown")
    options = EngineOptions(
        max_num_seqs=arguments.max_num_seqs, block_size=arguments.block_size, kv_cache_bytes=cache << 20, log_stats=True
    )
    policy = VLLMPolicy(arguments.model or embedded_model(), grammar=task.grammar, engine=options)
    totals = counting(policy)
    recorder = SampleRecorder(policy)
    load = Load(searches=arguments.searches, simulations=arguments.simulations, lanes=arguments.lanes)
    problems = generate(arguments.problems, numbers=arguments.numbers, split="test", seed=arguments.seed)
    run_searches(recorder, problems, arguments=load, seed=arguments.seed)
    blocks = int(policy.engine.vllm_config.cache_config.num_gpu_blocks)
    policy.close()
    counted = Counted(*totals)
    must = needed(recorder.samples, block_size=arguments.block_size)
    unique = distinct(sample.prompt for sample in recorder.samples)
    return {
        "cache_mib": cache,
        "cache_tokens": blocks * arguments.block_size,
        "samples": len(recorder.samples),
        **counted._asdict(),
        "computed": counted.computed,
        "needed": must,
        "distinct": unique,
        "computed_over_needed": round(counted.computed / must, 4),
        "computed_over_distinct": round(counted.computed / unique, 4),
    }


def main(arguments: Arguments) -> None:
    """Measure and write."""
    rows = []
    for cache in arguments.caches:
        rows.append(measure(arguments, cache=cache))
        print(json.dumps(rows[-1]), flush=True)
    settings = asdict(arguments) | {"model": str(arguments.model or "embedded"), "output": arguments.output.name}
    record = {"command": "python -m benchmarks.prefix_reuse", "settings": settings, "rows": rows}
    arguments.output.parent.mkdir(exist_ok=True)
    arguments.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Arguments)))
