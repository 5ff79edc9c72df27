"""Going on from what an earlier search left: its tree is taken over from the trace, and nothing is paid for twice.

Visits and returns are backed up anew, node by node: a node was backed up itself as often as its visits exceed those of its
children, each time with its own value. What a trace does not hold is not known any more: samples that were dropped as empty,
how long a node brought only copies, and a plan of Gumbel's sequential halving. This file knows no file format and no model.
"""

from __future__ import annotations

import math

import numpy as np

from treewise.search.mcts import MCTSSearch
from treewise.search.trace import Trace
from treewise.search.tree import ROOT
from treewise.search.tree_search import TreeSearch
from treewise.search.types import InputError, SearchEnd, Standing, TraceError


def warm_start(search: TreeSearch, trace: Trace, *, policy: str | None = None) -> None:
    """Let a search that has asked nothing yet go on from a trace of the same problem and prompt; budget and bill start anew.

    Args:
        search: Of method mcts with backup "mean" or "max", and any rule but Gumbel.
        trace: What an earlier search by MCTS left.
        policy: Fingerprint of the policy that will be used, to be compared with the trace's; None is not compared.

    Raises:
        InputError: The method cannot go on from a trace.
        TraceError: The trace is of another problem, prompt, method or policy.
    """
    if type(search) is not MCTSSearch or search.settings.rule == "gumbel":
        what = f"method {search.settings.method!r} with rule {search.settings.rule!r} and backup {search.settings.backup!r}"
        raise InputError(
            f"{what} cannot go on from a trace", "use method mcts with backup mean or max, and a rule other than gumbel"
        )
    if trace.problem != search.problem:
        raise TraceError(
            f"the trace is of problem {trace.problem.id!r}, not {search.problem.id!r}", "give the problem's own trace"
        )
    if trace.origin.method != "mcts":
        raise TraceError(f"the trace was made by method {trace.origin.method!r}", "only a trace of mcts holds its visits")
    if policy is not None and trace.origin.policy != policy:
        raise TraceError(f"the trace was made with policy {trace.origin.policy}, not {policy}", "use the same model and sampling")
    search.take_over(trace.nodes)
    nodes, tree = trace.nodes, search.solutions.tree
    below = np.bincount(nodes.parent[1:], weights=nodes.visits[1:], minlength=len(nodes))
    own = nodes.visits - below.astype(np.int64)
    for node in range(len(nodes)):
        standing, value = nodes.standing[node], float(nodes.value[node])
        dead = standing is Standing.DEAD
        if not math.isnan(value):
            tree.set_value(node, value)
        if node != ROOT and standing is not Standing.OPEN:
            tree.set_terminal(node)
        if own[node] < 0 or (own[node] > 0 and math.isnan(value) and not dead):
            raise TraceError(
                f"node {node} of problem {trace.problem.id!r} has visits that its children do not explain", "search anew"
            )
        for _ in range(int(own[node])):
            tree.backup(node, 0.0 if dead else value)
    never_wider = search.settings.widening_k == 0
    for node in np.unique(nodes.parent[1:]).tolist():
        if never_wider or nodes.exhausted[node]:
            tree.close(node)
    if search.settings.stop_when_proven and nodes.proven.any():
        search.stop(SearchEnd.PROVEN)
