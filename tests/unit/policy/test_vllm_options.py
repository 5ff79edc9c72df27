"""What is decided before a vLLM engine is started."""

from __future__ import annotations

import os
from dataclasses import replace
from multiprocessing.spawn import get_preparation_data
from pathlib import Path

import pytest
import torch

from treewise.policy.engine_environment import one_device, prepare_environment, replica_devices, unseen_main
from treewise.policy.model_folder import open_folder
from treewise.policy.sampling import Sampling, continued_seed
from treewise.policy.vllm_policy import EngineOptions, VLLMPolicy, engine_arguments
from treewise.search.types import InputError, ModelNotFound, StepGrammar


def test_environment_of_the_user_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "DEBUG")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    prepare_environment()
    assert os.environ["VLLM_LOGGING_LEVEL"] == "DEBUG"
    assert os.environ["HF_HUB_OFFLINE"] == "1"


def test_engine_processes_do_not_import_the_callers_script() -> None:
    """With numba loaded in its processes vLLM 0.32 does not start, and a script need not be guarded."""
    before = get_preparation_data("engine")
    with unseen_main():
        inside = get_preparation_data("engine")
    assert not any(name.startswith("init_main") for name in inside)
    assert get_preparation_data("engine") == before
    assert any(name.startswith("init_main") for name in before)


def test_one_device_is_seen_by_what_is_started_inside_and_by_nothing_later(monkeypatch: pytest.MonkeyPatch) -> None:
    for before in (None, "0,1,2"):
        if before is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", before)
        with one_device("2"):
            assert os.environ["CUDA_VISIBLE_DEVICES"] == "2"
        with one_device(None):
            assert os.environ.get("CUDA_VISIBLE_DEVICES") == before
        assert os.environ.get("CUDA_VISIBLE_DEVICES") == before


def test_replicas_get_a_gpu_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert replica_devices(1) == [None]
    assert replica_devices(3) == ["0", "1", "2"]
    with pytest.raises(InputError, match="4 replicas for 3 GPUs"):
        replica_devices(4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,GPU-7,6")
    assert replica_devices(2) == ["5", "GPU-7"]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert replica_devices(2) == [None, None]


@pytest.mark.vllm
@pytest.mark.parametrize(
    ("stored", "has_bfloat16", "asked", "computed"),
    [
        ("float32", True, "auto", "float32"),
        ("bfloat16", False, "auto", "float32"),
        ("bfloat16", True, "auto", "auto"),
        ("float16", False, "bfloat16", "bfloat16"),
        ("float32", True, "bfloat16", "bfloat16"),
    ],
)
def test_a_cpu_computes_in_float32_where_bfloat16_would_be_emulated(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, stored: str, has_bfloat16: bool, asked: str, computed: str
) -> None:
    """vLLM's own `auto` rounds float32 to bfloat16; what the user asks for is never changed."""
    engine_arguments(EngineOptions(), folder=open_folder(tiny_model))  # imports vLLM, which must find torch as it is
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: has_bfloat16)
    folder = replace(open_folder(tiny_model), dtype=stored)
    assert engine_arguments(EngineOptions(dtype=asked), folder=folder)["dtype"] == computed


@pytest.mark.parametrize("field", ["max_num_seqs", "max_model_len"])
def test_option_out_of_range_is_named(tiny_model: Path, field: str) -> None:
    with pytest.raises(InputError, match=field):
        engine_arguments(EngineOptions(**{field: 0 if field == "max_num_seqs" else 257}), folder=open_folder(tiny_model))


def test_bad_input_is_refused_before_the_engine_starts(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound):
        VLLMPolicy(tmp_path / "none", grammar=StepGrammar())
    with pytest.raises(InputError, match="temperature"):
        VLLMPolicy(tiny_model, grammar=StepGrammar(), temperature=-1.0)
    with pytest.raises(InputError, match="minimum_lines"):
        VLLMPolicy(tiny_model, grammar=StepGrammar(minimum_lines=0))


@pytest.mark.vllm
def test_every_option_reaches_the_engine(tiny_model: Path) -> None:
    options = EngineOptions(
        max_num_seqs=7,
        block_size=64,
        max_model_len=100,
        kv_cache_bytes=1 << 28,
        dtype="bfloat16",
        enforce_eager=True,
        log_stats=True,
    )
    arguments = engine_arguments(options, folder=open_folder(tiny_model))
    wanted = {"max_num_seqs": 7, "block_size": 64, "max_model_len": 100, "kv_cache_memory_bytes": 1 << 28}
    wanted |= {"dtype": "bfloat16", "enforce_eager": True, "logprobs_mode": "processed_logprobs", "disable_log_stats": False}
    assert arguments.items() >= wanted.items()


BAD = [(-0.1, 1.0), (0.001, 1.0), (11.0, 1.0), (float("nan"), 1.0), (1.0, 0.0), (1.0, 1.1)]


@pytest.mark.parametrize(("temperature", "top_p"), BAD)
def test_sampling_out_of_range(temperature: float, top_p: float) -> None:
    with pytest.raises(InputError, match="top_p" if temperature == 1.0 else "temperature"):
        Sampling(temperature=temperature, top_p=top_p)


def test_continuations_draw_anew_and_the_first_tokens_by_the_seed() -> None:
    seeds = [continued_seed(5, position) for position in range(100)]
    assert seeds[0] == 5
    assert len(set(seeds)) == 100
    assert all(0 <= seed < 1 << 63 for seed in seeds)
