"""How the options' words become policies: engines that are started anew, replicas, and the problems side by side."""

from __future__ import annotations

import pytest

from treewise.app import models
from treewise.app.config import ModelOptions
from treewise.policy import engine_environment, vllm_policy
from treewise.policy.replicas import ReplicatedPolicy
from treewise.policy.revived import EngineDied, RevivedPolicy
from treewise.policy.scripted import ScriptedPolicy, text_step
from treewise.policy.vllm_policy import EngineOptions
from treewise.search.types import PolicyError, StepRequest
from treewise.value.tasks import task_named


class Stub(ScriptedPolicy):
    """Stands for the vLLM policy: notes how it was made, and dies after its first two requests."""

    made: list[Stub]
    refuse_after: int

    def __init__(self, model: object, *, engine: EngineOptions, **_: object) -> None:
        if len(self.made) >= self.refuse_after:
            raise PolicyError("no memory left")
        super().__init__(lambda ids, seed: (text_step("4\n"),), fail_after=2 if not self.made else None)
        self.device = engine.device
        self.closed = False
        self.made.append(self)

    def _death(self) -> EngineDied:
        return EngineDied("it died")

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> type[Stub]:
    monkeypatch.setattr(models, "find_spec", lambda name: name)
    monkeypatch.setattr(vllm_policy, "VLLMPolicy", Stub)
    monkeypatch.setattr(engine_environment, "replica_devices", lambda count: ["4", "5", "6"][:count])
    monkeypatch.setattr(Stub, "made", [], raising=False)
    monkeypatch.setattr(Stub, "refuse_after", 9, raising=False)
    return Stub


def test_a_dead_engine_is_started_anew_and_said(stub: type[Stub]) -> None:
    said: list[str] = []
    policy = models.build_policy(ModelOptions(policy="vllm"), task_named("countdown"), say=said.append)
    assert isinstance(policy, RevivedPolicy)
    for ticket in range(4):
        policy.propose(ticket, StepRequest((1,), 1, (0,), 4))
    found = policy.collect(wait=True)
    assert sorted((p.ticket, p.error) for p in found) == [(ticket, None) for ticket in range(4)]
    assert said == ["it died. It is started anew, once"]
    assert [one.device for one in stub.made] == ["4", "4"]


def test_every_replica_has_its_own_gpu(stub: type[Stub]) -> None:
    policy = models.build_policy(ModelOptions(policy="auto", replicas=3), task_named("countdown"))
    assert isinstance(policy, ReplicatedPolicy)
    assert [one.device for one in stub.made] == ["4", "5", "6"]
    policy.close()
    assert all(one.closed for one in stub.made)


def test_a_replica_that_does_not_start_leaves_none_behind(stub: type[Stub], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stub, "refuse_after", 2)
    with pytest.raises(PolicyError, match="no memory left"):
        models.build_policy(ModelOptions(policy="vllm", replicas=3), task_named("countdown"))
    assert [one.closed for one in stub.made] == [True, True]
