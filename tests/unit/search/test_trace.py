"""Traces: consistency checks, paths, Parquet, shards."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from treewise.search.trace import Origin, Trace, build_trace
from treewise.search.trace_nodes import NodeTable
from treewise.search.trace_parquet import iterate_traces, read_traces, schema, write_traces
from treewise.search.trace_shards import TraceWriter
from treewise.search.types import (
    Answer,
    Bill,
    Finish,
    InputError,
    PolicyError,
    Problem,
    SearchEnd,
    Standing,
    TraceError,
    Verdict,
    VerdictKind,
)

NAN = float("nan")
VERSION_1 = Path(__file__).parents[2] / "data" / "trace_v1.parquet"

ORIGIN = Origin(
    task="countdown",
    method="mcts",
    config='{"simulations": 3}',
    config_hash="c0ffee",
    seed=7,
    policy="policy-1",
    evaluator="evaluator-1",
    library_version="0.1.0",
)

# prompt -> "8*3=24\n" -> "24-5=19" (finished), "24+5=30" (dead); prompt -> a sample that the backend gave up
COLUMNS: dict[str, Any] = {
    "parent": [-1, 0, 1, 1, 0],
    "depth": [0, 1, 2, 2, 1],
    "ids": [(1, 10, 11), (20, 21), (22, 2), (23, 24, 2), ()],
    "logprobs": [(NAN, NAN, NAN), (-0.5, -0.25), (-1.0, -0.125), (-2.0, -0.5, -0.25), ()],
    "texts": ["reach 19 with 8 3 5\n", "8*3=24\n", "24-5=19", "24+5=30", ""],
    "prior": [1.0, 0.75, 0.5, 0.5, 0.25],
    "multiplicity": [1, 3, 1, 1, 1],
    "visits": [3, 3, 2, 1, 0],
    "mean": [0.625, 0.625, 1.0, 0.0, 0.0],
    "best": [1.0, 1.0, 1.0, 0.0, float("-inf")],
    "value": [0.5, 0.625, 1.0, 0.0, NAN],
    "outputs": [(), (0.625,), (0.75, 1.0), (0.5, 0.0), ()],
    "finish": ["", "separator", "end", "end", "error"],
    "standing": ["open", "open", "finished", "dead", "dead"],
    "reasons": ["", "", "", "24 + 5 is 29", "the backend gave up"],
    "answers": [None, None, "8*3-5", None, None],
    "proven": [False, False, True, False, False],
    "exhausted": [True, True, True, True, True],
}


def make_trace(*, problem: Problem | None = None, error: PolicyError | None = None, **changes: Any) -> Trace:
    answer = Answer(
        problem_id="p1",
        text="8*3-5",
        node=2,
        value=1.0,
        end=SearchEnd.PROVEN,
        reason="the task proved it",
        bill=Bill(policy_tokens=7, evaluator_tokens=30, prompt_tokens=40, cached_tokens=24, rounds=2, seconds=0.5, simulations=3),
        error=error,
    )
    columns = {**COLUMNS, **changes}
    return build_trace(problem=problem or Problem("p1", "reach 19", (8, 3, 5), 19), origin=ORIGIN, answer=answer, **columns)


def round_trip(trace: Trace, folder: Path) -> Trace:
    write_traces(folder / "t.parquet", [trace])
    (back,) = read_traces(folder / "t.parquet")
    return back


class TestTable:
    def test_t14_ids_along_a_path_are_those_the_model_saw(self) -> None:
        nodes = make_trace().nodes
        assert nodes.path_nodes(3) == (0, 1, 3)
        assert nodes.path_ids(3) == (1, 10, 11, 20, 21, 23, 24, 2)
        assert nodes.path_ids(2) == (1, 10, 11, 20, 21, 22, 2)
        assert nodes.path_text(2) == "8*3=24\n24-5=19"
        assert nodes.path_text(0) == ""
        np.testing.assert_array_equal(nodes.path_logprobs(2), np.float32([NAN, NAN, NAN, -0.5, -0.25, -1.0, -0.125]))

    def test_s16_values_stay_with_their_node(self) -> None:
        """Two terminal siblings keep their own value, outputs and reason."""
        nodes = make_trace().nodes
        assert nodes.value[2:4].tolist() == [1.0, 0.0]
        assert [nodes.node_outputs(node).tolist() for node in range(5)] == [[], [0.625], [0.75, 1.0], [0.5, 0.0], []]
        assert nodes.reasons[2:4] == ("", "24 + 5 is 29")

    def test_s32_an_empty_sample_is_a_node_without_tokens(self) -> None:
        nodes = make_trace().nodes
        assert nodes.node_ids(4).tolist() == []
        assert nodes.path_ids(4) == (1, 10, 11)
        assert nodes.finish[4] is Finish.ERROR

    def test_unvisited_has_no_mean_and_no_best(self) -> None:
        nodes = make_trace().nodes
        assert np.isnan(nodes.mean).tolist() == [False] * 4 + [True]
        assert np.isnan(nodes.best).tolist() == [False] * 4 + [True]

    def test_enumerations(self) -> None:
        nodes = make_trace().nodes
        assert nodes.finish[:3] == (None, Finish.SEPARATOR, Finish.END)
        assert nodes.standing[1:4] == (Standing.OPEN, Standing.FINISHED, Standing.DEAD)

    def test_s17_a_trace_shares_no_state_with_the_search(self) -> None:
        visits = np.array([3, 3, 2, 1, 0], dtype=np.int32)
        trace = make_trace(visits=visits)
        visits[0] = 99
        assert trace.nodes.visits[0] == 3
        with pytest.raises(ValueError, match="read-only"):
            trace.nodes.visits[0] = 99

    def test_the_bill_is_a_copy(self) -> None:
        bill = Bill(policy_tokens=7)
        answer = Answer("p1", None, None, None, SearchEnd.BUDGET, "", bill)
        trace = build_trace(problem=Problem("p1", "x"), origin=ORIGIN, answer=answer, **COLUMNS)
        bill.policy_tokens = 8
        assert trace.outcome.bill.policy_tokens == 7

    def test_a_5000_deep_chain(self, tmp_path: Path) -> None:
        """E37: a 200-deep chain raised RecursionError."""
        trace = make_chain(5000)
        assert trace.nodes.path_ids(4999) == tuple(range(5000))
        assert round_trip(trace, tmp_path) == trace

    def test_unknown_node(self) -> None:
        with pytest.raises(TraceError, match="node 5 is not in this trace of 5 nodes"):
            make_trace().nodes.path_ids(5)
        with pytest.raises(TraceError, match="node -1"):
            make_trace().nodes.path_ids(-1)


def make_chain(length: int) -> Trace:
    return make_trace(
        parent=np.arange(-1, length - 1),
        depth=np.arange(length),
        ids=[(node,) for node in range(length)],
        logprobs=[(-0.5,)] * length,
        texts=["x"] * length,
        prior=np.ones(length),
        multiplicity=np.ones(length, dtype=np.int32),
        visits=np.ones(length, dtype=np.int32),
        mean=np.zeros(length),
        best=np.zeros(length),
        value=np.zeros(length),
        outputs=[()] * length,
        finish=[""] * length,
        standing=["open"] * length,
        reasons=None,
        answers=[None] * length,
        proven=np.zeros(length, dtype=bool),
        exhausted=np.zeros(length, dtype=bool),
    )


class TestChecks:
    @pytest.mark.parametrize(
        ("column", "value", "message"),
        [
            ("parent", [-1, 0, 2, 1, 0], "node 2 has parent 2, which does not come before it"),
            ("parent", [-1, 0, 1, -1, 0], "node 3 has parent -1"),
            ("parent", [0, 0, 1, 1, 0], "node 0 has parent 0"),
            ("parent", [-1, 0, 1, 1], "depth has 5 entries for 4 nodes"),
            ("depth", [0, 1, 2, 1, 1], "node 3 has depth 1 under a parent of depth 1"),
            ("texts", ["a", "b", "c", "d"], "texts has 4 entries for 5 nodes: node 4"),
            ("logprobs", [(NAN,) * 3, (-0.5,), (-1.0, -1.0), (-2.0, -1.0, -1.0), ()], "node 1 has 2 token ids but 1 log-prob"),
            ("logprobs", [(NAN,) * 3], "ids has 5 rows but logprobs has 1"),
            ("outputs", [()], "output_offsets has 2 entries for 5 nodes"),
            ("ids", [(1, 10, 11), (20, 21), (-22, 2), (23, 24, 2), ()], "node 2 has token id -22"),
            ("ids", [(1, 10, 11), (20, 2**31), (22, 2), (23, 24, 2), ()], r"ids\[4\] is 2147483648, which does not fit int32"),
            ("ids", [(1, 10, 11), (20.5, 21), (22, 2), (23, 24, 2), ()], "ids holds float64 where int32 is wanted"),
            ("visits", [3, 3, -2, 1, 0], "node 2 has visits -2"),
            ("visits", [[3], [3], [2], [1], [0]], "visits has 2 dimensions"),
            ("mean", [0.5, 0.5, float("inf"), 0.0, 0.0], "node 2 has mean inf"),
            ("value", [0.5, 0.5, 0.5, float("-inf"), 0.0], "node 3 has value -inf"),
            ("proven", [0, 0, 2, 0, 0], r"proven\[2\] is 2"),
            ("finish", ["", "stop", "end", "end", "error"], "node 1 has finish 'stop'"),
            ("standing", ["open", "open", "won", "dead", "dead"], "node 2 has standing 'won'"),
        ],
    )
    def test_inconsistent_columns_are_named(self, column: str, value: object, message: str) -> None:
        with pytest.raises(TraceError, match=message):
            make_trace(**{column: value})

    def test_s58_offsets_that_do_not_cut_the_ids(self) -> None:
        """Counts that disagree are refused with the row, never padded or cut."""
        table = make_trace().nodes
        parts = {f.name: getattr(table, f.name) for f in fields(NodeTable)}
        with pytest.raises(TraceError, match="id_offsets falls from 7 to 5 at node 2"):
            NodeTable(**{**parts, "id_offsets": np.array([0, 3, 7, 5, 10, 10])})
        with pytest.raises(TraceError, match="id_offsets runs from 0 to 9 over 10 entries"):
            NodeTable(**{**parts, "id_offsets": np.array([0, 3, 5, 7, 9, 9])})
        with pytest.raises(TraceError, match="10 token ids but 9 log-probabilities"):
            NodeTable(**{**parts, "logprobs": table.logprobs[:-1]})

    def test_no_node(self) -> None:
        empty = {name: [] for name in COLUMNS}
        with pytest.raises(TraceError, match="no node"):
            make_trace(**empty)

    def test_head(self) -> None:
        trace = make_trace()
        with pytest.raises(TraceError, match="node 5 of a trace of 5"):
            replace(trace, outcome=replace(trace.outcome, node=5))
        with pytest.raises(TraceError, match="value is nan"):
            replace(trace.outcome, value=NAN)
        with pytest.raises(TraceError, match="seconds are nan"):
            replace(trace.outcome, bill=Bill(seconds=NAN))
        with pytest.raises(TraceError, match=r"config is no JSON: '\{'"):
            replace(ORIGIN, config="{")
        with pytest.raises(TraceError, match="seed 9223372036854775808 does not fit 64 bits"):
            replace(ORIGIN, seed=2**63)
        with pytest.raises(TraceError, match=f"number {10**30} does not fit"):
            make_trace(problem=Problem("p", "x", (10**30,), 1))


class TestEquality:
    def test_equal_with_nan(self) -> None:
        assert make_trace() == make_trace()

    @pytest.mark.parametrize("column", [name for name in COLUMNS if name not in ("parent", "depth", "logprobs", "outputs")])
    def test_every_column_counts(self, column: str) -> None:
        """Changing one entry of any column makes another trace."""
        other = {
            "ids": [(1, 10, 11), (20, 22), (22, 2), (23, 24, 2), ()],
            "texts": ["", "8*3=24\n", "24-5=19", "24+5=30", ""],
            "finish": ["", "length", "end", "end", "error"],
            "standing": ["open", "dead", "finished", "dead", "dead"],
            "reasons": ["", "", "", "24 + 5 is 29", ""],
            "answers": [None, "", "8*3-5", None, None],
            "proven": [True, False, True, False, False],
            "exhausted": [False, True, True, True, True],
        }.get(column, [3, 1, 1, 1, 0])
        assert make_trace(**{column: other}) != make_trace()

    def test_structure_and_rows_count(self) -> None:
        assert make_trace(parent=[-1, 0, 1, 1, 1], depth=[0, 1, 2, 2, 2]) != make_trace()
        assert make_trace(logprobs=[(NAN,) * 3, (-0.5, NAN), (-1.0, -0.125), (-2.0, -0.5, -0.25), ()]) != make_trace()
        assert make_trace(outputs=[(), (), (0.625, 0.75, 1.0), (0.5, 0.0), ()]) != make_trace()

    def test_head_counts(self) -> None:
        trace = make_trace()
        assert replace(trace, origin=replace(ORIGIN, seed=8)) != trace
        assert trace.with_verdict(Verdict(VerdictKind.UNDECIDED)) != trace
        assert replace(trace, outcome=replace(trace.outcome, bill=replace(trace.outcome.bill, dropped=1))) != trace


class TestParquet:
    def test_s35_reading_back_gives_an_equal_trace(self, tmp_path: Path) -> None:
        trace = make_trace().with_verdict(Verdict(VerdictKind.CORRECT, "19 = 19"))
        back = round_trip(trace, tmp_path)
        assert back == trace
        assert back.verdict == Verdict(VerdictKind.CORRECT, "19 = 19")
        assert back.outcome.bill.cached_tokens == 24

    def test_several_traces_keep_their_order(self, tmp_path: Path) -> None:
        traces = [make_trace(problem=Problem(f"p{index}", "x")) for index in range(150)]
        write_traces(tmp_path / "t.parquet", iter(traces))
        assert read_traces(tmp_path / "t.parquet") == traces
        assert next(iterate_traces(tmp_path / "t.parquet")).problem.id == "p0"

    def test_no_trace(self, tmp_path: Path) -> None:
        write_traces(tmp_path / "t.parquet", [])
        assert read_traces(tmp_path / "t.parquet") == []

    def test_a_failed_search_without_answer(self, tmp_path: Path) -> None:
        """Broken infrastructure is told apart from a wrong answer."""
        answer = Answer("p1", None, None, None, SearchEnd.FAILED, "the policy failed", Bill(), PolicyError("out of memory"))
        root = {name: column[:1] for name, column in COLUMNS.items()}
        trace = build_trace(problem=Problem("p1", "x"), origin=ORIGIN, answer=answer, **root)
        back = round_trip(trace, tmp_path)
        assert back == trace
        assert (back.outcome.end, back.outcome.error) == (SearchEnd.FAILED, "PolicyError: out of memory")
        assert (back.outcome.text, back.outcome.node, back.outcome.value, back.problem.target) == (None, None, None, None)

    def test_text_of_all_kinds(self, tmp_path: Path) -> None:
        texts = ["求 19\n", "🙂 é \x00 \r\n", "a\ud83db", "\ud83d\ude42", "\udc80"]
        trace = make_trace(texts=texts, problem=Problem("p\udcff", "x\ud800"), answers=[None, None, "\udfff", None, None])
        assert trace.nodes.texts == ("求 19\n", "🙂 é \x00 \r\n", "a\ufffdb", "\ufffd\ufffd", "\ufffd")
        assert (trace.problem.id, trace.problem.text, trace.nodes.answers[2]) == ("p\ufffd", "x\ufffd", "\ufffd")
        assert round_trip(trace, tmp_path) == trace

    def test_t01_types_are_declared(self, tmp_path: Path) -> None:
        """No column's type is guessed from its content: an all-empty file has the same schema."""
        write_traces(tmp_path / "none.parquet", [])
        write_traces(tmp_path / "one.parquet", [make_trace()])
        empty = parquet.read_schema(tmp_path / "none.parquet")
        assert empty.equals(parquet.read_schema(tmp_path / "one.parquet"))
        assert empty.field("node_ids").type == pa.list_(pa.list_(pa.int32()))
        assert empty.field("node_logprobs").type == pa.list_(pa.list_(pa.float32()))
        assert empty.field("node_answer").type == pa.list_(pa.string())
        assert empty.field("target").type == pa.int64()

    def test_the_bill_is_complete(self) -> None:
        assert {field.name for field in schema().field("bill").type} == {f.name for f in fields(Bill)}
        assert set(make_trace().head()) == {name for name in schema().names if not name.startswith("node_")}

    def test_cancelled_tokens_are_kept(self, tmp_path: Path) -> None:
        trace = make_trace()
        trace = replace(trace, outcome=replace(trace.outcome, bill=Bill(cancelled_tokens=5)))
        assert round_trip(trace, tmp_path).outcome.bill.cancelled_tokens == 5

    def test_plain_pyarrow_reads_it(self, tmp_path: Path) -> None:
        write_traces(tmp_path / "t.parquet", [make_trace()])
        (row,) = parquet.read_table(tmp_path / "t.parquet").to_pylist()
        assert row["problem_id"] == "p1"
        assert row["numbers"] == [8, 3, 5]
        assert row["bill"]["policy_tokens"] == 7
        assert row["verdict"] is None
        assert row["node_parent"] == [-1, 0, 1, 1, 0]
        assert row["node_ids"] == [[1, 10, 11], [20, 21], [22, 2], [23, 24, 2], []]
        assert row["node_logprobs"][0] == [None, None, None]
        assert row["node_logprobs"][2] == [-1.0, -0.125]
        assert row["node_mean"] == [0.625, 0.625, 1.0, 0.0, None]
        assert row["node_outputs"] == [[], [0.625], [0.75, 1.0], [0.5, 0.0], []]
        assert row["node_finish"] == [None, "separator", "end", "end", "error"]
        assert row["node_answer"] == [None, None, "8*3-5", None, None]

    def test_version_1_file(self) -> None:
        """A file kept since version 1, made with pyarrow alone and before `cancelled_tokens`, gives the same trace for ever."""
        expected = make_trace().with_verdict(Verdict(VerdictKind.CORRECT, "19 = 19"))
        assert read_traces(VERSION_1) == [expected]

    def test_future_version(self, tmp_path: Path) -> None:
        write_traces(tmp_path / "t.parquet", [make_trace()])
        table = parquet.read_table(tmp_path / "t.parquet")
        parquet.write_table(table.set_column(0, "version", pa.array([2], pa.int32())), tmp_path / "t.parquet")
        with pytest.raises(TraceError, match=r"t\.parquet: trace schema version 2 is not known, only 1\. .*upgrade"):
            read_traces(tmp_path / "t.parquet")

    def test_a_rewritten_file_is_read(self, tmp_path: Path) -> None:
        """Other tools widen types; that is no damage."""
        write_traces(tmp_path / "t.parquet", [make_trace()])
        table = parquet.read_table(tmp_path / "t.parquet")
        for name, kind in (("node_visits", pa.list_(pa.int64())), ("node_text", pa.large_list(pa.large_string()))):
            table = table.set_column(table.schema.get_field_index(name), name, table.column(name).cast(kind))
        parquet.write_table(table, tmp_path / "t.parquet")
        assert read_traces(tmp_path / "t.parquet") == [make_trace()]

    @pytest.mark.parametrize(
        ("column", "value", "message"),
        [
            ("node_visits", [[3, 3, None, 1, 0]], "'node_visits' has an empty cell"),
            ("node_visits", [None], "'node_visits' has an empty cell"),
            ("node_visits", [["a"] * 5], "'node_visits' is no list"),
            ("node_text", [["a", "b", None, "c", "d"]], "node 2 has an empty node_text"),
            ("node_ids", [[[1, 10, 11], [20, 21], None, [23, 24, 2], []]], "'node_ids' has an empty cell"),
            ("node_logprobs", [[[0.0] * 3, [0.0] * 2, [0.0], [0.0] * 4, []]], "node 2 has lists of different length"),
            ("end", ["won"], "end is 'won'. known are budget"),
            ("end", [None], "'end' has an empty cell"),
        ],
    )
    def test_damaged_content_is_named(self, tmp_path: Path, column: str, value: list[object], message: str) -> None:
        path = tmp_path / "t.parquet"
        write_traces(path, [make_trace()])
        table = parquet.read_table(path)
        parquet.write_table(table.set_column(table.schema.get_field_index(column), column, pa.array(value)), path)
        with pytest.raises(TraceError, match=message) as caught:
            read_traces(path)
        assert str(path) in str(caught.value)

    def test_files_that_are_no_traces(self, tmp_path: Path) -> None:
        parquet.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
        with pytest.raises(TraceError, match=r"other\.parquet: there is no column 'version'"):
            read_traces(tmp_path / "other.parquet")
        parquet.write_table(pa.table({"version": [1]}), tmp_path / "thin.parquet")
        with pytest.raises(TraceError, match=r"thin\.parquet: there is no column 'problem_id'"):
            read_traces(tmp_path / "thin.parquet")
        (tmp_path / "text.parquet").write_text("hello")
        with pytest.raises(TraceError, match=r"cannot read .*text\.parquet"):
            read_traces(tmp_path / "text.parquet")
        with pytest.raises(TraceError, match=r"there is no .*absent\.parquet"):
            read_traces(tmp_path / "absent.parquet")
        with pytest.raises(TraceError, match=r"holds no traces-\*\.parquet"):
            read_traces(tmp_path)

    def test_unwritable_places(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        for path in (tmp_path / "absent" / "t.parquet", tmp_path / "file" / "t.parquet", tmp_path):
            with pytest.raises(InputError, match=f"cannot write {path}"):
                write_traces(path, [make_trace()])
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file"]

    def test_permissions_follow_the_umask(self, tmp_path: Path) -> None:
        before = os.umask(0o022)
        try:
            write_traces(tmp_path / "t.parquet", [make_trace()])
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "t.parquet").stat().st_mode) == 0o644


class TestShards:
    def test_a_shard_every_few_traces(self, tmp_path: Path) -> None:
        traces = [make_trace(problem=Problem(f"p{index}", "x")) for index in range(5)]
        with TraceWriter(tmp_path / "run" / "traces", traces_per_shard=2) as writer:
            for trace in traces:
                writer.add(trace)
            names = sorted(path.name for path in (tmp_path / "run" / "traces").iterdir())
            assert names == ["traces-000000.parquet", "traces-000001.parquet"]
        assert read_traces(tmp_path / "run" / "traces") == traces

    def test_an_interrupted_run_keeps_what_is_finished(self, tmp_path: Path) -> None:
        with pytest.raises(KeyboardInterrupt), TraceWriter(tmp_path, traces_per_shard=100) as writer:  # noqa: PT012
            writer.add(make_trace())
            raise KeyboardInterrupt
        assert read_traces(tmp_path) == [make_trace()]

    def test_a_second_run_adds(self, tmp_path: Path) -> None:
        for index in range(12):
            with TraceWriter(tmp_path, traces_per_shard=1) as writer:
                writer.add(make_trace(problem=Problem(f"p{index}", "x")))
        assert [trace.problem.id for trace in read_traces(tmp_path)] == [f"p{index}" for index in range(12)]

    def test_nothing_added_writes_nothing(self, tmp_path: Path) -> None:
        with TraceWriter(tmp_path):
            pass
        assert list(tmp_path.iterdir()) == []

    def test_bad_arguments(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(InputError, match=r"cannot make folder .*file"):
            TraceWriter(tmp_path / "file")
        with pytest.raises(InputError, match="traces_per_shard is 0"):
            TraceWriter(tmp_path / "run", traces_per_shard=0)


def test_the_head_is_strict_json() -> None:
    assert json.loads(json.dumps(make_trace().head(), allow_nan=False))["bill"]["seconds"] == 0.5


def test_importing_the_trace_files_loads_no_library_of_formats() -> None:
    code = (
        "import sys, treewise.search.graph, treewise.search.trace_shards\n"
        "print(sorted({'pyarrow', 'networkx', 'torch', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
