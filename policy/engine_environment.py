"""What surrounds the start of engine processes: environment variables, warnings, GPUs, and what the processes import.

It imports no vLLM, and undoes what it does to this process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from treewise.search.types import InputError

_DEVICES = "CUDA_VISIBLE_DEVICES"


def prepare_environment() -> None:
    """Set, where the user has not: no network, no usage statistics, only errors on the terminal. Before vLLM is imported."""
    for name, value in {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        "TORCH_LOGS": "-torch._library.triton",  # says in every process that Triton is missing, which the CPU does not need
    }.items():
        os.environ.setdefault(name, value)


@contextmanager
def quiet_children() -> Iterator[None]:
    """Let processes started inside print no Python warnings, unless the user wants them; vLLM and torch warn of themselves."""
    if "PYTHONWARNINGS" in os.environ:
        yield
        return
    os.environ["PYTHONWARNINGS"] = "ignore"
    try:
        yield
    finally:
        del os.environ["PYTHONWARNINGS"]


@contextmanager
def one_device(device: str | None) -> Iterator[None]:
    """Let processes started inside see one GPU only."""
    if device is None:
        yield
        return
    before = os.environ.get(_DEVICES)
    os.environ[_DEVICES] = device
    try:
        yield
    finally:
        if before is None:
            del os.environ[_DEVICES]
        else:
            os.environ[_DEVICES] = before


def replica_devices(count: int) -> list[str | None]:
    """Return the GPU of each of `count` replicas; no names where there is none. Raises InputError when there are too few."""
    import torch

    visible = torch.cuda.device_count()
    if visible == 0 or count == 1:
        return [None] * count
    if count > visible:
        raise InputError(f"there are {count} replicas for {visible} GPUs", "Give one a GPU at most")
    names = [name for name in os.environ.get(_DEVICES, "").split(",") if name]
    return [names[i] if names else str(i) for i in range(count)]


@contextmanager
def unseen_main() -> Iterator[None]:
    """Keep processes spawned inside from importing the caller's main module again: they need nothing of it.

    What it imports would be loaded in each of them, and vLLM 0.32 does not start on a CPU where numba is loaded: its scan of
    all modules for kernels fails on `llvmlite.binding.ffi.lib`, which answers to every attribute name.
    """
    main = sys.modules["__main__"]
    kept: dict[str, Any] = {name: vars(main)[name] for name in ("__spec__", "__file__") if name in vars(main)}
    vars(main).pop("__file__", None)
    main.__spec__ = None
    try:
        yield
    finally:
        vars(main).update(kept)
