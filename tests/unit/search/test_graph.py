"""Traces as networkx graphs, node-link JSON and GraphML."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import pytest

from treewise.search.graph import to_networkx, to_node_link, write_graphml
from treewise.search.trace import Origin, Trace, build_trace
from treewise.search.types import Answer, Bill, InputError, Problem, SearchEnd

NAN = float("nan")
EDGES = [(0, 1), (1, 2), (0, 3)]


def make_trace(*, texts: tuple[str, ...] = ("求", "a\n", "b", "")) -> Trace:
    return build_trace(
        problem=Problem("p1", "reach 19", (8, 3, 5), 19),
        origin=Origin("countdown", "mcts", "{}", "c0ffee", 7, "policy-1", "evaluator-1", "0.1.0"),
        answer=Answer("p1", "8*3-5", 2, 1.0, SearchEnd.BUDGET, "budget spent", Bill(policy_tokens=3, seconds=0.5)),
        parent=[-1, 0, 1, 0],
        depth=[0, 1, 2, 1],
        ids=[(1, 2), (3,), (4, 5), ()],
        logprobs=[(NAN, NAN), (-0.5,), (-0.25, float("-inf")), ()],
        texts=texts,
        prior=[1.0, 0.75, 1.0, 0.25],
        multiplicity=[1, 3, 1, 1],
        visits=[2, 2, 1, 0],
        mean=[0.5, 0.5, 1.0, NAN],
        best=[1.0, 1.0, 1.0, NAN],
        value=[NAN, 0.5, 1.0, NAN],
        outputs=[(), (0.5,), (0.5, 1.0), ()],
        finish=["", "separator", "end", "error"],
        standing=["open", "open", "finished", "dead"],
        reasons=["", "", "", "gave up"],
        answers=[None, None, "8*3-5", None],
        proven=[False, False, True, False],
        exhausted=[False, False, True, True],
    )


def make_chain(length: int) -> Trace:
    every = [0.0] * length
    return build_trace(
        problem=Problem("p1", "x"),
        origin=Origin("countdown", "mcts", "{}", "c0ffee", 7, "policy-1", "evaluator-1", "0.1.0"),
        answer=Answer("p1", None, None, None, SearchEnd.BUDGET, "", Bill()),
        parent=list(range(-1, length - 1)),
        depth=list(range(length)),
        ids=[(1,)] * length,
        logprobs=[(0.0,)] * length,
        texts=["x"] * length,
        prior=every,
        multiplicity=[1] * length,
        visits=[1] * length,
        mean=every,
        best=every,
        value=every,
        outputs=[()] * length,
        finish=[""] * length,
        standing=["open"] * length,
        answers=[None] * length,
        proven=[False] * length,
        exhausted=[False] * length,
    )


class TestNetworkx:
    def test_structure_and_every_attribute(self) -> None:
        graph = to_networkx(make_trace())
        assert sorted(graph.edges) == sorted(EDGES)
        assert nx.is_arborescence(graph)
        assert graph.nodes[2] == {
            "depth": 2,
            "ids": [4, 5],
            "logprobs": [-0.25, float("-inf")],
            "text": "b",
            "prior": 1.0,
            "multiplicity": 1,
            "visits": 1,
            "mean": 1.0,
            "best": 1.0,
            "value": 1.0,
            "outputs": [0.5, 1.0],
            "finish": "end",
            "standing": "finished",
            "reason": "",
            "answer": "8*3-5",
            "proven": True,
            "exhausted": True,
        }
        assert graph.nodes[0]["logprobs"] == [None, None]
        assert graph.nodes[3]["mean"] is None
        assert graph.nodes[3]["reason"] == "gave up"

    def test_head(self) -> None:
        graph = to_networkx(make_trace())
        assert (graph.graph["problem_id"], graph.graph["answer"], graph.graph["end"]) == ("p1", "8*3-5", "budget")
        assert graph.graph["bill"]["policy_tokens"] == 3

    def test_a_prompt_alone(self) -> None:
        graph = to_networkx(make_chain(1))
        assert (list(graph.nodes), list(graph.edges)) == ([0], [])


class TestNodeLink:
    def test_strict_json(self) -> None:
        text = json.dumps(to_node_link(make_trace()), allow_nan=False)
        back = json.loads(text)
        assert [node["id"] for node in back["nodes"]] == [0, 1, 2, 3]
        assert back["nodes"][0]["value"] is None
        assert back["nodes"][2]["logprobs"] == [-0.25, "-Infinity"]
        assert back["graph"]["verdict"] is None

    def test_networkx_reads_it(self) -> None:
        back = nx.node_link_graph(json.loads(json.dumps(to_node_link(make_trace()))), edges="edges")
        assert back.is_directed()
        assert sorted(back.edges) == sorted(EDGES)
        assert back.nodes[1] == to_networkx(make_trace()).nodes[1]


class TestGraphml:
    def test_networkx_reads_it(self, tmp_path: Path) -> None:
        write_graphml(make_trace(), tmp_path / "t.graphml")
        back = nx.read_graphml(tmp_path / "t.graphml", node_type=int)
        assert sorted(back.edges) == sorted(EDGES)
        assert back.nodes[0]["text"] == "求"
        assert back.nodes[0]["logprobs"] == "[null, null]"
        assert back.nodes[0]["value"] == ""
        assert back.nodes[2]["value"] == 1.0
        assert back.nodes[2]["ids"] == "[4, 5]"
        assert back.nodes[2]["proven"] is True
        assert back.nodes[3]["ids"] == "[]"
        assert json.loads(back.graph["bill"])["seconds"] == 0.5

    def test_characters_that_xml_cannot_hold(self, tmp_path: Path) -> None:
        write_graphml(make_trace(texts=("<&>\"' \t\n", "\x00\x1b", "\ud800", "\uffff🙂")), tmp_path / "t.graphml")
        back = nx.read_graphml(tmp_path / "t.graphml", node_type=int)
        assert [back.nodes[node]["text"] for node in range(4)] == ["<&>\"' \t\n", "\ufffd\ufffd", "\ufffd", "\ufffd🙂"]

    def test_unwritable(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"cannot write .*absent.*t\.graphml"):
            write_graphml(make_trace(), tmp_path / "absent" / "t.graphml")


def test_a_5000_deep_chain(tmp_path: Path) -> None:
    """E37: a 200-deep chain raised RecursionError."""
    trace = make_chain(5000)
    json.dumps(to_node_link(trace), allow_nan=False)
    write_graphml(trace, tmp_path / "t.graphml")
    back = nx.read_graphml(tmp_path / "t.graphml", node_type=int)
    assert sorted(back.edges) == [(node, node + 1) for node in range(4999)]
