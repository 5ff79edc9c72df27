"""Rows to problems: ids are unique, references stay apart, every refusal has its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from treewise.app.config import SourceOptions
from treewise.app.problems import read_problems
from treewise.search.types import InputError
from treewise.value.tasks import task_named


def test_references_are_kept_out_of_the_problem(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": "x", "problem": "1 + 1?", "answer": "2222"}\n')
    ((item,), rejected) = read_problems(SourceOptions(problems=str(path)), task_named("math"), seed=0)
    assert rejected == []
    assert item.reference is not None
    assert "2222" in item.reference
    assert "2222" not in repr(item.problem)


def test_the_first_of_two_equal_ids_runs(tmp_path: Path) -> None:
    """Also when one is written as a number; the refused row takes its place as id, so that an id names one result."""
    path = tmp_path / "p.jsonl"
    rows = [{"id": name, "numbers": [3, 8], "target": 24} for name in ("1", 1, "2", "2")]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    items, rejected = read_problems(SourceOptions(problems=str(path)), task_named("countdown"), seed=0)
    assert [(item.problem.id, item.where) for item in items] == [("1", f"{path}, line 1"), ("2", f"{path}, line 3")]
    assert [row.id for row in rejected] == ["line 2", "line 4"]
    assert "line 3" in str(rejected[1].error)


def test_a_text_is_one_problem() -> None:
    (item,), rejected = read_problems(SourceOptions(text="numbers 3 8 target 24"), task_named("countdown"), seed=0)
    assert (item.problem.numbers, item.problem.target, item.reference, rejected) == ((3, 8), 24, None, [])
    with pytest.raises(InputError, match="empty"):
        read_problems(SourceOptions(text=" \n"), task_named("math"), seed=0)


def test_generated_problems_follow_count_numbers_split_and_seed() -> None:
    def made(**changed: object) -> list[tuple[tuple[int, ...], int | None]]:
        source = SourceOptions(**{"generate": 5, "numbers": 4, "split": "test", **changed})  # type: ignore[arg-type]
        items, _ = read_problems(source, task_named("countdown"), seed=1)
        return [(item.problem.numbers, item.problem.target) for item in items]

    assert len(made()) == 5
    assert {len(numbers) for numbers, _ in made(numbers=6)} == {6}
    assert set(made()) & set(made(split="train")) == set()
