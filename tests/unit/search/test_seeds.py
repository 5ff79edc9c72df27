"""Every sibling has its own seed."""

from __future__ import annotations

from treewise.search.seeds import sibling_seed


def test_seeds_differ_over_run_problem_node_and_index_and_fit_63_bits() -> None:
    keys = [(r, p, n, i) for r in range(3) for p in ("a", "b", "a1") for n in range(12) for i in range(12)]
    seeds = {sibling_seed(r, p, n, i) for r, p, n, i in keys}
    assert len(seeds) == len(keys)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_seed_depends_on_nothing_else() -> None:
    assert sibling_seed(1, "x", 2, 3) == sibling_seed(1, "x", 2, 3)


def test_fields_are_kept_apart() -> None:
    assert sibling_seed(0, "a", 11, 1) != sibling_seed(0, "a", 1, 11)
    assert sibling_seed(1, "1", 1, 1) != sibling_seed(11, "", 1, 1)
