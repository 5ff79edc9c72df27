"""The vLLM policy where it differs from others: continuations inside a step, prefix cache, death of the engine.

The vocabulary is byte-level, so that separators straddle tokens, and the grammar one under which the engine must often go on
after a token at which it stopped: blank lines, at least two lines, guards, a stop text.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from treewise.policy.transformers_policy import TransformersPolicy
from treewise.search.types import Finish, Ids, Policy, PolicyError, Prompt, Proposal, StepGrammar, StepRequest

if TYPE_CHECKING:
    from treewise.policy.vllm_policy import VLLMPolicy

pytestmark = pytest.mark.vllm

GRAMMAR = StepGrammar(separators=("\n\n",), minimum_lines=2, stop_texts=("aa",))


@pytest.fixture(scope="module")
def policy(byte_model: Path) -> Iterator[VLLMPolicy]:
    from treewise.policy.vllm_policy import EngineOptions, VLLMPolicy

    made = VLLMPolicy(byte_model, grammar=GRAMMAR, engine=EngineOptions(enforce_eager=True, max_num_seqs=64))
    yield made
    made.close()


@pytest.fixture(scope="module")
def prompt(policy: VLLMPolicy) -> Ids:
    return policy.encode(Prompt((), "so x.\nso y"))


def ask(policy: Policy, request: StepRequest) -> Proposal:
    policy.propose(0, request)
    (proposal,) = policy.collect(wait=True)
    return proposal


def is_complete(text: str) -> bool:
    """A step by the grammar, where nothing is guarded: a blank line after two lines with text."""
    lines = [line for line in text.split("\n") if line.strip()]
    return len(lines) >= 2 and re.search(r"\S\s*\n\n", text) is not None and "\n\n" in text[text.index(lines[1]) :]


def test_steps_end_where_the_text_says(policy: VLLMPolicy, prompt: Ids) -> None:
    """S11, S23, T61: with the first token that completes a blank line after two lines, whatever tokens it is made of."""
    proposal = ask(policy, StepRequest(prompt, len(prompt), tuple(range(150)), 120))
    steps = [chain[0] for chain in proposal.samples]
    assert all(len(chain) == 1 for chain in proposal.samples)
    complete = [step for step in steps if step.finish is Finish.SEPARATOR and not re.search(r"`|boxed", step.text)]
    assert len(complete) > 20
    for step in complete:
        assert is_complete(step.text), step.text
        assert not is_complete(policy.decode(step.ids[:-1])), step.text
    straddling = [step for step in complete if not policy.decode(step.ids[-1:]).count("\n\n")]
    assert straddling, "no separator was made of two tokens"


def test_limit_holds_over_continuations(policy: VLLMPolicy, prompt: Ids) -> None:
    proposal = ask(policy, StepRequest(prompt, len(prompt), tuple(range(60)), 9, 3))
    totals = [sum(len(step.ids) for step in chain) for chain in proposal.samples]
    assert max(totals) == 9
    assert all(total == 9 or chain[-1].finish is Finish.END for total, chain in zip(totals, proposal.samples, strict=True))


def test_stop_text_ends_the_solution(policy: VLLMPolicy, prompt: Ids) -> None:
    """S61: the splitter decides, so that a stop text counts in both ways of asking."""
    for steps in (1, None):
        proposal = ask(policy, StepRequest(prompt, len(prompt), tuple(range(150)), 100, steps))
        texts = ["".join(step.text for step in chain) for chain in proposal.samples]
        assert any("aa" in text for text in texts)
        for text, chain in zip(texts, proposal.samples, strict=True):
            if "aa" in text:
                assert chain[-1].finish is Finish.END
                assert "aa" not in policy.decode(tuple(i for step in chain for i in step.ids)[:-1])


def test_log_probabilities_of_continuations_are_those_of_the_whole_path(
    policy: VLLMPolicy, byte_model: Path, prompt: Ids
) -> None:
    """The concatenation of ids is what the model saw, over every internal continuation: compared with one forward pass."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(byte_model, dtype=torch.float32)
    proposal = ask(policy, StepRequest(prompt, len(prompt), tuple(range(20)), 100, 2))
    for chain in proposal.samples:
        new = [i for step in chain for i in step.ids]
        with torch.inference_mode():
            logits = model(torch.tensor([[*prompt, *new]])).logits[0, len(prompt) - 1 : -1]
        expected = logits.log_softmax(-1)[torch.arange(len(new)), torch.tensor(new)].tolist()
        assert [value for step in chain for value in step.logprobs] == pytest.approx(expected, abs=1e-3)


def test_both_backends_agree_on_the_distribution_of_steps(policy: VLLMPolicy, byte_model: Path, prompt: Ids) -> None:
    """Mean length of 300 steps: the bound is 4.5 standard errors of the difference, from the sample itself."""
    other = TransformersPolicy(byte_model, grammar=GRAMMAR)
    request = StepRequest(prompt, len(prompt), tuple(range(300)), 60)
    means, variances = [], []
    for each in (policy, other):
        lengths = [len(chain[0].ids) for chain in ask(each, request).samples]
        mean = sum(lengths) / len(lengths)
        means.append(mean)
        variances.append(sum((n - mean) ** 2 for n in lengths) / len(lengths) ** 2)
    other.close()
    assert abs(means[0] - means[1]) < 4.5 * sum(variances) ** 0.5


def test_shared_path_comes_from_the_cache(policy: VLLMPolicy, prompt: Ids) -> None:
    path = (prompt * 30)[:130]
    first = ask(policy, StepRequest(path, len(prompt), (1,), 5))
    second = ask(policy, StepRequest((*path, *first.samples[0][0].ids), len(prompt), (2, 3), 5))
    assert first.prompt_tokens == 130
    assert second.cached_tokens >= 2 * 128
    assert second.cached_tokens <= second.prompt_tokens


def test_cancel_during_continuations_leaves_nothing(policy: VLLMPolicy, prompt: Ids) -> None:
    for ticket in range(20):
        policy.propose(ticket, StepRequest(prompt, len(prompt), (ticket, ticket + 1), 150, 5))
    for ticket in range(0, 20, 2):
        policy.collect(wait=False)
        policy.cancel(ticket)
    tickets: list[int] = []
    while finished := policy.collect(wait=True):
        tickets += [proposal.ticket for proposal in finished]
    assert {ticket for ticket in tickets if ticket % 2} == set(range(1, 20, 2))
    assert not policy._lanes
    assert not policy._flights


def test_killed_engine_fails_its_requests_and_says_so(policy: VLLMPolicy, prompt: Ids) -> None:
    """Last, since nothing works afterwards. vLLM's own client waits for ever here."""
    processes = policy._engine.engine_core.resources.engine_manager.processes
    for ticket in (1, 2):
        policy.propose(ticket, StepRequest(prompt, len(prompt), (1, 2), 150, None))
    os.kill(processes[0].pid, signal.SIGKILL)
    finished: list[Proposal] = []
    began = time.perf_counter()
    while more := policy.collect(wait=True):
        finished += more
    assert time.perf_counter() - began < 20
    assert sorted(proposal.ticket for proposal in finished) == [1, 2]
    failed = [proposal.error for proposal in finished if proposal.error is not None]
    assert failed, "both requests were done before the signal came"
    assert all(isinstance(error, PolicyError) and error.retryable for error in failed)
    with pytest.raises(PolicyError, match="has died") as refused:
        policy.propose(3, StepRequest(prompt, len(prompt), (1,), 5))
    assert refused.value.retryable
    assert policy.collect(wait=True) == []
    policy.cancel(1)
