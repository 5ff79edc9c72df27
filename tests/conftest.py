"""What all tests share: no network, a fixed hypothesis profile, the folders that tests read, and tiny random models."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parents[1]

# Set before any test imports a model library: they read these once, at import.
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1")

hypothesis.settings.register_profile(
    "treewise",
    deadline=None,  # the first example of a compiled kernel takes seconds
    derandomize="CI" in os.environ,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("treewise")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `vllm` where vLLM is not installed."""
    if importlib.util.find_spec("vllm") is not None:
        return
    skip = pytest.mark.skip(reason="vLLM is not installed")
    for item in items:
        if item.get_closest_marker("vllm"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture(scope="session")
def reference_cases() -> Path:
    """Folder of the reference cases that are not copied into the repository; skips where it is absent."""
    folder = Path(os.environ.get("TREEWISE_CASES", ROOT.parent / "shared" / "cases"))
    if not folder.is_dir():
        pytest.skip(f"no reference cases in {folder}; TREEWISE_CASES names another folder")
    return folder


def _biased_llama(folder: Path, tokenizer: Any, biases: dict[int, float], *, positions: int) -> Path:
    """Save a random tiny Llama to which some tokens are likelier than others, so that steps and solutions end."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=positions, initializer_range=0.2, tie_word_embeddings=False,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        model.model.embed_tokens.weight.normal_(std=0.5)
        model.model.embed_tokens.weight[:, 0] = 3.0  # the one dimension that always says the same, for the biases
        model.lm_head.weight[:, 0] = 0.0
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight *= 0.3
            layer.mlp.down_proj.weight *= 0.3
            layer.self_attn.o_proj.weight[0] = layer.mlp.down_proj.weight[0] = 0.0
        for token, bias in biases.items():
            model.lm_head.weight[token] *= 0.3
            model.lm_head.weight[token, 0] = bias
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a random tiny Llama with the Countdown vocabulary: steps of about 8 tokens, solutions of about 3 steps."""
    from treewise.training.pretrain import build_tokenizer

    tokenizer = build_tokenizer()
    newline = tokenizer.encode("\n")[0]
    biases = {newline: 2.0, tokenizer.eos_token_id: 1.7}
    return _biased_llama(tmp_path_factory.mktemp("models") / "tiny", tokenizer, biases, positions=256)


@pytest.fixture(scope="session")
def byte_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a byte-level vocabulary in which separators merge with their neighbours, and a special token `<step>`."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=280, max_token_length=4, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<bos>", "<eos>", "<step>"],
    )  # fmt: skip
    core.train_from_iterator(["so x.\n\nso y.\n\n```\n\\boxed{1}.\n" * 20], trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<bos>", eos_token="<eos>")
    biases = {token: 1.6 for token in range(len(tokenizer)) if "\n" in tokenizer.decode([token])}
    biases |= {tokenizer.convert_tokens_to_ids(text): bias for text, bias in (("<eos>", 1.2), ("a", 2.8), ("Ċ", 3.0))}
    return _biased_llama(tmp_path_factory.mktemp("models") / "byte", tokenizer, biases, positions=256)
