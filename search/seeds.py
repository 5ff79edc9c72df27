"""A sampling seed for every sibling, by hash of (run, problem, node, index), so that no order of events changes it."""

from __future__ import annotations

from hashlib import blake2b


def sibling_seed(run: int, problem_id: str, node: int, index: int) -> int:
    """Return a seed in [0, 2**63) for the `index`-th sample ever asked of `node`.

    >>> sibling_seed(0, "a", 0, 0) == sibling_seed(0, "a", 0, 1)
    False
    """
    key = f"{run}\x1f{problem_id}\x1f{node}\x1f{index}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little") >> 1
