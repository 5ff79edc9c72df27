"""What all tests share: no network, a fixed hypothesis profile, and the folders that tests read."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

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
