"""A real engine that is killed: the searches go on, and nothing is left behind, whoever was killed and when."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from treewise.policy.process_watch import MARK
from treewise.policy.reasoner import embedded_model
from treewise.policy.revived import EngineDied, RevivedPolicy
from treewise.search.budget import Budget
from treewise.search.driver import Driver, Progress
from treewise.search.methods import start_search
from treewise.search.settings import SearchSettings
from treewise.search.types import Policy, SearchEnd
from treewise.value.countdown_problems import generate
from treewise.value.evaluators import JudgementEvaluator
from treewise.value.tasks import task_named

if TYPE_CHECKING:
    from treewise.policy.vllm_policy import VLLMPolicy

pytestmark = [pytest.mark.vllm, pytest.mark.slow]

STARTER = """
import sys
from treewise.policy.vllm_policy import EngineOptions, VLLMPolicy
from treewise.search.types import StepGrammar
options = EngineOptions(enforce_eager=True, max_num_seqs=16, kv_cache_bytes=1 << 28)
VLLMPolicy(sys.argv[1], grammar=StepGrammar(), engine=options)
print("started", flush=True)
sys.stdin.read()
"""


def until(condition: Callable[[], bool], *, seconds: float) -> bool:
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            return False
        time.sleep(0.05)
    return True


def processes_of(owner: int) -> list[int]:
    """Living processes that the owner's engines are made of; its own resource tracker stays as long as it does."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or f"\0{MARK}={owner}-".encode() not in b"\0" + (entry / "environ").read_bytes():
                continue
            if b"resource_tracker" not in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_searches_go_on_when_the_engine_is_killed(capfd: pytest.CaptureFixture[str]) -> None:
    """Killed at a third of the way: started anew once, every request comes back, every search spends its budget."""
    from treewise.policy.vllm_policy import EngineOptions, VLLMPolicy

    task = task_named("countdown")
    made: list[VLLMPolicy] = []
    told: list[EngineDied] = []

    def make() -> Policy:
        options = EngineOptions(enforce_eager=True, max_num_seqs=32, kv_cache_bytes=1 << 28)
        made.append(VLLMPolicy(embedded_model(), grammar=task.grammar, engine=options))
        return made[-1]

    policy = RevivedPolicy(make, on_revival=told.append)
    searches = [
        start_search(
            problem,
            policy.encode(task.prompt(problem)),
            task=task,
            settings=SearchSettings(stop_when_proven=False, prune=False),
            budget=Budget(simulations=12),
            seed=0,
            context_length=policy.context_length,
        )
        for problem in generate(12, numbers=4, split="test", seed=0)
    ]

    def kill(progress: Progress) -> None:
        if len(made) == 1 and not told and progress.policy_tokens > 800 and processes[0].is_alive():
            os.kill(processes[0].pid, signal.SIGKILL)

    processes = made[0].engine.engine_core.resources.engine_manager.processes
    ended = list(Driver(policy, JudgementEvaluator(task)).run(searches, concurrency=8, on_progress=kill))
    assert (len(made), len(told), len(ended)) == (2, 1, 12)
    for search in searches:
        assert search.end in (SearchEnd.BUDGET, SearchEnd.EXHAUSTED), search.answer().reason
        assert search.end is SearchEnd.EXHAUSTED or search.bill.simulations == 12
        assert search.meter.reserved_tokens == 0
    assert policy.collect(wait=True) == []
    policy.close()
    assert until(lambda: not processes_of(os.getpid()), seconds=20)


@pytest.mark.parametrize("moment", ["starting", "started"])
def test_a_killed_owner_leaves_no_engine_behind(tiny_model: Path, moment: str) -> None:
    command = [sys.executable, "-c", STARTER, str(tiny_model)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as owner:
        assert owner.stdout is not None
        if moment == "started":
            assert owner.stdout.readline() == b"started\n"
        else:
            assert until(lambda: len(processes_of(owner.pid)) >= 2, seconds=300)
        assert processes_of(owner.pid)
        os.kill(owner.pid, signal.SIGKILL)
    assert until(lambda: not processes_of(owner.pid), seconds=20)
