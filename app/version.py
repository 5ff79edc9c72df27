"""The version of the installed package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def library_version() -> str:
    """Return the installed version, or "0+source" when the code runs without being installed."""
    try:
        return version("treewise")
    except PackageNotFoundError:
        return "0+source"
