"""The comparison on scripted worlds: figures by closed form, hard budgets, the same rows again, and what is written."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.methods_worlds import Arguments, main, measure, merged, parse_method, table
from benchmarks.worlds import WORLDS, WorldServer
from treewise.search.methods import METHODS
from treewise.search.types import InputError

TIMED = ("wall_seconds",)


@pytest.fixture(scope="module")
def server() -> Iterator[WorldServer]:
    with WorldServer(inline=True) as made:
        yield made


def row(server: WorldServer, method: str, world: str, *, budget: int = 48, seeds: int = 4, **spec: float) -> dict[str, Any]:
    made = replace(WORLDS[world], **spec)
    found = measure(server, made, parse_method(method), budget=budget, seeds=range(seeds), concurrency=4)
    return {name: value for name, value in found.items() if name not in TIMED}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("method", METHODS)
def test_budgets_are_kept_and_runs_repeat(server: WorldServer, method: str, world: str) -> None:
    first = row(server, method, world)  # passes no budget, or it raises
    assert 1 <= first["steps"] <= 48
    assert first["unfinished"] == 0
    assert first["right"] <= first["found_percent"] * 4 / 100 + 1e-9
    assert row(server, method, world) == first


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("success", [0.0, 1.0])
def test_where_nothing_or_everything_is_right(server: WorldServer, method: str, success: float) -> None:
    assert row(server, method, "clean", success=success)["percent"] == 100 * success


def test_the_share_found_by_drawing_whole_solutions(server: WorldServer) -> None:
    share = 0.8**8
    greedy = row(server, "greedy", "clean", seeds=400, success=0.8)
    assert abs(greedy["right"] / 400 - share) < 4 * math.sqrt(share * (1 - share) / 400)
    assert (greedy["steps"], greedy["rounds"]) == (8, 1)
    found = 1 - (1 - share) ** 6
    drawn = row(server, "best-of-n:prune=false", "clean", seeds=400, success=0.8)  # 48 steps are 6 solutions
    assert drawn["steps"] == 48
    assert abs(drawn["found_percent"] / 100 - found) < 4 * math.sqrt(found * (1 - found) / 400)


def test_time_and_idle_share_of_one_solution(server: WorldServer) -> None:
    found = row(server, "greedy", "clean", seeds=1)
    passes, reading = 8 * 0.0202, 0.0216
    assert found["policy_idle"] == pytest.approx(reading / (passes + reading))
    assert (found["samples_a_pass"], found["paths_a_reading"]) == (1, 8)
    assert found["seconds"] == pytest.approx(passes + reading)
    assert found["problems_per_second"] == pytest.approx(1 / (passes + reading))


def test_methods_take_settings() -> None:
    settings = parse_method("mcts:lanes=1,backup=max,exploration=0.5,prune=false")
    assert (settings.lanes, settings.backup, settings.exploration, settings.prune) == (1, "max", 0.5, False)
    assert parse_method("best-of-n:samples=3").samples == 3


@pytest.mark.parametrize(("word", "part"), [("nothing", "'nothing'"), ("mcts:depth=3", "depth"), ("mcts:lanes=0", "lanes")])
def test_settings_that_do_not_exist_are_refused(word: str, part: str) -> None:
    with pytest.raises(InputError, match=part):
        parse_method(word)


def test_rows_measured_before_are_kept(tmp_path: Path) -> None:
    output = tmp_path / "rows.json"
    arguments = Arguments(("greedy",), ("clean", "both"), (16,), seeds=2, first_seed=5, output=output)
    main(arguments)
    before = json.loads(output.read_text())["rows"]
    assert [(r["world"], r["seeds"], r["first_seed"]) for r in before] == [("clean", 2, 5), ("both", 2, 5)]
    main(replace(arguments, worlds=("both", "noisy")))
    after = json.loads(output.read_text())["rows"]
    assert [r["world"] for r in after] == ["clean", "both", "noisy"]
    assert after[0] == before[0]
    with pytest.raises(InputError, match="nowhere"):
        main(replace(arguments, worlds=("nowhere",)))


def test_a_new_row_replaces_its_like_only() -> None:
    old = [{"method": "a", "world": w, "budget": 8, "first_seed": 0, "seeds": 2, "right": 0} for w in ("x", "y")]
    new = old[1] | {"right": 2}
    tuned = old[0] | {"first_seed": 9, "right": 1}
    assert merged(old, [new, tuned]) == [old[0], new, tuned]


def test_the_table_has_a_column_a_world(server: WorldServer) -> None:
    rows = [
        {"method": "greedy", "world": world, "budget": budget, **row(server, "greedy", world, success=1.0)}
        for budget in (48, 64)
        for world in ("clean", "both")
    ]
    lines = table([*rows, rows[0] | {"method": "other", "unfinished": 3}]).splitlines()
    assert [line for line in lines if line.startswith("| method")] == ["| method | clean | both |"] * 2
    assert "| greedy | 100.0 (51 to 100), 1 r, 8 s | 100.0 (51 to 100), 1 r, 8 s |" in lines
    assert "| other | 100.0 (51 to 100), 1 r, 8 s *3 |  |" in lines
