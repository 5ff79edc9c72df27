"""The harness of the peers on the scripted worlds; the adapters themselves where a peer's environment is there."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peer_knobs import METHODS, PEERS, Method, Options, _knobs
from benchmarks.peers_worlds import ROOT, WORLDS, Record, goodness, run_peer, trials_of

FINISHING: dict[str, Options] = {
    "treequest ab-mcts-a": {"rollout": "yes", "best": "finished"},
    "treequest mcts": {"best": "finished", "exploration": 0.15},
    "crucible-ttc mcts": {"exploration": 0.15, "expansions": 2},
}
"""What methods need that do not finish a chain by default."""

TOY = Method("toy", "toy", _knobs(a=(1, 2, 3), b=("x", "y"), c=(0.1, 0.2, 0.3)))


def tried(trials: int, score: Any) -> list[Options]:
    return list(trials_of(TOY, trials, score))


def test_tuning_starts_at_the_default_and_repeats_nothing() -> None:
    found = tried(12, lambda options: 0.0)
    assert found[0] == TOY.defaults() == {"a": 1, "b": "x", "c": 0.1}
    assert len(found) == len({json.dumps(options) for options in found}) == 1 + 2 + 1 + 2


def test_tuning_finds_the_best_where_the_knobs_are_independent() -> None:
    def score(options: Options) -> float:
        return float(options["a"] == 2) + float(options["b"] == "y") + float(options["c"] == 0.3)

    assert max(tried(12, score), key=score) == {"a": 2, "b": "y", "c": 0.3}


def test_tuning_turns_again_while_something_helps() -> None:
    """a = 3 helps only once b is "y", which is tried after a."""

    def score(options: Options) -> float:
        return float(options["b"] == "y") + float(options["b"] == "y" and options["a"] == 3)

    assert {"a": 3, "b": "y", "c": 0.1} in tried(12, score)


@pytest.mark.parametrize("trials", [1, 3, 5])
def test_tuning_ends_in_time(trials: int) -> None:
    assert len(tried(trials, lambda options: 0.0)) == trials


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.title)
def test_every_method_belongs_to_a_peer_and_is_tuned_in_few_trials(method: Method) -> None:
    assert method.peer in PEERS
    assert all(len(set(values)) == len(values) >= 1 for values in method.knobs.values())
    assert all(changes.keys() <= method.knobs.keys() for changes in method.extra.values())


def test_right_answers_count_before_unfinished_ones() -> None:
    def rows(right: int, unfinished: int) -> dict[str, dict[str, Any]]:
        return {world: {"right": right, "unfinished": unfinished, "searches": 60} for world in WORLDS}

    assert goodness(rows(10, 0)) > goodness(rows(10, 5)) > goodness(rows(9, 0))


def test_the_record_is_found_again_and_told_apart_by_what_was_asked(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    method = METHODS[0]
    asked = {"peer": method.peer, "method": method.name, "options": method.defaults(), "budget": 128, "seeds": 3}
    Record(path, fresh=False).add([asked | {"world": "clean", "right": 2}])
    again = Record(path, fresh=False)
    assert [row["right"] for row in again.find(asked)] == [2]
    assert again.find(asked | {"budget": 512}) == []
    assert Record(path, fresh=True).rows == []


def interpreter_of(peer: str) -> Path:
    home = ROOT / "build" / "peers" / peer
    if not (home / "ready").exists():
        pytest.skip(f"{peer} is not installed: run python -m benchmarks.peers_worlds first")
    return home / "bin" / "python"


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.title)
def test_a_peer_finds_its_way_where_every_step_is_right(method: Method) -> None:
    """Its chain, its readings and its answer come through; the budget is kept; the same seeds give the same figures."""
    interpreter = interpreter_of(method.peer)
    options = method.defaults() | FINISHING.get(method.title, {})
    job = {"method": method.name, "options": options, "budget": 128, "worlds": ["clean"], "first_seed": 7, "seeds": 3}
    job |= {"changes": {"success": 1.0}}
    row, again = (run_peer(interpreter, PEERS[method.peer].adapter, job)["clean"] for _ in range(2))
    assert row | {"seconds": 0} == again | {"seconds": 0}
    assert (row["right"], row["unfinished"]) == (3, 0)
    assert 8 <= row["steps"] <= 128
    assert 1 <= row["rounds"] <= row["steps"]


@pytest.mark.parametrize("budget", [8, 13])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.title)
def test_a_peer_survives_a_budget_of_hardly_one_chain(method: Method, budget: int) -> None:
    interpreter = interpreter_of(method.peer)
    options = method.defaults() | {"width": None} if "width" in method.knobs else method.defaults()
    job = {"method": method.name, "options": options, "budget": budget, "worlds": ["both"], "first_seed": 7, "seeds": 2}
    row = run_peer(interpreter, PEERS[method.peer].adapter, job)["both"]
    assert row["steps"] <= budget


def test_a_failing_peer_is_named_with_its_message() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)no_such_adapter failed at .*'budget': 3.*No module named"):
        run_peer(Path(sys.executable), "benchmarks.no_such_adapter", {"budget": 3})
