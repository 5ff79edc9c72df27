"""Options of the transformers policy, each shown to matter; what all policies promise is in tests/contract."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from treewise.policy.transformers_policy import TransformersPolicy, nucleus
from treewise.search.types import Finish, Ids, InputError, PolicyError, Prompt, StepGrammar, StepRequest

PROMPT = Prompt((), "numbers 22 16 13 target 25\n")
NONE = StepGrammar(separators=())


def sample_ids(policy: TransformersPolicy, *seeds: int, tokens: int = 20) -> list[Ids]:
    ids = policy.encode(PROMPT)
    policy.propose(0, StepRequest(ids, len(ids), seeds, tokens, None))
    (proposal,) = policy.collect(wait=True)
    return [tuple(i for step in chain for i in step.ids) for chain in proposal.samples]


def test_nucleus_by_hand() -> None:
    """0.5, 0.3, 0.2: the first two reach 0.7, so the third goes and 0.8 is left."""
    logprobs = torch.tensor([[0.2, 0.5, 0.3]]).log()
    kept = nucleus(logprobs, 0.7).exp()[0].tolist()
    assert kept == pytest.approx([0.0, 0.5 / 0.8, 0.3 / 0.8], abs=1e-6)
    assert nucleus(logprobs, 0.49).exp()[0].tolist() == pytest.approx([0.0, 1.0, 0.0])
    assert nucleus(logprobs, 1.0) is logprobs


def test_top_p_keeps_every_token_in_the_nucleus(tiny_model: Path) -> None:
    policy = TransformersPolicy(tiny_model, grammar=NONE, top_p=0.3)
    ids = policy.encode(PROMPT)
    model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    probabilities = model(torch.tensor([ids])).logits[0, -1].softmax(-1).sort(descending=True)
    size = int((probabilities.values.cumsum(0) < 0.3).sum()) + 1
    allowed = set(probabilities.indices[:size].tolist())
    drawn = {sample[0] for sample in sample_ids(policy, *range(200), tokens=1)}
    assert drawn <= allowed
    assert len(drawn) > 1


def test_temperature_zero_takes_the_most_likely_and_keeps_the_models_log_probabilities(tiny_model: Path) -> None:
    policy = TransformersPolicy(tiny_model, grammar=NONE, temperature=0.0)
    prompt = policy.encode(PROMPT)
    policy.propose(0, StepRequest(prompt, len(prompt), (1, 2), 12, None))
    one, two = policy.collect(wait=True)[0].samples
    assert one[0].ids == two[0].ids
    model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    ids = list(prompt)
    for token, logprob in zip(one[0].ids, one[0].logprobs, strict=True):
        logits = model(torch.tensor([ids])).logits[0, -1].detach()
        assert token == int(logits.argmax())
        assert logprob == pytest.approx(float(logits.log_softmax(-1)[token]), abs=1e-4)
        ids.append(token)


def test_requests_beyond_the_batch_wait_for_the_next(tiny_model: Path) -> None:
    policy = TransformersPolicy(tiny_model, grammar=StepGrammar(), max_batch=4)
    ids = policy.encode(PROMPT)
    for ticket, width in enumerate((2, 2, 1, 9)):
        policy.propose(ticket, StepRequest(ids, len(ids), tuple(range(width)), 3))
    batches = []
    while finished := policy.collect(wait=True):
        batches.append([proposal.ticket for proposal in finished])
    assert batches == [[0, 1], [2], [3]]


def test_dtype_reaches_the_model_and_the_fingerprint(tiny_model: Path) -> None:
    half = TransformersPolicy(tiny_model, grammar=StepGrammar(), dtype="bfloat16")
    assert '"bfloat16"' in half.fingerprint
    assert half.fingerprint != TransformersPolicy(tiny_model, grammar=StepGrammar()).fingerprint


@pytest.mark.parametrize(
    ("options", "named"),
    [({"dtype": "float33"}, "float33"), ({"max_batch": 0}, "max_batch"), ({"max_model_len": 257}, "max_model_len")],
)
def test_option_out_of_range_is_named(tiny_model: Path, options: dict[str, int | str], named: str) -> None:
    with pytest.raises(InputError, match=named):
        TransformersPolicy(tiny_model, grammar=StepGrammar(), **options)  # type: ignore[arg-type]


def test_max_model_len_is_the_context(tiny_model: Path) -> None:
    assert TransformersPolicy(tiny_model, grammar=StepGrammar(), max_model_len=40).context_length == 40


def test_broken_weights_are_a_policy_error(tiny_model: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_model, tmp_path / "broken"))
    (folder / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(PolicyError, match="cannot be loaded"):
        TransformersPolicy(folder, grammar=StepGrammar())


def test_failure_of_the_model_fails_its_batch_only(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch reports a lack of memory as RuntimeError."""
    policy = TransformersPolicy(tiny_model, grammar=StepGrammar())
    ids = policy.encode(PROMPT)
    with monkeypatch.context() as patched:
        patched.setattr(policy._model, "forward", lambda *_, **__: (_ for _ in ()).throw(RuntimeError("out of memory")))
        policy.propose(1, StepRequest(ids, len(ids), (0,), 3))
        (failed,) = policy.collect(wait=True)
    assert isinstance(failed.error, PolicyError)
    assert failed.error.retryable
    assert "out of memory" in str(failed.error)
    policy.propose(2, StepRequest(ids, len(ids), (0,), 3))
    assert policy.collect(wait=True)[0].error is None


def test_certain_tokens_have_log_probability_zero(tiny_model: Path) -> None:
    """A nucleus of one token leaves no choice: what is recorded is the distribution that was drawn from."""
    policy = TransformersPolicy(tiny_model, grammar=NONE, top_p=1e-9)
    ids = policy.encode(PROMPT)
    policy.propose(0, StepRequest(ids, len(ids), (5,), 6, None))
    ((step,),) = policy.collect(wait=True)[0].samples
    assert all(math.isclose(value, 0.0, abs_tol=1e-6) for value in step.logprobs)
    assert step.finish in (Finish.LENGTH, Finish.END)
