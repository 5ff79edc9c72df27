"""What is decided before a vLLM engine is started."""

from __future__ import annotations

import os
from multiprocessing.spawn import get_preparation_data
from pathlib import Path

import pytest

from treewise.policy.model_folder import open_folder
from treewise.policy.sampling import Sampling, continued_seed
from treewise.policy.vllm_policy import EngineOptions, VLLMPolicy, engine_arguments, prepare_environment, unseen_main
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
        max_num_seqs=7, block_size=64, max_model_len=100, kv_cache_bytes=1 << 28, dtype="bfloat16", enforce_eager=True
    )
    arguments = engine_arguments(options, folder=open_folder(tiny_model))
    wanted = {"max_num_seqs": 7, "block_size": 64, "max_model_len": 100, "kv_cache_memory_bytes": 1 << 28}
    wanted |= {"dtype": "bfloat16", "enforce_eager": True, "logprobs_mode": "processed_logprobs"}
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
