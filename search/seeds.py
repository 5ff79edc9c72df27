"""A sampling seed for every sibling, and lots for random choices, by hash, so that no order of events changes them."""

from __future__ import annotations

from hashlib import blake2b


def sibling_seed(run: int, problem_id: str, node: int, index: int) -> int:
    """Return a seed in [0, 2**63) for the `index`-th sample ever asked of `node`.

    >>> sibling_seed(0, "a", 0, 0) == sibling_seed(0, "a", 0, 1)
    False
    """
    key = f"{run}\x1f{problem_id}\x1f{node}\x1f{index}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little") >> 1


def lot(run: int, problem_id: str, purpose: str, index: int) -> float:
    """Return a number drawn uniformly from [0, 1): the `index`-th that one search draws for a purpose.

    >>> 0 <= lot(0, "a", "rank", 3) < 1
    True
    """
    key = f"{run}\x1f{problem_id}\x1f{purpose}\x1f{index}".encode("utf-8", "surrogatepass")
    return (int.from_bytes(blake2b(key, digest_size=8, person=b"lot").digest(), "little") >> 11) / (1 << 53)
