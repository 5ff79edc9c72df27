"""What a policy may be trained towards at a node of a trace: the exact policy that the search's visit counts approach.

Visit counts are a rounded estimate of the policy that maximises q . pi - lambda KL(prior, pi); this file solves for that policy
from the priors, values and visits that a trace keeps. It knows no search method and no training.

Sources: Grill et al. 2020, arXiv:2007.12509, eq. 7 and section 4 (the policy as target). Values of children that have none: the
mixed value of Danihelka et al. 2022, eq. 33.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treewise.search.regularised import regularised_policy
from treewise.search.trace_nodes import NodeTable
from treewise.search.types import InputError


class PolicyTarget(NamedTuple):
    """A distribution over the K children of one node, in order of id."""

    children: NDArray[np.int64]
    """[K] node ids."""
    prior: NDArray[np.float64]
    """[K] probabilities before the search, sum 1."""
    visits: NDArray[np.int64]
    """[K] visits."""
    q: NDArray[np.float64]
    """[K] completed values, all finite."""
    policy: NDArray[np.float64]
    """[K] the target, sum 1; the prior where no child was visited."""


def policy_target(nodes: NodeTable, node: int, *, c: float, own_weight: float = 1.0) -> PolicyTarget:
    """Return the regularised policy over the children of `node`.

    Args:
        nodes: The trace's nodes, N in all; O(N) a call.
        node: One that has children.
        c: Exploration constant of the search, at least 0: lambda = c sqrt(sum n) / (K + sum n).
        own_weight: Visits that a child's own evaluation counts for, as in the search; at least 0.

    Raises:
        InputError: The node does not exist or has no children, or a number is out of range.
    """
    if not 0 <= node < len(nodes):
        raise InputError(f"there is no node {node}", f"ids of this trace are 0 to {len(nodes) - 1}")
    return _target(nodes, node, np.flatnonzero(nodes.parent == node), c=c, own_weight=own_weight)


def policy_targets(nodes: NodeTable, *, c: float, own_weight: float = 1.0) -> dict[int, PolicyTarget]:
    """Return the target of every node of which a child was visited, by node; O(N log N) for all. Arguments as `policy_target`."""
    order = np.argsort(nodes.parent, kind="stable")
    order = order[nodes.parent[order] >= 0]
    found = {}
    for children in np.split(order, np.flatnonzero(np.diff(nodes.parent[order])) + 1):
        if children.size and nodes.visits[children].any():
            node = int(nodes.parent[children[0]])
            found[node] = _target(nodes, node, children, c=c, own_weight=own_weight)
    return found


def _target(nodes: NodeTable, node: int, children: NDArray[np.int64], *, c: float, own_weight: float) -> PolicyTarget:
    if not children.size:
        raise InputError(f"node {node} has no children", "targets are over the children of a node")
    if not 0.0 <= own_weight < np.inf:
        raise InputError(f"own_weight is {own_weight!r}", "give a finite number of at least 0")
    prior = nodes.prior[children].astype(np.float64)
    prior /= prior.sum()
    visits = nodes.visits[children].astype(np.int64)
    q = _completed(nodes, node, children, prior, own_weight=own_weight)
    return PolicyTarget(children, prior, visits, q, regularised_policy(prior, q, visits, c=c).policy)


def _known(nodes: NodeTable, rows: NDArray[np.int64], *, own_weight: float) -> NDArray[np.float64]:
    """Mean of the returns and the own evaluation of each row; NaN where there is neither."""
    visits, own = nodes.visits[rows].astype(np.float64), nodes.value[rows].astype(np.float64)
    weight = np.where(np.isnan(own), 0.0, own_weight)
    total = np.where(visits > 0, visits * nodes.mean[rows], 0.0) + np.where(weight > 0, weight * own, 0.0)
    count = visits + weight
    return np.where(count > 0, total / np.where(count > 0, count, 1.0), np.nan)


def _completed(
    nodes: NodeTable, node: int, children: NDArray[np.int64], prior: NDArray[np.float64], *, own_weight: float
) -> NDArray[np.float64]:
    """Values of the children; those that have none get the mixed value of the node."""
    q = _known(nodes, children, own_weight=own_weight)
    valued = ~np.isnan(q)
    raw = float(nodes.value[node])
    if raw != raw:
        raw = float(_known(nodes, np.array([node]), own_weight=own_weight)[0])
    if raw != raw:
        raw = 0.0
    weights = np.maximum(prior[valued], np.finfo(np.float64).tiny)
    visited = float(nodes.visits[children].sum())
    mixed = (raw + visited * float(weights @ q[valued]) / float(weights.sum())) / (1.0 + visited) if valued.any() else raw
    return np.where(valued, q, mixed)
