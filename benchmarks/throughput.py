"""Does search keep vLLM as busy as the very same requests given to it at once? Tokens per second of both, and their ratio.

Run: python -m benchmarks.throughput [--model FOLDER] [--load search] [--repeats 5]
Writes benchmarks/baselines/throughput.json.

64 Countdown searches run side by side over `VLLMPolicy`, each asking for 4 samples a request; every request is recorded.
The recorded requests then go to the bare engine, all at once (`n = 4`, no driver, no splitter, no policy). The same engine
serves both, its prefix cache is emptied before each run, and each repeat has seeds of its own.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import tyro

from benchmarks.statistics import bootstrap
from treewise.policy.reasoner import embedded_model
from treewise.policy.vllm_policy import EngineOptions, VLLMPolicy
from treewise.search.budget import Budget
from treewise.search.driver import Driver
from treewise.search.methods import start_search
from treewise.search.seeds import sibling_seed
from treewise.search.settings import SearchSettings
from treewise.search.types import Finish, Ids, Problem, Prompt, Proposal, StepRequest
from treewise.value.countdown_problems import generate
from treewise.value.evaluators import JudgementEvaluator
from treewise.value.tasks import task_named

SAMPLES = 4


@dataclass(frozen=True)
class Arguments:
    """What is measured."""

    model: Path | None = None
    """Model folder; the embedded policy if left out."""
    load: Literal["search", "paths"] = "search"
    """search: real MCTS in the driver. paths: every search extends one path, always with one request under way."""
    searches: int = 64
    """Searches side by side."""
    problems: int = 128
    """Problems a repeat."""
    numbers: int = 6
    """Numbers a problem."""
    simulations: int = 16
    """search: simulations a problem."""
    lanes: int = 1
    """search: requests that one search may have under way."""
    paths: int = 8
    """paths: whole solutions a search extends, one after another."""
    repeats: int = 5
    """Pairs of runs."""
    max_num_seqs: int = 256
    """Samples that the engine generates at the same time."""
    block_size: int = 32
    """Tokens a block of the prefix cache."""
    seed: int = 0
    """Seed of problems and samples."""
    output: Path = Path(__file__).parent / "baselines" / "throughput.json"
    """Where the figures go."""


class Recorder:
    """A policy that hands everything to another one, keeps the requests, and counts the tokens that came back."""

    def __init__(self, policy: VLLMPolicy) -> None:
        self.policy = policy
        self.requests: list[StepRequest] = []
        self.tokens = 0
        self.prompt_tokens = 0
        self.cached_tokens = 0

    @property
    def fingerprint(self) -> str:
        """Of the policy behind."""
        return self.policy.fingerprint

    @property
    def context_length(self) -> int:
        """Of the policy behind."""
        return self.policy.context_length

    def encode(self, prompt: Prompt) -> Ids:
        """Hand on."""
        return self.policy.encode(prompt)

    def decode(self, ids: Ids) -> str:
        """Hand on."""
        return self.policy.decode(ids)

    def propose(self, ticket: int, request: StepRequest) -> None:
        """Hand on and keep."""
        self.policy.propose(ticket, request)
        self.requests.append(request)

    def collect(self, *, wait: bool) -> list[Proposal]:
        """Hand on and count."""
        finished = self.policy.collect(wait=wait)
        for proposal in finished:
            if proposal.error is not None:
                raise proposal.error
            self.tokens += sum(len(step.ids) for chain in proposal.samples for step in chain)
            self.prompt_tokens += proposal.prompt_tokens
            self.cached_tokens += proposal.cached_tokens
        return finished

    def cancel(self, ticket: int) -> None:
        """Hand on."""
        self.policy.cancel(ticket)

    def close(self) -> None:
        """Hand on."""
        self.policy.close()


class Run(NamedTuple):
    """One run of either kind."""

    requests: int
    tokens: int
    seconds: float
    own_seconds: float
    """Processor time of this process, the engine's left out."""
    cached_share: float
    """Of the prompt tokens, those that came from the prefix cache."""

    @property
    def speed(self) -> float:
        """Generated tokens a second."""
        return self.tokens / self.seconds


def run_searches(recorder: Recorder, problems: list[Problem], *, arguments: Arguments, seed: int) -> None:
    """Search every problem by MCTS; problems are never ended early by a proven answer."""
    task = task_named("countdown")
    settings = SearchSettings(width=SAMPLES, lanes=arguments.lanes, stop_when_proven=False)
    searches = (
        start_search(
            problem, recorder.encode(task.prompt(problem)), task=task, settings=settings,
            budget=Budget(simulations=arguments.simulations), seed=seed, context_length=recorder.context_length,
        )
        for problem in problems
    )  # fmt: skip
    for search in Driver(recorder, JudgementEvaluator(task)).run(searches, concurrency=arguments.searches):
        error = search.answer().error
        if error is not None:
            raise error


def extend_paths(recorder: Recorder, problems: list[Problem], *, arguments: Arguments, seed: int) -> None:
    """Every search grows a path by the first unfinished of its 4 samples, one request at a time."""
    task = task_named("countdown")

    def requests(problem: Problem) -> Iterator[StepRequest]:
        prompt = recorder.encode(task.prompt(problem))
        number = 0
        for _ in range(arguments.paths):
            ids = prompt
            while len(ids) + task.step_tokens <= recorder.context_length:
                seeds = tuple(sibling_seed(seed, problem.id, number, index) for index in range(SAMPLES))
                number += 1
                chains = yield StepRequest(ids, len(prompt), seeds, task.step_tokens)
                going = [chain[0].ids for chain in chains if chain[0].finish is Finish.SEPARATOR]
                if not going:
                    break
                ids = (*ids, *going[0])

    waiting = [requests(problem) for problem in problems]
    under_way = {}
    ticket = 0
    while waiting or under_way:
        while waiting and len(under_way) < arguments.searches:
            path = waiting.pop()
            recorder.propose(ticket, next(path))
            under_way[ticket] = path
            ticket += 1
        for proposal in recorder.collect(wait=True):
            path = under_way.pop(proposal.ticket)
            try:
                following = path.send(proposal.samples)  # type: ignore[attr-defined]
            except StopIteration:
                continue
            recorder.propose(ticket, following)
            under_way[ticket] = path
            ticket += 1


def run_bare(policy: VLLMPolicy, requests: list[StepRequest]) -> Run:
    """Give all requests to vLLM's engine at once and wait for the last."""
    from vllm import SamplingParams
    from vllm.inputs import tokens_input

    engine = policy.engine
    tokens = cached = given = 0
    began, own = time.perf_counter(), time.process_time()
    for number, request in enumerate(requests):
        params = SamplingParams(n=len(request.seeds), **policy.sampling_arguments(request, 0))
        engine.add_request(f"bare-{number}", tokens_input(list(request.ids)), params)
    while engine.has_unfinished_requests():
        for output in engine.step():
            tokens += sum(len(completion.token_ids) for completion in output.outputs)
            given += len(output.prompt_token_ids)
            cached += output.num_cached_tokens or 0
    return Run(len(requests), tokens, time.perf_counter() - began, time.process_time() - own, cached / max(1, given))


def main(arguments: Arguments) -> None:
    """Measure and write."""
    task = task_named("countdown")
    options = EngineOptions(max_num_seqs=arguments.max_num_seqs, block_size=arguments.block_size)
    policy = VLLMPolicy(arguments.model or embedded_model(), grammar=task.grammar, engine=options)
    load = run_searches if arguments.load == "search" else extend_paths
    rows = []
    for repeat in range(-1, arguments.repeats):  # the first pair warms up
        seed = arguments.seed + repeat + 1
        count = arguments.problems if repeat >= 0 else arguments.searches
        problems = generate(count, numbers=arguments.numbers, split="test", seed=seed)
        recorder = Recorder(policy)
        policy.engine.reset_prefix_cache()
        began, own = time.perf_counter(), time.process_time()
        load(recorder, problems, arguments=arguments, seed=seed)
        seconds = time.perf_counter() - began
        own = time.process_time() - own
        cached = recorder.cached_tokens / max(1, recorder.prompt_tokens)
        ours = Run(len(recorder.requests), recorder.tokens, seconds, own, cached)
        policy.engine.reset_prefix_cache()
        bare = run_bare(policy, recorder.requests)
        row = {"ratio": ours.speed / bare.speed}
        for name, run in (("search", ours), ("bare", bare)):
            row |= {f"{name}_{field}": round(value, 3) for field, value in run._asdict().items()}
            row[f"{name}_tokens_per_second"] = round(run.speed)
        print(json.dumps({"warm-up" if repeat < 0 else "repeat": repeat, **row}), flush=True)
        if repeat >= 0:
            rows.append(row)
    policy.close()
    ratios = [row["ratio"] for row in rows]
    record = {
        "command": "python -m benchmarks.throughput",
        "settings": asdict(arguments) | {"model": str(arguments.model or "embedded"), "output": arguments.output.name},
        "ratio": [sum(ratios) / len(ratios), *bootstrap(ratios)],
        "rows": rows,
    }
    print(json.dumps(record["ratio"]))
    arguments.output.parent.mkdir(exist_ok=True)
    arguments.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Arguments)))
