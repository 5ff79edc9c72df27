"""Set up `.venv`: pinned packages, the project itself (editable), and a stamp that says which pins are in.

Knows: which requirement files a machine needs (an NVIDIA GPU or none) and where CPU builds of torch are published.
Does not know: what the packages are for. Uses the standard library only, since it runs before anything is installed.
Called by the Makefile, whose stamp name is a hash of the requirement files and of pyproject.toml:
    python3 requirements/install.py .venv/.installed-HASH
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

PYTHONS = ((3, 11), (3, 13))
"""Oldest and newest Python, both included: numba and vLLM have no builds outside."""
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
STAMP_PREFIX = ".installed-"

Pip = Callable[[Sequence[str]], bool]
"""Runs `pip install` with these arguments; says whether it succeeded."""


class SetupError(Exception):
    """The set-up cannot go on; the message says what to do."""


def check_python(version: tuple[int, int]) -> None:
    """Raise SetupError unless the Python version is one that all pins have builds for."""
    oldest, newest = PYTHONS
    if not oldest <= version <= newest:
        found, span = (".".join(map(str, version)), " to ".join(f"{a}.{b}" for a, b in PYTHONS))
        raise SetupError(f"Python {found} was found, but Treewise needs {span}. Name one: make PYTHON=/path/to/python3.12 ...")


def find_gpu() -> bool:
    """Say whether the NVIDIA driver lists a GPU."""
    if shutil.which("nvidia-smi") is None:
        return False
    listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return listing.returncode == 0 and "GPU 0" in listing.stdout


def find_pin(requirements: str, name: str) -> str:
    """Return the line `name==version` of a requirements file's text. Raises SetupError when there is none."""
    for line in requirements.splitlines():
        if line.partition("==")[0].strip() == name:
            return line.strip()
    raise SetupError(f"no line {name}==... among the requirements")


def make_environment(folder: Path) -> Path:
    """Return the interpreter of the virtual environment in `folder`, made anew if it is missing or broken.

    Raises SetupError when this Python cannot make one.
    """
    python = folder / "bin" / "python"
    low, high = PYTHONS
    probe = f"import pip, sys; sys.exit(not {low} <= sys.version_info[:2] <= {high})"
    if python.exists() and subprocess.run([python, "-c", probe], capture_output=True, check=False).returncode == 0:
        return python
    try:
        venv.create(folder, clear=True, with_pip=True)
    except (subprocess.CalledProcessError, OSError) as error:
        raise SetupError(f"could not make {folder} ({error}). On Debian and Ubuntu: apt-get install python3-venv") from error
    return python


def install_packages(pip: Pip, requirements: Path, *, gpu: bool) -> None:
    """Install the pins of `requirements` (a folder), then the package in the folder above it.

    Raises SetupError naming the step that failed.
    """
    if gpu:
        run_step(pip, ["-r", str(requirements / "gpu.txt")], "vLLM for NVIDIA GPUs")
    else:
        pins = requirements / "cpu.txt"
        torch = find_pin(pins.read_text(encoding="utf-8"), "torch")
        print(f"--- {torch}", flush=True)
        if not pip(["--no-deps", torch]):
            print(f"\nThis package index has no {torch}; taking it from PyTorch's own ({TORCH_CPU_INDEX}).", flush=True)
            run_step(pip, ["--no-deps", "--index-url", TORCH_CPU_INDEX, torch], "torch for CPUs")
        run_step(pip, ["--no-deps", "-r", str(pins)], "vLLM for CPUs")
    run_step(pip, ["--no-deps", "-r", str(requirements / "dev.txt")], "test tools")
    run_step(pip, ["--no-deps", "--no-build-isolation", "-e", str(requirements.parent)], "Treewise itself")


def run_step(pip: Pip, arguments: Sequence[str], what: str) -> None:
    """Install, or raise SetupError naming the step."""
    print(f"--- {what}", flush=True)
    if not pip(arguments):
        raise SetupError(f"installing {what} failed (pip's message is above). What is installed stays: call make again to go on")


def set_up(stamp: Path) -> None:
    """Install everything into the folder of `stamp`, then write `stamp`. Raises SetupError."""
    check_python(sys.version_info[:2])
    if sys.platform != "linux":
        raise SetupError(f"vLLM has no builds for {sys.platform}. Use Linux, or `pip install .` for the transformers policy")
    print(f"Setting up {stamp.parent}: about 3.5 GB (more with a GPU) and a few minutes, once.", flush=True)
    python = make_environment(stamp.parent)
    for old in stamp.parent.glob(f"{STAMP_PREFIX}*"):
        old.unlink()

    def pip(arguments: Sequence[str]) -> bool:
        command = [
            str(python),
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--quiet",
            "--progress-bar",
            "off",
            *arguments,
        ]
        return subprocess.run(command, check=False).returncode == 0

    install_packages(pip, Path(__file__).resolve().parent, gpu=find_gpu())
    stamp.touch()


def main() -> int:
    """Set up for the stamp named on the command line; return the exit status."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).name.startswith(STAMP_PREFIX):
        print(f"usage: python3 requirements/install.py FOLDER/{STAMP_PREFIX}HASH (the Makefile does it)", file=sys.stderr)
        return 2
    try:
        set_up(Path(sys.argv[1]).absolute())
    except SetupError as error:
        print(f"set-up: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
