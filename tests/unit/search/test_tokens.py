"""The token store keeps what was appended, and a path is the concatenation of its nodes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treewise.search.tokens import TokenStore
from treewise.search.tree import ROOT, Tree
from treewise.search.types import Finish, InputError


def filled() -> TokenStore:
    store = TokenStore()
    store.append((7, 8, 9), (math.nan,) * 3, "prompt", "")
    store.append((1, 2), (-0.5, -0.25), "é\n", Finish.SEPARATOR.value)
    store.append((), (), "", Finish.ERROR.value)
    store.append((3,), (-1.0,), "\ud800x", Finish.END)
    return store


def test_entries_come_back_as_they_went_in() -> None:
    store = filled()
    assert len(store) == 4
    assert [store.ids(i) for i in range(4)] == [(7, 8, 9), (1, 2), (), (3,)]
    assert [store.text(i) for i in range(4)] == ["prompt", "é\n", "", "\ud800x"]
    assert [store.finish(i) for i in range(4)] == ["", "separator", "error", "end"]
    assert store.logprobs(1) == (-0.5, -0.25)
    assert all(math.isnan(x) for x in store.logprobs(0))


def test_a_path_is_the_ids_end_to_end() -> None:
    """T14: ids are kept, never made again from text."""
    store, tree = filled(), Tree()
    tree.add_children(ROOT, [1.0, 1.0])
    tree.add_children(1, [1.0])
    assert store.path_ids(tree, 3) == (7, 8, 9, 1, 2, 3)
    assert store.path_ids(tree, ROOT) == (7, 8, 9)


def test_outputs_are_set_once_in_any_order() -> None:
    """S16: outputs belong to the node they were given for."""
    store = filled()
    store.set_outputs(3, (0.5, 0.25))
    store.set_outputs(1, (0.75,))
    assert [store.outputs(i) for i in range(4)] == [(), (0.75,), (), (0.5, 0.25)]
    with pytest.raises(InputError, match="node 3"):
        store.set_outputs(3, (0.1,))
    columns = store.columns()
    assert columns.outputs.tolist() == [0.75, 0.5, 0.25]
    assert columns.output_offsets.tolist() == [0, 0, 1, 1, 3]


def test_columns_hold_everything() -> None:
    columns = filled().columns()
    assert columns.ids.tolist() == [7, 8, 9, 1, 2, 3]
    assert columns.id_offsets.tolist() == [0, 3, 5, 5, 6]
    assert np.isnan(columns.logprobs).tolist() == [True, True, True, False, False, False]
    assert columns.texts[1] == "é\n"
    assert columns.finishes == ["", "separator", "error", "end"]


@pytest.mark.parametrize(
    ("ids", "logprobs", "finish"),
    [
        ((1, 2), (-0.1,), "end"),
        ((1,), (-0.1,), "done"),
        ((2**31,), (-0.1,), "end"),
        (("a",), (-0.1,), "end"),
        ((1,), ("b",), "end"),
    ],
)
def test_unusable_entries_are_refused_and_leave_nothing(ids: tuple, logprobs: tuple, finish: str) -> None:
    store = filled()
    with pytest.raises(InputError):
        store.append(ids, logprobs, "x", finish)
    assert store.append((5,), (-0.1,), "y", "end") == 4
    assert store.ids(4) == (5,)
    assert store.logprobs(4) == pytest.approx((-0.1,))
    assert store.text(4) == "y"


def test_unknown_nodes_are_named() -> None:
    with pytest.raises(InputError, match="node 4"):
        filled().ids(4)
    with pytest.raises(InputError, match="node -1"):
        filled().text(-1)
