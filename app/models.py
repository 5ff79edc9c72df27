"""From the options' words to a policy and an evaluator. Heavy libraries are loaded only by the branch that needs them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec

from treewise.app.config import ModelOptions
from treewise.search.types import Evaluator, ModelNotFound, Policy, PolicyError, Task


def build_policy(options: ModelOptions, task: Task, *, say: Callable[[str], None] | None = None) -> Policy:
    """Return a started policy; the caller closes it. `say` is told when an engine died and is started anew.

    Raises ModelNotFound and PolicyError.
    """
    kind = options.policy
    if kind == "auto":
        kind = "vllm" if find_spec("vllm") is not None else "transformers"
    if kind == "scripted":
        from treewise.policy.countdown_script import countdown_policy

        return countdown_policy(context_length=options.context)
    from treewise.policy.reasoner import embedded_model, find_model

    model = embedded_model() if options.model is None else find_model(options.model)
    if kind == "transformers":
        from treewise.policy.transformers_policy import TransformersPolicy

        return TransformersPolicy(
            model,
            grammar=task.grammar,
            temperature=options.temperature,
            top_p=options.top_p,
            max_model_len=options.context,
        )
    if find_spec("vllm") is None:
        raise ModelNotFound(
            "policy 'vllm' needs vLLM, which is not installed",
            "install treewise[cpu] or treewise[vllm], or use --policy transformers",
        )
    from treewise.policy.engine_environment import replica_devices
    from treewise.policy.replicas import ReplicatedPolicy
    from treewise.policy.revived import RevivedPolicy
    from treewise.policy.vllm_policy import EngineOptions, VLLMPolicy

    def start(device: str | None) -> Policy:
        return VLLMPolicy(
            model,
            grammar=task.grammar,
            temperature=options.temperature,
            top_p=options.top_p,
            engine=EngineOptions(max_model_len=options.context, device=device),
        )

    def told(death: PolicyError) -> None:
        if say is not None:
            say(f"{death}. It is started anew, once")

    devices = replica_devices(options.replicas)
    with ExitStack() as undo:
        replicas = []
        for device in devices:
            replicas.append(RevivedPolicy(partial(start, device), on_revival=told))
            undo.callback(replicas[-1].close)
        undo.pop_all()
    return replicas[0] if len(replicas) == 1 else ReplicatedPolicy(replicas)


def build_evaluator(options: ModelOptions, task: Task) -> Evaluator:
    """Return the evaluator that the options name."""
    from treewise.value.evaluators import JudgementEvaluator

    return JudgementEvaluator(task)
