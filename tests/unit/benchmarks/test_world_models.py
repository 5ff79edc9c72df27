"""Treewise's view of the scripted worlds: one id a step, readings as evaluations, and the simulated clock by arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pytest

from benchmarks.world_models import Clock, OpenWorlds, SimulatedValuer, WorldEvaluator, WorldPolicy, WorldTask, simulated_driver
from benchmarks.worlds import TAGS, WORLDS, WorldServer
from treewise.search.budget import Budget
from treewise.search.driver import Driver, Wakeable
from treewise.search.methods import start_search
from treewise.search.settings import SearchSettings
from treewise.search.types import (
    ContextOverflow,
    EvaluationAsk,
    EvaluatorError,
    Finish,
    Ids,
    InputError,
    Path,
    Policy,
    PolicyError,
    Prompt,
    Proposal,
    Standing,
    Step,
    StepRequest,
    Task,
    VerdictKind,
)

SPECS = WORLDS | {"deadly": replace(WORLDS["dead_ends"], name="deadly", success=0.0, dead_ends=1.0)}
PASS = 0.020
SAMPLE = 0.0002


class Models(NamedTuple):
    """All that a run needs."""

    worlds: OpenWorlds
    policy: WorldPolicy
    evaluator: WorldEvaluator
    clock: Clock


@pytest.fixture
def models() -> Iterator[Models]:
    clock = Clock()
    with WorldServer(inline=True) as server:
        worlds = OpenWorlds(server, SPECS)
        yield Models(worlds, WorldPolicy(worlds, clock=clock), WorldEvaluator(worlds, clock=clock), clock)


def prompt(models: Models, world: str = "clean", seed: int = 0) -> Ids:
    task = WorldTask()
    problem, reference = task.read({"world": world, "seed": seed})
    assert reference is None
    return models.policy.encode(task.prompt(problem))


def request(ids: Ids, seeds: int = 1, *, tokens: int = 1, steps: int | None = 1) -> StepRequest:
    return StepRequest(ids, 1, tuple(range(seeds)), tokens, steps)


def tickets(proposals: list[Proposal]) -> list[int]:
    return [proposal.ticket for proposal in proposals]


def path_of(ids: Ids, steps: tuple[Step, ...]) -> Path:
    problem, _ = WorldTask().read({"world": "clean", "seed": 0})
    new = tuple(i for step in steps for i in step.ids)
    ends = tuple(range(2, 2 + len(steps)))
    return Path(problem, ids + new, ends, 1, tuple(step.text for step in steps), steps[-1].finish)


def solution(models: Models, ids: Ids) -> tuple[Step, ...]:
    models.policy.propose(99, request(ids, tokens=16, steps=None))
    (proposal,) = models.policy.collect(wait=True)
    return proposal.samples[0]


def test_they_are_what_the_protocols_say(models: Models) -> None:
    assert isinstance(models.policy, Policy)
    assert isinstance(models.policy, Wakeable)
    assert isinstance(WorldTask(), Task)


def test_steps_are_the_worlds_one_id_each(models: Models) -> None:
    ids = prompt(models, "both", 3)
    models.policy.propose(0, request(ids, 4))
    (proposal,) = models.policy.collect(wait=True)
    with WorldServer(inline=True) as server:
        expected = server.open(WORLDS["both"], 3).propose((), range(4))
    assert [(step.ids, step.text) for (step,) in proposal.samples] == [((e.tag,), e.text) for e in expected]
    assert proposal.prompt_tokens == 4
    assert models.worlds.handle(ids[0]).steps == 4
    (first,) = proposal.samples[0]
    assert models.policy.decode(ids + first.ids) == first.text


@pytest.mark.parametrize("world", ["clean", "early", "deadly"])
def test_a_whole_solution_is_what_single_steps_give(models: Models, world: str) -> None:
    ids, chain = prompt(models, world), []
    whole = solution(models, ids)
    while not chain or chain[-1].finish is not Finish.END:
        models.policy.propose(1, request(ids + tuple(i for step in chain for i in step.ids)))
        (proposal,) = models.policy.collect(wait=True)
        chain += proposal.samples[0]
    assert whole == tuple(chain)


@pytest.mark.parametrize(("tokens", "steps", "expected"), [(3, None, 3), (16, 2, 2), (1, 4, 1), (16, None, 8)])
def test_limits_of_steps_and_tokens(models: Models, tokens: int, steps: int | None, expected: int) -> None:
    models.policy.propose(0, request(prompt(models), 2, tokens=tokens, steps=steps))
    (proposal,) = models.policy.collect(wait=True)
    assert [len(chain) for chain in proposal.samples] == [expected, expected]
    assert (proposal.samples[0][-1].finish is Finish.END) == (expected == 8)
    assert models.worlds.handle(TAGS).steps == 2 * expected


def test_greedy_samples_are_alike(models: Models) -> None:
    models.policy.propose(0, StepRequest(prompt(models), 1, (5, 6), 1, greedy=True))
    (proposal,) = models.policy.collect(wait=True)
    assert proposal.samples[0] == proposal.samples[1]


def test_the_task_reads_the_end_of_a_chain_from_its_text(models: Models) -> None:
    task, ids = WorldTask(), prompt(models, "clean", 1)
    steps = solution(models, ids)
    assert [task.judge(path_of(ids, steps[:n])).standing for n in range(1, 9)] == [Standing.OPEN] * 7 + [Standing.FINISHED]
    judgement = task.judge(path_of(ids, steps))
    assert not judgement.proven
    assert models.worlds.answers[models.worlds.handle(ids[0])] == {judgement.answer}
    dead = prompt(models, "deadly", 1)
    assert task.judge(path_of(dead, solution(models, dead))).standing is Standing.DEAD


def test_verify_knows_only_the_reference_it_is_given() -> None:
    task = WorldTask()
    problem, _ = task.read({"world": "clean", "seed": 1})
    assert task.verify(problem, "5", None).kind is VerdictKind.UNDECIDED
    assert task.verify(problem, "5", "5").kind is VerdictKind.CORRECT
    assert task.verify(problem, "5", "6").kind is VerdictKind.INCORRECT


@pytest.mark.parametrize("world", ["both", "both_rescoring"])
def test_evaluations_are_the_readings(models: Models, world: str) -> None:
    ids = prompt(models, world, 2)
    steps = solution(models, ids)
    paths = [path_of(ids, steps[:n]) for n in range(1, 9)]
    evaluations = models.evaluator.evaluate(paths)
    with WorldServer(inline=True) as server:
        expected = server.open(WORLDS[world], 2).score([path.ids[1:] for path in paths])
    assert [list(evaluation.outputs) for evaluation in evaluations] == expected
    assert [evaluation.value for evaluation in evaluations] == [readings[-1] for readings in expected]
    again = world == "both_rescoring"
    assert [len(evaluation.outputs) for evaluation in evaluations] == (list(range(1, 9)) if again else [1] * 8)
    assert [evaluation.readings for evaluation in evaluations] == [e.outputs if again else () for e in evaluations]


def test_what_is_asked_at_the_same_time_is_one_pass(models: Models) -> None:
    ids = prompt(models)
    for ticket, seeds in enumerate((2, 3, 1)):
        models.policy.propose(ticket, request(ids, seeds))
    assert models.policy.collect(wait=False) == []
    assert tickets(models.policy.collect(wait=True)) == [0, 1, 2]
    assert models.clock() == pytest.approx(PASS + 6 * SAMPLE)
    assert models.policy.passes == 1


def test_what_is_asked_during_a_pass_joins_the_next(models: Models) -> None:
    ids = prompt(models)
    steps = solution(models, ids)
    start = models.clock.now = 1.0
    models.policy.propose(0, request(ids, 200))  # until 1.060
    models.evaluator.evaluate([path_of(ids, steps[:1])] * 10)
    assert models.clock() == pytest.approx(start + PASS + 10 * SAMPLE)
    models.policy.propose(1, request(ids, 5))
    assert models.policy.collect(wait=False) == []
    assert tickets(models.policy.collect(wait=True)) == [0]
    assert models.clock() == pytest.approx(start + PASS + 200 * SAMPLE)
    models.policy.propose(2, request(ids, 7))  # at the very time at which the next pass starts
    assert tickets(models.policy.collect(wait=True)) == [1, 2]
    assert models.clock() == pytest.approx(start + 2 * PASS + 212 * SAMPLE)


def test_a_pass_goes_on_while_the_evaluator_reads(models: Models) -> None:
    ids = prompt(models)
    steps = solution(models, ids)
    models.clock.now, models.policy.busy = 1.0, 0.0
    models.policy.propose(0, request(ids, 10))  # until 1.022
    models.evaluator.evaluate([path_of(ids, steps[:1])] * 50)  # until 1.030
    assert tickets(models.policy.collect(wait=False)) == [0]
    assert models.clock() == pytest.approx(1.0 + PASS + 50 * SAMPLE)
    assert models.policy.busy == pytest.approx(PASS + 10 * SAMPLE)
    models.policy.propose(1, request(ids, 1))  # the engine has been idle: from now on
    models.policy.collect(wait=True)
    assert models.clock() == pytest.approx(1.0 + 2 * PASS + 51 * SAMPLE)


def test_longer_samples_take_a_pass_a_step_and_others_join(models: Models) -> None:
    ids = prompt(models)
    models.policy.propose(0, request(ids, 2, tokens=16, steps=None))
    models.policy.propose(1, request(ids, 3))
    assert tickets(models.policy.collect(wait=True)) == [1]
    models.policy.propose(2, request(ids, 4))
    assert tickets(models.policy.collect(wait=True)) == [2]
    assert tickets(models.policy.collect(wait=True)) == [0]
    assert models.clock() == pytest.approx(8 * PASS + (2 * 8 + 3 + 4) * SAMPLE)
    assert models.policy.busy == pytest.approx(models.clock())
    assert models.policy.passes == 8


@pytest.mark.parametrize("when", ["waiting", "running", "ready"])
def test_a_cancelled_request_does_not_come_back(models: Models, when: str) -> None:
    ids = prompt(models)
    steps = solution(models, ids)
    models.policy.propose(0, request(ids, 2))
    models.policy.propose(1, request(ids, 3))
    models.clock.now += {"waiting": 0.0, "running": 0.001, "ready": 0.5}[when]
    models.policy.propose(2, request(ids + steps[0].ids))  # moves the engine on to now
    models.policy.cancel(1)
    models.policy.cancel(77)
    found = models.policy.collect(wait=True)
    while len(found) < 2:
        found += models.policy.collect(wait=True)
    assert sorted(tickets(found)) == [0, 2]
    assert models.policy.collect(wait=True) == []


def test_bad_requests_are_refused(models: Models) -> None:
    policy, ids = models.policy, prompt(models)
    with pytest.raises(InputError, match="no world"):
        policy.encode(Prompt((), "world nowhere seed 1"))
    with pytest.raises(InputError, match="no open world"):
        policy.propose(0, request((TAGS + 5,)))
    with pytest.raises(ContextOverflow):
        policy.propose(0, request(ids, tokens=5000))
    with pytest.raises(InputError, match="nowhere 2"):
        WorldTask().read({"world": "nowhere 2", "seed": 1})
    policy.propose(0, request(ids))
    with pytest.raises(InputError, match="under way"):
        policy.propose(0, request(ids))
    policy.close()
    with pytest.raises(PolicyError, match="closed"):
        policy.propose(1, request(ids))


def test_going_on_after_the_end_is_an_error_of_the_models(models: Models) -> None:
    ids = prompt(models)
    steps = solution(models, ids)
    path = path_of(ids, steps)
    models.policy.propose(0, request(path.ids))
    with pytest.raises(PolicyError, match="has ended"):
        models.policy.collect(wait=True)
    with pytest.raises(EvaluatorError, match="has ended"):
        models.evaluator.evaluate([replace(path, ids=(*path.ids, 1))])


def test_the_policy_goes_on_while_the_evaluator_reads(models: Models) -> None:
    policy, clock, ids = models.policy, models.clock, prompt(models)
    valuer: SimulatedValuer[str] = SimulatedValuer(models.evaluator, clock=clock)
    path = path_of(ids, solution(models, ids)[:1])
    start = clock.now = 1.0
    policy.propose(0, request(ids, 10))  # until 1.022
    policy.propose(1, request(ids, 30, tokens=2, steps=2))  # until 1.054, in two passes
    valuer.add("mine", EvaluationAsk(5, (path,) * 100))  # until 1.040
    valuer.add("lost", EvaluationAsk(6, (path,)))
    valuer.begin(lambda owner: owner == "mine")
    valuer.add("later", EvaluationAsk(7, (path,)))
    valuer.begin(lambda _: True)  # the evaluator is busy
    assert (clock(), valuer.busy, valuer.ready, valuer.take()) == (start, True, False, [])
    assert tickets(policy.collect(wait=True)) == [0]
    assert clock() == pytest.approx(start + PASS + 40 * SAMPLE)
    assert valuer.take() == []
    assert policy.collect(wait=True) == []  # the evaluator is done first
    assert clock() == pytest.approx(start + PASS + 100 * SAMPLE)
    assert valuer.ready
    ((owner, ask, values),) = valuer.take()
    assert (owner, ask.ticket, values) == ("mine", 5, models.evaluator.evaluate([path] * 100))
    assert not valuer.busy
    clock.now -= PASS + 100 * SAMPLE  # the check's own call
    assert tickets(policy.collect(wait=True)) == [1]
    assert clock() == pytest.approx(start + 2 * PASS + 70 * SAMPLE)
    valuer.begin(lambda _: True)
    valuer.wait()
    assert clock() == pytest.approx(start + 3 * PASS + 71 * SAMPLE)
    assert [owner for owner, _, _ in valuer.take()] == ["later"]


def test_overlap_changes_times_and_nothing_else() -> None:
    """With overlap the evaluator reads for one lane while the policy works for another."""
    answers, seconds = [], []
    for overlap in (True, False):
        clock, task = Clock(), WorldTask()
        with WorldServer(inline=True) as server:
            worlds = OpenWorlds(server)
            policy, evaluator = WorldPolicy(worlds, clock=clock), WorldEvaluator(worlds, clock=clock)
            driver = (
                simulated_driver(policy, evaluator, clock=clock)
                if overlap
                else Driver(policy, evaluator, overlap=False, clock=clock)
            )
            problems = [task.read({"world": "early", "seed": seed})[0] for seed in range(8)]
            searches = [
                start_search(
                    problem, policy.encode(task.prompt(problem)), task=task, settings=SearchSettings(lanes=4),
                    budget=Budget(tokens=64), seed=1, context_length=policy.context_length,
                )
                for problem in problems
            ]  # fmt: skip
            list(driver.run(searches, concurrency=4))
        answers.append([replace(search.answer(), bill=replace(search.bill, seconds=0.0)) for search in searches])
        seconds.append(clock())
        assert policy.busy + evaluator.busy >= clock() - 1e-9  # one of them always works
    assert answers[0] == answers[1]
    assert seconds[0] < seconds[1]
