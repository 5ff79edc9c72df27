"""The peers that run on the scripted worlds: what to install, which methods they have, which knobs these have.

Of each knob the first value is the default: the library's own, or where its user has to choose, that of its documentation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

Value: TypeAlias = "float | str | None"
Options: TypeAlias = "dict[str, Value]"


@dataclass(frozen=True)
class Peer:
    """One library."""

    requirements: tuple[str, ...]
    """Arguments of pip."""
    adapter: str
    """Module that runs in its environment."""


@dataclass(frozen=True)
class Method:
    """One method of a peer with its knobs."""

    peer: str
    name: str
    """As the adapter calls it."""
    knobs: MappingProxyType[str, tuple[Value, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Values to try, the default first; the knobs that matter most come first."""
    extra: MappingProxyType[str, Options] = field(default_factory=lambda: MappingProxyType({}))
    """Configurations that are measured besides, by name: what they change in the default."""

    thinned: int = 1
    """Only so many times fewer seeds are used, where a search is slow."""

    @property
    def title(self) -> str:
        """Peer and method."""
        return f"{self.peer} {self.name}"

    def defaults(self) -> Options:
        """Return the default configuration."""
        return {name: values[0] for name, values in self.knobs.items()}


PEERS: dict[str, Peer] = {
    "its_hub": Peer(("its_hub==1.2.0",), "benchmarks.peer_its_hub"),
    "llm-reasoners": Peer(("--no-deps", "llm-reasoners==1.0.2", "numpy", "tqdm"), "benchmarks.peer_llm_reasoners"),
    "treequest": Peer(("treequest==0.3.3",), "benchmarks.peer_treequest"),
    "crucible-ttc": Peer(("crucible-ttc==0.1.1",), "benchmarks.peer_crucible"),
}


def _knobs(**values: tuple[Value, ...]) -> MappingProxyType[str, tuple[Value, ...]]:
    return MappingProxyType(values)


METHODS: tuple[Method, ...] = (
    Method("its_hub", "beam", _knobs(beam_width=(4, 2, 8, 16, 1), aggregate=("prod", "last", "mean", "min"))),
    Method(
        "its_hub",
        "particle-filter",
        _knobs(
            aggregate=("prod", "last", "mean", "min"),
            variant=("plain", "entropic", "gibbs"),
            selection=("argmax", "sample"),
        ),
    ),
    Method("its_hub", "best-of-n", _knobs(aggregate=("prod", "last", "mean", "min"))),
    Method("its_hub", "self-consistency"),
    Method(
        "llm-reasoners",
        "mcts",
        _knobs(
            cum_reward=("sum", "mean", "last", "min"),
            exploration=(1.0, 0.3, 0.1),
            actions=(4, 2, 8),
            calc_q=("mean", "max"),
        ),
    ),
    Method("llm-reasoners", "beam", _knobs(aggregate=("last", "mean", "prod", "min"), actions=(4, 2, 8, 16))),
    Method(
        "treequest",
        "mcts",
        _knobs(
            best=("score", "finished"),
            exploration=(2**0.5, 0.5, 0.15),
            children=(2, 4, 8),
            aggregate=("last", "mean", "prod"),
            progress=("no", "yes"),
            rollout=("no", "yes"),
            batch=(1,),
        ),
        MappingProxyType({"batch 64": {"batch": 64, "children": 4}}),
    ),
    Method(
        "treequest",
        "ab-mcts-a",
        _knobs(
            best=("score", "finished"),
            progress=("no", "yes"),
            rollout=("no", "yes"),
            aggregate=("last", "mean", "prod"),
            spread=(0.1, 0.01),
            mean=(0.0, 0.5),
            dist=("gaussian", "beta"),
            batch=(1,),
        ),
        thinned=3,
    ),
    Method(
        "crucible-ttc",
        "beam",
        _knobs(width=(4, None), aggregate=("mean", "last", "min", "prod"), expansions=(4, 2, 8)),
    ),
    Method(
        "crucible-ttc",
        "mcts",
        _knobs(
            exploration=(1.4, 0.5, 0.15, 0.05),
            aggregate=("mean", "last", "min", "prod"),
            expansions=(4, 2, 8),
        ),
    ),
    Method("crucible-ttc", "best-of-n", _knobs(selection=("majority", "prm"), aggregate=("mean", "last", "min", "prod"))),
)
"""Every method that is run."""
