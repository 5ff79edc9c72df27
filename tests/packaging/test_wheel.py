"""The wheel: what is in it, and that it works where nothing but the wheel is."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

PACKAGES = ("search", "policy", "value", "training", "app")
MODEL_FILES = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "training.json")


def list_sources(repository: Path) -> list[str]:
    """Return the five packages' files that are tracked, or would be on `git add`; those deleted are left out."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", *PACKAGES]
    listing = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True).stdout
    return sorted(name for name in listing.split("\0") if name and (repository / name).is_file())


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the sources, so that nothing of an earlier build can be in it."""
    copy = tmp_path_factory.mktemp("sources")
    for name in [*list_sources(repository), "pyproject.toml", "README.md", "LICENSE"]:
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(repository / name, target)
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(copy)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = out.glob("treewise-*.whl")
    return path


@pytest.fixture(scope="module")
def empty_environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment with the wheel alone; its dependencies are read from the running one."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    command = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", str(wheel)]
    subprocess.run(command, check=True)
    site = Path(
        subprocess.run(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, text=True, check=True
        ).stdout.strip()
    )
    # A path line, not `site.addsitedir`: the running environment's own .pth files, and so its editable Treewise, stay out.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder / "bin"


def run_outside(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command from a folder outside the repository, without the caller's Python settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True, check=False, timeout=300)


def test_wheel_holds_exactly_the_sources(wheel: Path, repository: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    code = sorted(name for name in names if ".dist-info/" not in name)
    assert code == sorted(f"treewise/{name}" for name in list_sources(repository))


def test_wheel_has_only_the_namespace_at_its_top(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"treewise", "treewise-0.1.0.dist-info"}
    assert "treewise/__init__.py" not in names
    assert {f"treewise/{package}/py.typed" for package in PACKAGES} <= set(names)


def test_wheel_carries_the_embedded_model(wheel: Path, repository: Path) -> None:
    if not (repository / "policy/embedded/countdown/model.safetensors").exists():
        pytest.skip("the embedded model is not in this checkout")
    inside = set(zipfile.ZipFile(wheel).namelist())
    missing = [name for name in MODEL_FILES if f"treewise/policy/embedded/countdown/{name}" not in inside]
    assert not missing
    assert wheel.stat().st_size < 10_000_000


def test_metadata_leaves_vllm_to_the_extras(wheel: Path) -> None:
    metadata = zipfile.ZipFile(wheel).read("treewise-0.1.0.dist-info/METADATA").decode()
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:")]
    assert any("numba" in line for line in required)
    assert [line for line in required if "vllm" in line and "extra ==" not in line] == []
    assert "Requires-Python: <3.14,>=3.11" in metadata


@pytest.mark.parametrize("package", PACKAGES)
def test_no_bare_package_is_installed(empty_environment: Path, tmp_path: Path, package: str) -> None:
    python = str(empty_environment / "python")
    found = run_outside([python, "-c", f"import treewise.{package} as p; print(p.__file__)"], tmp_path)
    assert found.returncode == 0, found.stderr
    assert str(empty_environment.parent) in found.stdout
    bare = run_outside([python, "-c", f"import {package}"], tmp_path)
    assert f"No module named '{package}'" in bare.stderr


@pytest.mark.slow
def test_installed_command_solves_from_another_folder(empty_environment: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("treewise.app.main") is None:
        pytest.skip("the command line is not in this checkout")
    rows = [{"id": "a", "numbers": [3, 8, 5], "target": 29}, {"id": "b", "numbers": [2, 4, 6], "target": 48}]
    problems = tmp_path / "problems.jsonl"
    problems.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    command = "solve --task countdown --policy transformers --method mcts --simulations 8 --tokens 400 --seed 0 --json --problems"
    solved = run_outside([str(empty_environment / "treewise"), *command.split(), str(problems)], tmp_path)
    assert solved.returncode == 0, solved.stderr
    lines = [json.loads(line) for line in solved.stdout.splitlines()]
    assert sorted(line["id"] for line in lines) == ["a", "b"]
    for line in lines:
        assert line["finished"] == (line["answer"] is not None)
        assert 0 < line["bill"]["policy_tokens"] <= 400
