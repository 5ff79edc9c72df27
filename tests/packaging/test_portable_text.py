"""Nothing in the repository depends on the machine it was written on: no absolute paths, no package index but one."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ABSOLUTE = re.compile(r"(?<![\w./:)}\]>*~$%-])/([A-Za-z][\w-]*)/[\w.-]+")
EVERYWHERE = {"bin", "usr", "dev", "proc", "path", "tmp"}
"""First parts of paths that mean the same on every machine, or are an example's."""
INDEX = re.compile(r"(?:index-url|find-links|trusted-host)[\"'=,\s]+(?=\S*[/.])(\S+)")


def texts(repository: Path) -> list[tuple[str, str]]:
    """Return name and text of every UTF-8 file that is tracked, or would be on `git add`."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True).stdout.split("\0")
    found = []
    for name in names:
        path = repository / name
        if name and path.is_file():
            data = path.read_bytes()
            if b"\0" not in data:
                found.append((name, data.decode("utf-8", errors="replace")))
    return found


def absolute_paths(text: str) -> list[str]:
    """Return the absolute paths in a text that do not exist on every machine."""
    return [match.group() for match in ABSOLUTE.finditer(text) if match.group(1) not in EVERYWHERE]


def test_no_path_of_one_machine(repository: Path) -> None:
    found = {name: absolute_paths(text) for name, text in texts(repository) if not name.startswith("tests/")}
    assert {name: paths for name, paths in found.items() if paths} == {}


def test_no_package_index_but_that_of_torch(repository: Path) -> None:
    named = {name: INDEX.findall(text) for name, text in texts(repository) if not name.startswith("tests/")}
    assert {name: hosts for name, hosts in named.items() if hosts} == {}


@pytest.mark.parametrize("text", ["open('/home/me/x.json')", "see /mnt/data.txt", "(/opt/models/a)", "`/srv/x`"])
def test_the_check_sees_a_path(text: str) -> None:
    assert len(absolute_paths(text)) == 1


@pytest.mark.parametrize("text", ["#!/usr/bin/env bash", "https://a.org/b/c", "and/or/not", "../a/b", "build/a/b", "/path/to/x"])
def test_the_check_sees_no_path_in(text: str) -> None:
    assert absolute_paths(text) == []


@pytest.mark.parametrize(
    "text", ["--index-url https://a.org/simple", '["--extra-index-url", "https://a.org"]', "find-links = ../x"]
)
def test_the_check_sees_an_index(text: str) -> None:
    assert len(INDEX.findall(text)) == 1
