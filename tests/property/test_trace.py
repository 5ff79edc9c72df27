"""Any tree survives Parquet unchanged, and its graphs are valid."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from treewise.search.graph import to_networkx, to_node_link, write_graphml
from treewise.search.trace import Origin, Trace, build_trace
from treewise.search.trace_parquet import read_traces, write_traces
from treewise.search.types import Answer, Bill, Finish, PolicyError, Problem, SearchEnd, Standing, Verdict, VerdictKind

NAN = float("nan")
ANY_TEXT = st.text(st.characters(), max_size=12) | st.sampled_from(["\ud800", "a\udfffb", "\x00", "\r\n", "求和"])
COUNT = st.integers(0, 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
FLOAT32 = st.floats(width=32, allow_infinity=False)
LOGPROB = st.floats(max_value=0.0, width=32) | st.just(NAN)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    size = draw(st.integers(1, 12))

    def column(strategy: st.SearchStrategy) -> list:
        return draw(st.lists(strategy, min_size=size, max_size=size))

    parent = [-1, *(draw(st.integers(0, node - 1)) for node in range(1, size))]
    depth = [0]
    for node in range(1, size):
        depth.append(depth[parent[node]] + 1)
    ids = column(st.lists(COUNT, max_size=4))
    error = draw(st.none() | ANY_TEXT.map(PolicyError))
    answered = draw(st.booleans())
    counts = ("policy_tokens", "rounds", "dropped", "cached_tokens", "cancelled_tokens")
    bill = Bill(**{name: draw(st.integers(0, 2**63 - 1)) for name in counts})
    bill.seconds = draw(st.floats(0, 1e6))
    answer = Answer(
        problem_id="p",
        text=draw(ANY_TEXT) if answered else None,
        node=draw(st.integers(0, size - 1)) if answered else None,
        value=draw(st.floats(0, 1)) if answered else None,
        end=draw(st.sampled_from(SearchEnd)),
        reason=draw(ANY_TEXT),
        bill=bill,
        error=error,
    )
    trace = build_trace(
        problem=Problem(draw(ANY_TEXT), draw(ANY_TEXT), tuple(draw(st.lists(LONG, max_size=3))), draw(st.none() | LONG)),
        origin=Origin("t", "m", json.dumps({"x": draw(ANY_TEXT)}), "h", draw(LONG), draw(ANY_TEXT), draw(ANY_TEXT), "0"),
        answer=answer,
        parent=parent,
        depth=depth,
        ids=ids,
        logprobs=[draw(st.lists(LOGPROB, min_size=len(row), max_size=len(row))) for row in ids],
        texts=column(ANY_TEXT),
        prior=column(FLOAT32),
        multiplicity=column(COUNT),
        visits=column(COUNT),
        mean=column(st.floats(allow_infinity=False)),
        best=column(FLOAT32),
        value=column(FLOAT32),
        outputs=column(st.lists(st.floats(width=32), max_size=3)),
        finish=column(st.sampled_from(["", *Finish])),
        standing=column(st.sampled_from(Standing)),
        answers=column(st.none() | ANY_TEXT),
        proven=column(st.booleans()),
        exhausted=column(st.booleans()),
        reasons=column(ANY_TEXT),
    )
    verdict = draw(st.none() | st.builds(Verdict, st.sampled_from(VerdictKind), ANY_TEXT))
    return trace if verdict is None else trace.with_verdict(verdict)


@given(st.lists(traces(), max_size=3))
@settings(max_examples=60, deadline=None)
def test_parquet_gives_equal_traces(written: list[Trace]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "t.parquet")
        write_traces(path, written)
        assert read_traces(path) == written


@given(traces())
@settings(max_examples=60, deadline=None)
def test_node_link_is_strict_json_with_the_same_tree(trace: Trace) -> None:
    text = json.dumps(to_node_link(trace), allow_nan=False)
    text.encode("utf-8")
    back = nx.node_link_graph(json.loads(text), edges="edges")
    assert set(back.edges) == {(parent, node) for node, parent in enumerate(trace.nodes.parent.tolist()) if node}
    assert len(back) == len(trace.nodes)


@given(traces())
@settings(max_examples=60, deadline=None)
def test_graphml_reads_back(trace: Trace) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "t.graphml")
        write_graphml(trace, path)
        back = nx.read_graphml(path, node_type=int)
    assert set(back.edges) == set(to_networkx(trace).edges)
    assert [back.nodes[node]["visits"] for node in range(len(trace.nodes))] == trace.nodes.visits.tolist()
    assert [json.loads(back.nodes[node]["ids"]) for node in range(len(back))] == [
        trace.nodes.node_ids(node).tolist() for node in range(len(back))
    ]


@given(traces())
@settings(max_examples=60, deadline=None)
def test_a_path_is_the_ids_of_its_ancestors(trace: Trace) -> None:
    """Against a definition by recursion over the parents."""
    nodes = trace.nodes

    def ids(node: int) -> list[int]:
        above = [] if node == 0 else ids(int(nodes.parent[node]))
        return above + nodes.node_ids(node).tolist()

    for node in range(len(nodes)):
        assert list(nodes.path_ids(node)) == ids(node)
        assert len(nodes.path_nodes(node)) == nodes.depth[node] + 1
        assert np.shape(nodes.path_logprobs(node)) == (len(ids(node)),)
