"""Traces as graphs: networkx, node-link JSON, GraphML. One graph node a step, one edge from parent to child.

It knows no search and changes nothing. networkx is loaded with the first call.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from treewise.search.atomic_file import atomic_file
from treewise.search.trace import Trace
from treewise.search.trace_nodes import NodeTable
from treewise.search.types import Scalar

if TYPE_CHECKING:
    import networkx as nx

Json: TypeAlias = Scalar | list["Json"] | dict[str, "Json"]
"""A value of strict JSON."""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_networkx(trace: Trace) -> nx.DiGraph:
    """Return the tree with every column of the trace as node attributes and the head as graph attributes.

    Nodes are the node ids 0 to N - 1. A number that the trace lacks (NaN) is None; lists are plain lists.
    """
    import networkx as nx

    graph = nx.DiGraph(**trace.head())
    columns = _columns(trace.nodes)
    for node in range(len(trace.nodes)):
        graph.add_node(node, **{name: values[node] for name, values in columns.items()})
    graph.add_edges_from((parent, node) for node, parent in enumerate(trace.nodes.parent.tolist()) if node)
    return graph


def to_node_link(trace: Trace) -> dict[str, Json]:
    """Return the graph of `to_networkx` in networkx's node-link form, as strict JSON.

    Infinite numbers, which strict JSON has not, become the texts "Infinity" and "-Infinity".
    """
    import networkx as nx

    return {key: _strict(value) for key, value in nx.node_link_data(to_networkx(trace), edges="edges").items()}


def write_graphml(trace: Trace, path: str | Path) -> None:
    """Write the graph of `to_networkx` as GraphML, whole or not at all. `networkx.read_graphml` reads it.

    GraphML has neither lists nor None: lists and the bill become JSON texts, None becomes an empty text. Characters that
    XML cannot hold become U+FFFD, and XML readers turn a carriage return into a line feed.

    Raises:
        InputError: the file cannot be written; the message names it.
    """
    import networkx as nx

    graph = to_networkx(trace)
    flat = nx.DiGraph(**{name: _flat(value) for name, value in graph.graph.items()})
    flat.add_nodes_from((node, {name: _flat(value) for name, value in data.items()}) for node, data in graph.nodes(data=True))
    flat.add_edges_from(graph.edges)
    with atomic_file(path) as file:
        nx.write_graphml(flat, file)


def _columns(nodes: NodeTable) -> dict[str, list[Json]]:
    every = range(len(nodes))
    return {
        "depth": nodes.depth.tolist(),
        "ids": [nodes.node_ids(node).tolist() for node in every],
        "logprobs": [[_or_none(x) for x in nodes.node_logprobs(node).tolist()] for node in every],
        "text": list(nodes.texts),
        "prior": [_or_none(x) for x in nodes.prior.tolist()],
        "multiplicity": nodes.multiplicity.tolist(),
        "visits": nodes.visits.tolist(),
        "mean": [_or_none(x) for x in nodes.mean.tolist()],
        "best": [_or_none(x) for x in nodes.best.tolist()],
        "value": [_or_none(x) for x in nodes.value.tolist()],
        "outputs": [[_or_none(x) for x in nodes.node_outputs(node).tolist()] for node in every],
        "finish": [None if word is None else word.value for word in nodes.finish],
        "standing": [word.value for word in nodes.standing],
        "reason": list(nodes.reasons),
        "answer": list(nodes.answers),
        "proven": nodes.proven.tolist(),
        "exhausted": nodes.exhausted.tolist(),
    }


def _or_none(number: float) -> float | None:
    return None if math.isnan(number) else number


def _strict(value: object) -> Json:
    if isinstance(value, dict):
        return {str(key): _strict(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_strict(entry) for entry in value]
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"{value!r} is no JSON")


def _flat(value: object) -> str | int | float:
    if value is None:
        return ""
    if isinstance(value, list | dict):
        value = json.dumps(_strict(value), ensure_ascii=False)
    if isinstance(value, str):
        return _NOT_XML.sub("\ufffd", value)
    if isinstance(value, int | float):
        return value
    raise TypeError(f"{value!r} has no place in GraphML")
