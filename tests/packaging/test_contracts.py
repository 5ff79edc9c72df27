"""The import contracts hold, and each of them breaks when it should."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = ("search", "policy", "value", "training", "app")

Run = subprocess.CompletedProcess[str]


def lint_imports(copy: Path) -> Run:
    """Check the contracts on the copy in `copy/treewise`, which hides the installed package."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()", "--no-cache", "--no-logo"]
    environment = {**os.environ, "PYTHONPATH": str(copy), "COLUMNS": "200"}
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(repository: Path, tmp_path: Path) -> Path:
    """A folder with pyproject.toml and the five packages in `treewise/`."""
    for package in PACKAGES:
        shutil.copytree(
            repository / package, tmp_path / "treewise" / package, ignore=shutil.ignore_patterns("__pycache__", "embedded")
        )
    shutil.copyfile(repository / "pyproject.toml", tmp_path / "pyproject.toml")
    return tmp_path


def test_contracts_hold(copy: Path) -> None:
    run = lint_imports(copy)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "0 broken" in run.stdout


@pytest.mark.parametrize(
    ("contract", "file", "line"),
    [
        ("app above training", "search/bad.py", "import treewise.value.countdown"),
        ("app above training", "policy/bad.py", "from treewise.value import countdown"),
        ("app above training", "value/bad.py", "import treewise.policy"),
        ("app above training", "value/bad.py", "from treewise import app"),
        ("training knows policies", "training/bad.py", "def late() -> None:\n    import treewise.policy"),
        ("search needs no model library", "search/bad.py", "import torch.nn"),
        ("search needs no model library", "search/bad.py", "def late() -> None:\n    from vllm import LLM"),
        ("pyarrow and networkx stay", "search/bad.py", "import pyarrow.parquet"),
        ("pyarrow and networkx stay", "search/bad.py", "import networkx"),
        ("vllm is imported in one file", "policy/bad.py", "def late() -> None:\n    import vllm"),
        ("vllm is imported in one file", "app/bad.py", "from vllm.config import VllmConfig"),
        ("the exhaustive Countdown solver", "app/bad.py", "from treewise.value.countdown_solver import solve"),
        ("the exhaustive Countdown solver", "training/bad.py", "from treewise.value import countdown_solver"),
    ],
)
def test_contract_breaks_on_a_bad_import(copy: Path, contract: str, file: str, line: str) -> None:
    (copy / "treewise" / file).write_text(f"{line}\n", encoding="utf-8")
    run = lint_imports(copy)
    assert run.returncode == 1, run.stdout + run.stderr
    broken = [text for text in run.stdout.splitlines() if " BROKEN" in text]
    assert any(contract in text for text in broken), run.stdout


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("training/improve.py", "from treewise.policy import prompts"),
        ("policy/vllm_policy.py", "import vllm"),
        ("search/graph.py", "import networkx"),
    ],
)
def test_named_exceptions_are_allowed(copy: Path, file: str, line: str) -> None:
    with (copy / "treewise" / file).open("a", encoding="utf-8") as module:
        module.write(f"\n{line}\n")
    (copy / "treewise/policy/prompts.py").touch()
    run = lint_imports(copy)
    assert run.returncode == 0, run.stdout
