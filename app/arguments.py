"""Command line and TOML file to `SolveOptions`, and back to TOML.

The values of a file are put before the command line's as if they had been typed, so both go through one parser and one
check, and the last one wins. This file knows no single option.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

import tyro

from treewise.app.config import FlatSolveOptions, SolveOptions
from treewise.search.types import InputError, Scalar

SOURCES = frozenset({"text", "problems", "generate", "numbers", "split"})
"""A source on the command line replaces all of these that a file gives."""


def parse_solve(arguments: Sequence[str]) -> SolveOptions:
    """Return checked options with the default budget filled in.

    Raises InputError for values out of range and for unusable files; SystemExit (0 or 2) after help or a usage error has
    been printed.
    """
    path = _config_path(arguments)
    if path is None:
        return _parse(arguments).resolved()
    values = read_toml(path)
    try:
        options = _parse([*_as_arguments(values, path=path), *arguments])
        if len(options.source.given()) > 1 and SOURCES & values.keys():
            kept = {name: value for name, value in values.items() if name not in SOURCES}
            fewer = _parse([*_as_arguments(kept, path=path), *arguments])
            options = fewer if fewer.source.given() else options
    except SystemExit as end:
        if end.code:
            print(f"treewise: options were also read from {path}", file=sys.stderr)
        raise
    return options.resolved()


def read_toml(path: str) -> dict[str, Scalar]:
    """Return the options in a TOML file, hyphens in names read as underscores.

    Raises InputError naming the file and the key.
    """
    try:
        with open(path, "rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise InputError(f"config {path!r} cannot be read: {error.strerror}", "check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"config {path!r} is not TOML: {error}", "correct it there") from error
    known = SolveOptions().flat().keys() - {"config"}
    values: dict[str, Scalar] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise InputError(
                f"config {path!r} has an unknown key {key!r}",
                f"did you mean {near[0]!r}?" if near else "see treewise solve --help",
            )
        if not isinstance(value, str | int | float | bool):
            raise InputError(f"config {path!r}: {key} is {value!r}", "give one string, number or boolean")
        if isinstance(value, str) and "\0" in value:
            raise InputError(f"config {path!r}: {key} holds a NUL character", "remove it")
        values[name] = value
    return values


def to_toml(values: Mapping[str, Scalar]) -> str:
    """Return options as TOML text that `read_toml` reads back; None is left out.

    >>> print(to_toml({"width": 2, "output": None, "model": 'a "b"', "prune": True}), end="")
    width = 2
    model = "a \\"b\\""
    prune = true
    """
    return "".join(f"{name} = {_toml_value(value)}\n" for name, value in values.items() if value is not None)


def _toml_value(value: str | int | float | bool) -> str:
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _parse(arguments: Sequence[str]) -> SolveOptions:
    options: SolveOptions = tyro.cli(FlatSolveOptions, prog="treewise solve", args=list(arguments))
    return options


def _config_path(arguments: Sequence[str]) -> str | None:
    found = None
    for k, word in enumerate(arguments):
        if word == "--":
            break
        if word.startswith("--config="):
            found = word.removeprefix("--config=")
        elif word == "--config" and k + 1 < len(arguments):
            found = arguments[k + 1]
    return found


def _as_arguments(values: Mapping[str, Scalar], *, path: str) -> list[str]:
    words = []
    defaults = SolveOptions().flat()
    for name, value in values.items():
        option = name.replace("_", "-")
        if isinstance(value, bool) != isinstance(defaults[name], bool):
            wanted = "true or false" if isinstance(defaults[name], bool) else "a number or text"
            raise InputError(f"config {path!r}: {name} is {value!r}", f"give {wanted}")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        elif name == "text":
            words.append(str(value))
        else:
            words.append(f"--{option}={value}")
    return words
