"""Compiled code is kept on disk: a second process compiles nothing, also where the package cannot be written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from treewise.search import kernels

SCRIPT = """
import json, sys
sys.path[:0] = sys.argv[1:2]
import types
package = types.ModuleType("treewise"); package.__path__ = [sys.argv[1]]; sys.modules["treewise"] = package
import numba
from treewise.search import kernels, scoring
from treewise.search.rules import Rule
from treewise.search.tree import Tree
assert kernels.__file__.startswith(sys.argv[1]), kernels.__file__
tree = Tree()
tree.add_children(0, [0.6, 0.4])
node = tree.descend(Rule().params())
tree.mark(node)
tree.set_value(node, 0.5)
tree.backup(node, 0.5)
tree.unmark(node)
used = [f for module in (kernels, scoring) for f in vars(module).values() if hasattr(f, "stats") and f.signatures]
hits = sum(sum(f.stats.cache_hits.values()) for f in used)
misses = sum(sum(f.stats.cache_misses.values()) for f in used)
print(json.dumps([hits, misses]))
"""


def run(package: Path, cache: Path) -> tuple[int, int]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "HOME": str(cache)}
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(package)], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    hits, misses = json.loads(done.stdout)
    return hits, misses


@pytest.mark.slow
def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    package = tmp_path / "package"
    shutil.copytree(Path(kernels.__file__).parent, package / "search", ignore=shutil.ignore_patterns("__pycache__"))
    hits, misses = run(package, tmp_path / "home")
    assert hits == 0
    assert misses >= 6
    assert list((package / "search" / "__pycache__").glob("kernels.*.nbi"))
    again, none = run(package, tmp_path / "home")
    assert again >= 6
    assert none == 0


@pytest.mark.slow
def test_code_is_cached_for_the_user_where_the_package_is_read_only(tmp_path: Path) -> None:
    package = tmp_path / "package"
    shutil.copytree(Path(kernels.__file__).parent, package / "search", ignore=shutil.ignore_patterns("__pycache__"))
    (package / "search" / "__pycache__").write_text("a file in place of the folder: nothing can be written here, root or not")
    _, misses = run(package, tmp_path / "home")
    assert misses >= 6
    assert list((tmp_path / "home").rglob("kernels.*.nbi"))
    assert run(package, tmp_path / "home")[1] == 0
