"""What carrying requests and results costs: processor time of driver and search a simulation, without models and task.

Run: python -m benchmarks.payload [--profile]
Writes benchmarks/baselines/payload.json.

Searches run over a policy, an evaluator and a task that do next to nothing: steps come from a table, values are constant, a
path is finished at a fixed depth. The calls that the stubs got are then made again by themselves, and their time is taken
off. What is left is asking, sending, telling, growing the tree and choosing. Processor time of the fastest repeat.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, MutableSequence, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path as File

import tyro

from treewise.search.budget import Budget
from treewise.search.driver import Driver
from treewise.search.methods import start_search
from treewise.search.settings import MethodName, SearchSettings
from treewise.search.tree_search import TreeSearch
from treewise.search.types import (
    Evaluation,
    Finish,
    Ids,
    Judgement,
    Path,
    Problem,
    Prompt,
    Proposal,
    Standing,
    Step,
    StepGrammar,
    StepRequest,
    Verdict,
    VerdictKind,
)

STEPS = 1000
"""Different steps, so that few are merged."""
GOAL_MICROSECONDS = 40.0


@dataclass(frozen=True)
class Arguments:
    """What is measured."""

    methods: tuple[MethodName, ...] = ("mcts", "belief", "best-of-n")
    """Search methods."""
    searches: int = 32
    """Problems, all side by side."""
    simulations: int = 128
    """Simulations a problem."""
    depth: int = 5
    """Steps a solution."""
    tokens: int = 10
    """Tokens a step."""
    prompt: int = 100
    """Tokens a prompt."""
    repeats: int = 5
    """Runs a method."""
    profile: bool = False
    """Print where the time goes; nothing is written."""
    output: File = File(__file__).parent / "baselines" / "payload.json"
    """Where the figures go."""


class Stub:
    """Policy, evaluator and task in one."""

    name = fingerprint = "stub"
    self_verifying = False
    grammar = StepGrammar()
    context_length = 1 << 20

    def __init__(self, arguments: Arguments, *, keeps: bool = True) -> None:
        """With `keeps` it remembers what it was asked."""
        self.depth, self.step_tokens, self.max_steps = arguments.depth, arguments.tokens, arguments.depth
        self.prompt_ids = tuple(range(arguments.prompt))
        self.steps = [
            (Step((i, *range(1, arguments.tokens)), (-0.5,) * arguments.tokens, f"step {i} is here\n", Finish.SEPARATOR),)
            for i in range(STEPS)
        ]
        self.open, self.finished = Judgement(Standing.OPEN), Judgement(Standing.FINISHED, "7")
        self.value = Evaluation(0.5)
        self.proposals: list[Proposal] = []
        self.asked: MutableSequence[tuple[int, StepRequest]] = [] if keeps else deque(maxlen=0)
        self.collected = 0
        self.valued: MutableSequence[Sequence[Path]] = [] if keeps else deque(maxlen=0)
        self.judged: MutableSequence[Path] = [] if keeps else deque(maxlen=0)

    def encode(self, prompt: Prompt) -> Ids:
        """Return the prompt that all problems have."""
        return self.prompt_ids

    def decode(self, ids: Ids) -> str:
        """Return no text."""
        return ""

    def propose(self, ticket: int, request: StepRequest) -> None:
        """Answer at once."""
        self.asked.append((ticket, request))
        steps, count = self.steps, request.steps or self.depth
        samples = [tuple(steps[(seed >> 7 * k) % STEPS][0] for k in range(count)) for seed in request.seeds]
        self.proposals.append(Proposal(ticket, tuple(samples)))

    def collect(self, *, wait: bool) -> list[Proposal]:
        """Return everything."""
        self.collected += 1
        found, self.proposals = self.proposals, []
        return found

    def cancel(self, ticket: int) -> None:
        """Nothing is ever under way."""

    def close(self) -> None:
        """Nothing is open."""

    def evaluate(self, paths: Sequence[Path]) -> list[Evaluation]:
        """Return the same value for all."""
        self.valued.append(paths)
        return [self.value] * len(paths)

    def judge(self, path: Path) -> Judgement:
        """A path of full depth is finished."""
        self.judged.append(path)
        return self.finished if len(path.ends) >= self.depth else self.open

    def read(self, row: Mapping[str, object]) -> tuple[Problem, str | None]:
        """There are no rows."""
        raise NotImplementedError

    def prompt(self, problem: Problem) -> Prompt:
        """Return the problem's text."""
        return Prompt((), problem.text)

    def verify(self, problem: Problem, answer: str, reference: str | None) -> Verdict:
        """Nothing is checked."""
        return Verdict(VerdictKind.UNDECIDED)


def start_searches(stub: Stub, *, problems: int, simulations: int, settings: SearchSettings) -> Iterator[TreeSearch]:
    """Make one search a problem, as they are wanted."""
    for index in range(problems):
        yield start_search(
            Problem(f"p{index}", "x"), stub.prompt_ids, task=stub, settings=settings,
            budget=Budget(simulations=simulations), seed=0, context_length=stub.context_length,
        )  # fmt: skip


def run(stub: Stub, *, arguments: Arguments, method: MethodName) -> tuple[int, int]:
    """Run all searches to their end and return their simulations and nodes."""
    sampled = method in ("best-of-n", "majority")
    settings = SearchSettings(method=method, prune=False, **({"samples": arguments.simulations} if sampled else {}))
    searches = list(start_searches(stub, problems=arguments.searches, simulations=arguments.simulations, settings=settings))
    for _ in Driver(stub, stub).run(searches, concurrency=arguments.searches):
        pass
    return sum(search.bill.simulations for search in searches), sum(search.solutions.tree.size - 1 for search in searches)


def stub_seconds(stub: Stub, arguments: Arguments) -> float:
    """Return the processor time of the very calls that a run made to the stubs."""
    fresh = Stub(arguments)
    began = time.process_time()
    for ticket, request in stub.asked:
        fresh.propose(ticket, request)
    for _ in range(stub.collected):
        fresh.collect(wait=True)
    for paths in stub.valued:
        fresh.evaluate(paths)
    for path in stub.judged:
        fresh.judge(path)
    return time.process_time() - began


def measure(arguments: Arguments, method: MethodName) -> dict[str, str | float]:
    """Return the row of one method: microseconds of the fastest repeat."""
    run(Stub(arguments), arguments=arguments, method=method)  # compiles
    best: dict[str, str | float] = {}
    for _ in range(arguments.repeats):
        stub = Stub(arguments)
        began = time.process_time()
        simulations, nodes = run(stub, arguments=arguments, method=method)
        whole = time.process_time() - began
        own = whole - stub_seconds(stub, arguments)
        row: dict[str, str | float] = {
            "method": method,
            "simulations": simulations,
            "requests": len(stub.asked),
            "nodes": nodes,
            "microseconds_a_simulation": round(1e6 * own / simulations, 1),
            "microseconds_a_request": round(1e6 * own / len(stub.asked), 1),
            "microseconds_a_node": round(1e6 * own / nodes, 1),
            "stubs_share": round(1 - own / whole, 3),
        }
        if not best or row["microseconds_a_node"] < best["microseconds_a_node"]:  # type: ignore[operator]
            best = row
    return best


def main(arguments: Arguments) -> None:
    """Measure and write, or profile."""
    if arguments.profile:
        for method in arguments.methods:
            run(Stub(arguments), arguments=arguments, method=method)
            profile = cProfile.Profile()
            profile.runcall(run, Stub(arguments), arguments=arguments, method=method)
            pstats.Stats(profile).sort_stats("tottime").print_stats(30)
        return
    rows = []
    for method in arguments.methods:
        rows.append(measure(arguments, method))
        print(json.dumps(rows[-1]), flush=True)
    settings = asdict(arguments) | {"output": arguments.output.name}
    record = {"command": "python -m benchmarks.payload", "goal": GOAL_MICROSECONDS, "settings": settings, "rows": rows}
    arguments.output.parent.mkdir(exist_ok=True)
    arguments.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Arguments)))
