"""Limits hold under any mix of reservations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treewise.search.budget import Budget, Meter
from treewise.search.types import InputError


@given(st.integers(0, 200), st.lists(st.tuples(st.integers(0, 60), st.floats(0, 1)), max_size=30), st.randoms())
def test_spent_and_reserved_tokens_never_pass_the_limit(limit: int, requests: list[tuple[int, float]], random) -> None:
    meter = Meter(Budget(tokens=limit))
    open_requests: list[tuple[int, int]] = []
    for size, share in requests:
        left = meter.tokens_left()
        assert left is not None
        if size > left:
            with pytest.raises(ValueError, match="asked of"):
                meter.reserve(size)
        else:
            meter.reserve(size)
            open_requests.append((size, int(size * share)))
        if open_requests and random.random() < 0.5:
            reserved, used = open_requests.pop(random.randrange(len(open_requests)))
            meter.settle(reserved=reserved, used=used)
        assert meter.tokens + meter.reserved_tokens <= limit
    for reserved, used in open_requests:
        meter.settle(reserved=reserved, used=used)
    assert meter.reserved_tokens == 0
    assert meter.tokens <= limit


def test_using_more_than_was_reserved_is_an_error() -> None:
    meter = Meter(Budget(tokens=10))
    meter.reserve(4)
    with pytest.raises(ValueError, match="5 tokens used of 4"):
        meter.settle(reserved=4, used=5)


@pytest.mark.parametrize("field", ["simulations", "tokens", "evaluator_tokens", "seconds"])
def test_a_negative_limit_names_the_field(field: str) -> None:
    with pytest.raises(InputError, match=f"budget {field} is -1"):
        Budget(**{field: -1})


@pytest.mark.parametrize(
    ("budget", "spent"),
    [
        (Budget(), False),
        (Budget(tokens=0), True),
        (Budget(simulations=0), True),
        (Budget(evaluator_tokens=0), True),
        (Budget(tokens=1), False),
    ],
)
def test_a_limit_of_nothing_is_spent_from_the_start(budget: Budget, spent: bool) -> None:
    assert Meter(budget).spent() is spent


@pytest.mark.parametrize(
    ("field", "value"),
    [("tokens", float("inf")), ("simulations", 2.5), ("evaluator_tokens", "9"), ("seconds", "9"), ("tokens", True)],
)
def test_a_limit_of_another_type_is_refused(field: str, value: object) -> None:
    with pytest.raises(InputError, match=field):
        Budget(**{field: value})  # type: ignore[arg-type]
