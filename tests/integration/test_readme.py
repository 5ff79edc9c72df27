"""S37: what the README shows runs, offline, on the embedded model."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def test_the_python_example_runs_and_prints_a_line_a_problem(repository: Path, tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (repository / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 8
    assert all(" -> " in line and "Bill(policy_tokens=" in line for line in lines)


def test_the_options_it_names_exist(repository: Path) -> None:
    text = (repository / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?<=[\s`])--[a-z][a-z-]+", text))
    shown = subprocess.run(
        [sys.executable, "-m", "treewise.app.main", "solve", "--help"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    assert named
    assert [option for option in sorted(named) if option not in shown] == []
