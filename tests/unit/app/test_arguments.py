"""Command line and TOML to options: every option arrives, the command line wins, mistakes are named."""

from __future__ import annotations

import dataclasses
import typing
from pathlib import Path

import pytest

from treewise.app.arguments import parse_solve, read_toml, to_toml
from treewise.app.config import NOT_DECIDING, ModelOptions, RunOptions, SolveOptions, SourceOptions
from treewise.search.budget import Budget
from treewise.search.settings import SearchSettings
from treewise.search.types import InputError, Scalar

SOURCE = ["--problems", "p.jsonl"]
GUMBEL = ["--rule", "gumbel", "--simulations", "9"]

OTHER: dict[str, Scalar] = {
    "problems": "other.jsonl",
    "strict": True,
    "task": "math",
    "policy": "transformers",
    "model": "some/model",
    "evaluator": "task",
    "temperature": 0.5,
    "top_p": 0.9,
    "context": 77,
    "method": "best-of-n",
    "method_reason": "it is the best",
    "width": 5,
    "lanes": 3,
    "run_to": "leaf",
    "rule": "uct",
    "exploration": 2.5,
    "variance_scaled": True,
    "first_play": "reduction",
    "first_play_value": 0.25,
    "value_range": "siblings",
    "own_weight": 2.0,
    "backup": "max",
    "in_flight": "virtual_loss",
    "ties": "first",
    "widening_k": 1.5,
    "widening_alpha": 0.25,
    "considered": 8,
    "arm_posterior": "beta",
    "arm_backup": "all",
    "merge": "ids",
    "samples": 7,
    "beams": 3,
    "score_temperature": 0.3,
    "threshold": 0.75,
    "forks": 5,
    "belief_discount": 0.5,
    "belief_depth_gain": 0.25,
    "belief_stop": 0.75,
    "choose": "visits",
    "aggregate": "min",
    "max_steps": 9,
    "step_tokens": 33,
    "stop_when_proven": False,
    "prune": False,
    "simulations": 11,
    "tokens": 123,
    "evaluator_tokens": 456,
    "seconds": 1.5,
    "seed": 42,
    "concurrency": 3,
    "replicas": 2,
    "json": True,
    "output": "folder",
    "overwrite": True,
}
"""A value other than the default for every option that stands alone; text, generate, numbers, split, config are tested below."""

COMPANIONS = {
    "task": ["--model", "m"],
    "samples": ["--method", "majority"],
    "beams": ["--method", "beam"],
    "score_temperature": ["--method", "rebase"],
    "threshold": ["--method", "depth-first"],
    "forks": ["--method", "entropy-forks"],
    "belief_discount": ["--method", "belief"],
    "belief_depth_gain": ["--method", "belief"],
    "belief_stop": ["--method", "belief"],
    "arm_posterior": ["--method", "ab-mcts"],
    "arm_backup": ["--method", "ab-mcts"],
    "evaluator_tokens": ["--tokens", "9"],
    "considered": ["--rule", "gumbel", "--simulations", "9"],
    "first_play_value": ["--first-play", "reduction"],
}
"""What an option needs beside it to be legal."""


def words(name: str, value: Scalar) -> list[str]:
    option = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{option}" if value else f"--no-{option}"]
    return [f"--{option}", str(value)]


def test_the_table_above_covers_every_option() -> None:
    """A new option without a line here fails."""
    groups = (SourceOptions, ModelOptions, SearchSettings, Budget, RunOptions)
    names = {f.name for group in groups for f in dataclasses.fields(group)}
    assert names - OTHER.keys() == {"text", "generate", "numbers", "split", "config"}


@pytest.mark.parametrize("name", OTHER)
def test_every_option_reaches_the_record_from_the_command_line(name: str) -> None:
    base = [] if name == "problems" else SOURCE
    options = parse_solve([*base, *COMPANIONS.get(name, []), *words(name, OTHER[name])])
    assert options.flat()[name] == OTHER[name]


@pytest.mark.parametrize("name", OTHER)
def test_every_option_reaches_the_record_from_a_file(name: str, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(to_toml({name: OTHER[name]}))
    base = [] if name == "problems" else SOURCE
    options = parse_solve([*base, *COMPANIONS.get(name, []), "--config", str(file)])
    assert options.flat()[name] == OTHER[name]


@pytest.mark.parametrize("name", sorted(OTHER.keys() - NOT_DECIDING - {"evaluator"}))
def test_every_deciding_option_changes_the_hash(name: str) -> None:
    base = parse_solve([*SOURCE, *COMPANIONS.get(name, [])])
    other = parse_solve([*SOURCE, *COMPANIONS.get(name, []), *words(name, OTHER[name])])
    assert other.hash() != base.hash()


def test_paths_and_displays_do_not_change_the_hash() -> None:
    base = parse_solve(SOURCE)
    other = parse_solve(["--problems", "q.jsonl", "--json", "--output", "x", "--concurrency", "2", "--strict"])
    assert other.hash() == base.hash()


def test_task_names_are_those_of_the_registry() -> None:
    from treewise.value.tasks import TASKS

    hints = typing.get_type_hints(ModelOptions)
    assert set(typing.get_args(hints["task"])) == set(TASKS)


def test_command_line_goes_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('method = "majority"\nsamples = 4\nseed = 7\ntemperature = 0.5\nstop-when-proven = false\n')
    options = parse_solve([*SOURCE, "--config", str(file), "--samples", "9", "--seed=8", "--stop-when-proven"])
    assert (options.search.method, options.search.samples, options.run.seed) == ("majority", 9, 8)
    assert options.models.temperature == 0.5
    assert options.search.stop_when_proven


def test_file_and_command_line_are_checked_together(tmp_path: Path) -> None:
    """`--samples` alone is no option of mcts, and the file's method makes it one; a bad value of the file may be replaced."""
    file = tmp_path / "run.toml"
    file.write_text('method = "best-of-n"\ntemperature = -1\n')
    options = parse_solve([*SOURCE, "--samples", "9", "--temperature", "1", "--config", str(file)])
    assert options.search.samples == 9


def test_a_source_on_the_command_line_replaces_the_files(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("generate = 5\nnumbers = 6\n")
    assert parse_solve(["--config", str(file)]).source.numbers == 6
    source = parse_solve(["numbers 3 8 target 24", "--config", str(file)]).source
    assert (source.given(), source.text) == (["text"], "numbers 3 8 target 24")
    assert parse_solve(["--config", str(file), "--generate", "2"]).source.generate == 2


def test_toml_round_trip_keeps_options_and_hash(tmp_path: Path) -> None:
    options = parse_solve(["--problems", 'a "b" \\ é 中 \x7f 😀.jsonl', "--width", "3", "--seconds", "0.1", "--no-prune"])
    file = tmp_path / "run.toml"
    file.write_text(to_toml(options.flat()), encoding="utf-8")
    again = parse_solve(["--config", str(file)])
    assert {**again.flat(), "config": None} == options.flat()
    assert again.hash() == options.hash()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("widht = 3\n", "unknown key 'widht'. did you mean 'width'?"),
        ("zzzzz = 3\n", "unknown key 'zzzzz'"),
        ("width = [1]\n", "width is [1]"),
        ("width = true\n", "width is True"),
        ('prune = "no"\n', "prune is 'no'"),
        ("width = \n", "is not TOML"),
        ("[search]\nwidth = 3\n", "unknown key 'search'"),
        ('config = "other.toml"\n', "unknown key 'config'"),
    ],
)
def test_mistakes_in_a_file_are_named_with_the_file(content: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(content)
    with pytest.raises(InputError) as error:
        parse_solve([*SOURCE, "--config", str(file)])
    assert said in str(error.value)
    assert str(file) in str(error.value)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_toml(str(tmp_path / "none.toml"))
    binary = tmp_path / "run.toml"
    binary.write_bytes(b"model = '\xff'\n")
    with pytest.raises(InputError, match="is not TOML"):
        read_toml(str(binary))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "there is no problem to solve"),
        (["--problems", "a", "--generate", "2"], "problems come from problems and generate at once"),
        (["some text", "--problems", "a"], "problems come from text and problems at once"),
        ([*SOURCE, "--numbers", "5"], "numbers has no effect without generate"),
        ([*SOURCE, "--split", "train"], "split has no effect without generate"),
        (["--generate", "2", "--task", "math", "--model", "m"], "task 'math' has no generator"),
        (["--generate", "0"], "generate is 0"),
        (["--generate", "2", "--numbers", "11"], "numbers is 11"),
        ([*SOURCE, "--task", "math"], "task 'math' has no embedded model"),
        ([*SOURCE, "--task", "math", "--policy", "scripted"], "policy 'scripted' cannot do task 'math'"),
        ([*SOURCE, "--policy", "scripted", "--model", "m"], "model 'm' has no effect"),
        ([*SOURCE, "--width", "0"], "width is 0"),
        ([*SOURCE, "--lanes=-1"], "lanes is -1"),
        ([*SOURCE, "--samples", "4"], "samples has no effect on method 'mcts'"),
        ([*SOURCE, "--method", "greedy", "--width", "4"], "width has no effect on method 'greedy'"),
        ([*SOURCE, "--method", "majority", "--ties", "first"], "ties has no effect on method 'majority'"),
        ([*SOURCE, "--considered", "4"], "considered has no effect on rule 'puct'"),
        ([*SOURCE, "--first-play-value", "0.5"], "first_play_value has no effect on first_play 'parent'"),
        ([*SOURCE, "--width", "2", "--widening-k", "0", "--widening-alpha", "1"], "widening_alpha has no effect on widening_k 0"),
        ([*SOURCE, *GUMBEL, "--exploration", "2"], "exploration has no effect on rule 'gumbel'"),
        ([*SOURCE, *GUMBEL, "--first-play", "absolute"], "first_play has no effect on rule 'gumbel'"),
        ([*SOURCE, *GUMBEL, "--value-range", "siblings"], "value_range has no effect on rule 'gumbel'"),
        ([*SOURCE, *GUMBEL, "--in-flight", "virtual_loss"], "in_flight has no effect on rule 'gumbel'"),
        ([*SOURCE, "--choose", "planned"], "choose 'planned' needs the plan of rule 'gumbel'"),
        ([*SOURCE, "--method", "majority", "--choose", "planned"], "choose 'planned' needs the plan of rule 'gumbel'"),
        ([*SOURCE, "--simulations=-1"], "budget simulations is -1"),
        ([*SOURCE, "--seconds", "nan"], "budget seconds is nan"),
        ([*SOURCE, "--temperature", "nan"], "temperature is nan"),
        ([*SOURCE, "--temperature=-0.5"], "temperature is -0.5"),
        ([*SOURCE, "--top-p", "0"], "top_p is 0"),
        ([*SOURCE, "--top-p", "1.5"], "top_p is 1.5"),
        ([*SOURCE, "--seed=-1"], "seed is -1"),
        ([*SOURCE, "--seed", str(2**63)], "seed is 9223372036854775808"),
        ([*SOURCE, "--concurrency", "0"], "concurrency is 0"),
        ([*SOURCE, "--replicas", "0"], "replicas is 0"),
        ([*SOURCE, "--replicas", "2", "--policy", "transformers"], "replicas is 2, which has no effect on policy 'transformers'"),
        ([*SOURCE, "--context", "1"], "context is 1"),
    ],
)
def test_illegal_options_name_field_value_and_remedy(arguments: list[str], said: str) -> None:
    """S25: a configuration that cannot work is an error before anything runs."""
    with pytest.raises(InputError) as error:
        parse_solve(arguments)
    assert said in str(error.value)
    assert error.value.remedy


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--method", "mtcs"], "'mcts'"),
        (["--task", "contdown"], "'countdown'"),
        (["--widht", "3"], "--width"),
        (["--simulations", "many"], "--simulations"),
        (["--problems"], "--problems"),
    ],
)
def test_usage_errors_suggest_what_was_meant(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parse_solve([*SOURCE, *arguments])
    assert end.value.code == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.out == ""


def test_usage_errors_mention_the_file_that_took_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.toml"
    file.write_text('method = "mtcs"\n')
    with pytest.raises(SystemExit):
        parse_solve([*SOURCE, "--config", str(file)])
    assert str(file) in capsys.readouterr().err.replace("\n", "")


@pytest.mark.parametrize(
    ("method", "simulations"),
    [
        ("mcts", 32),
        ("greedy", 1),
        ("best-of-n", 16),
        ("majority", 16),
        ("belief", 32),
        ("ab-mcts", 32),
        ("depth-first", 32),
        ("hybrid", 32),
    ]
    + [(method, None) for method in ("beam", "dvts", "rebase", "particles", "breadth-first", "entropy-forks")],
)
def test_without_any_limit_the_documented_budget_holds(method: str, simulations: int | None) -> None:
    assert parse_solve([*SOURCE, "--method", method]).budget == Budget(simulations=simulations)
    assert parse_solve([*SOURCE, "--method", method, "--tokens", "9"]).budget == Budget(tokens=9)


def test_help_shows_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parse_solve(["--help"])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    missing = [name for name in SolveOptions().flat() if name != "text" and f"--{name.replace('_', '-')}" not in shown]
    assert missing == []


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["--rule", "gumbel", "--tokens", "2000"], "--simulations"),
        (["--evaluator-tokens", "100"], "--simulations, --tokens or --seconds"),
    ],
)
def test_a_budget_that_cannot_work_is_refused_before_anything_runs(words: list[str], remedy: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_solve([*SOURCE, *words])
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ties", "last"),
        ("choose", "best"),
        ("aggregate", "sum"),
        ("run_to", "end"),
        ("merge", "all"),
        ("rule", "ucb"),
        ("method", "beams"),
    ],
)
def test_settings_made_in_python_refuse_unknown_words(field: str, value: str) -> None:
    with pytest.raises(InputError, match=f"{field}.*{value}"):
        SearchSettings(**{field: value})  # type: ignore[arg-type]


def test_the_plan_may_choose_where_there_is_one() -> None:
    assert parse_solve([*SOURCE, *GUMBEL, "--considered", "4", "--choose", "planned"]).search.choice == "planned"
