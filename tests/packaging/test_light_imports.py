"""`treewise.search` stays light, and importing any package does no heavy work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "transformers", "tokenizers", "safetensors", "vllm", "ray")


def loaded_by(modules: list[str]) -> set[str]:
    """Return the top-level modules that importing `modules` loads in a fresh process."""
    code = (
        f"import sys, json, importlib; [importlib.import_module(m) for m in {modules!r}]; print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


def test_search_loads_no_model_library(repository: Path) -> None:
    modules = ["treewise.search", *(f"treewise.search.{path.stem}" for path in repository.glob("search/[!_]*.py"))]
    assert "treewise.search.types" in modules
    assert loaded_by(modules).isdisjoint(HEAVY)


@pytest.mark.parametrize("package", ["policy", "value", "training", "app"])
def test_package_itself_loads_no_model_library(package: str) -> None:
    assert loaded_by([f"treewise.{package}"]).isdisjoint(HEAVY)


def test_the_check_sees_a_heavy_import() -> None:
    assert "safetensors" in loaded_by(["safetensors"])
