"""What a benchmark writes down can be run again and says how sure it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import benchmarks

BASELINES = sorted((Path(benchmarks.__file__).parent / "baselines").glob("*.json"))
RATES = frozenset({"share", "right", "greedy", "pass@1", "pass@8", "pass@64"})
"""Names of figures that are shares of problems."""


def tables(value: object) -> Iterator[dict[str, object]]:
    """Every object within a JSON value."""
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from tables(item)
    elif isinstance(value, list):
        for item in value:
            yield from tables(item)


def sure(row: dict[str, object]) -> bool:
    """Whether each rate of a row has an interval around it: beside it, or as `[rate, low, high]`."""
    within = [row[name] for name in RATES & row.keys() if isinstance(row[name], list)]
    if within:
        return all(len(rate) == 3 and rate[1] <= rate[0] <= rate[2] for rate in within)
    rate = row.get("percent", row.get("share"))
    low, high = row["interval"]  # type: ignore[misc]
    return low < high if rate is None else low - 1e-9 <= rate <= high + 1e-9  # type: ignore[operator]


@pytest.mark.parametrize("path", BASELINES, ids=lambda path: path.stem)
def test_reports_hold_their_command_seeds_and_intervals(path: Path) -> None:
    """S26: reported accuracies that nobody could reproduce were single runs of unnamed seeds, without an interval."""
    record = json.loads(path.read_text())
    assert record["command"].startswith("python -m benchmarks.")
    rows = [row for row in tables(record) if RATES & row.keys()]
    assert all(sure(row) for row in rows)
    if rows:
        assert any("seed" in name for table in tables(record) for name in table)
