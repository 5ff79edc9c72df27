"""`TokenStore`: the tokens that each node adds, in flat growable arrays, one entry a node in order of id.

The concatenation of ids along a path is exactly what the model saw. It knows no tokenizer; of trees it needs the path of a node.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treewise.search.types import Finish, Ids, InputError

if TYPE_CHECKING:
    from treewise.search.tree import Tree

_FINISHES = ("", *(finish.value for finish in Finish))
_CODES = {finish: code for code, finish in enumerate(_FINISHES)}
_NONE_YET = -1


class TokenColumns(NamedTuple):
    """Copies of all entries, flat; entry i is `x[offsets[i]:offsets[i + 1]]`."""

    ids: NDArray[np.int32]
    """[T]"""
    id_offsets: NDArray[np.int64]
    """[N + 1]"""
    logprobs: NDArray[np.float32]
    """[T] nats; NaN where there is none."""
    outputs: NDArray[np.float32]
    """[M]"""
    output_offsets: NDArray[np.int64]
    """[N + 1]"""
    texts: list[str]
    """[N]"""
    finishes: list[str]
    """[N] values of `Finish`, or an empty string."""


class TokenStore:
    """Ids, log-probabilities, text, finish reason and evaluator outputs of every node."""

    def __init__(self) -> None:
        self._ids = array("i")
        self._logprobs = array("f")
        self._ends = array("q", [0])
        self._text = bytearray()
        self._text_ends = array("q", [0])
        self._finish = bytearray()
        self._outputs = array("f")
        self._output_starts = array("q")
        self._output_counts = array("i")

    def __len__(self) -> int:
        return len(self._finish)

    def append(self, ids: Sequence[int], logprobs: Sequence[float], text: str, finish: str) -> int:
        """Add the entry of the next node and return its index.

        Args:
            ids: Token ids that the node adds.
            logprobs: Log-probability of each in nats; NaN where there is none (prompts).
            text: The ids as text; lone surrogates are kept.
            finish: A value of `Finish`, or an empty string for the prompt.

        Raises:
            InputError: The lengths differ, an id does not fit 32 bits, or the finish reason is unknown. Nothing is added then.
        """
        if len(ids) != len(logprobs):
            raise InputError(f"{len(ids)} token ids with {len(logprobs)} log-probabilities", "the policy must give one a token")
        code = _CODES.get(finish)
        if code is None:
            raise InputError(f"finish reason is {finish!r}", f"it must be one of {', '.join(map(repr, _FINISHES))}")
        before = len(self._ids)
        try:
            self._ids.extend(ids)
            self._logprobs.extend(logprobs)
        except (TypeError, OverflowError) as cause:
            del self._ids[before:], self._logprobs[before:]
            raise InputError(f"token ids or log-probabilities are unusable: {cause}", "ids are integers below 2**31") from cause
        self._text += text.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._ids))
        self._text_ends.append(len(self._text))
        self._finish.append(code)
        self._output_starts.append(_NONE_YET)
        self._output_counts.append(0)
        return len(self._finish) - 1

    def set_outputs(self, node: int, outputs: Sequence[float]) -> None:
        """Keep the evaluator's raw numbers for `node`. Raises InputError when it has some already."""
        self._check(node)
        if self._output_starts[node] != _NONE_YET:
            raise InputError(f"node {node} has evaluator outputs already", "a node is evaluated once")
        self._output_starts[node] = len(self._outputs)
        self._output_counts[node] = len(outputs)
        self._outputs.extend(outputs)

    def ids(self, node: int) -> Ids:
        """Return the token ids that `node` adds."""
        self._check(node)
        return tuple(self._ids[self._ends[node] : self._ends[node + 1]])

    def logprobs(self, node: int) -> tuple[float, ...]:
        """Return their log-probabilities in nats, as float32; NaN where there is none."""
        self._check(node)
        return tuple(self._logprobs[self._ends[node] : self._ends[node + 1]])

    def text(self, node: int) -> str:
        """Return the text of the ids."""
        self._check(node)
        return self._text[self._text_ends[node] : self._text_ends[node + 1]].decode("utf-8", "surrogatepass")

    def finish(self, node: int) -> str:
        """Return why the step ended: a value of `Finish`, or an empty string."""
        self._check(node)
        return _FINISHES[self._finish[node]]

    def outputs(self, node: int) -> tuple[float, ...]:
        """Return the evaluator's raw numbers, as float32; empty when it gave none."""
        self._check(node)
        start = self._output_starts[node]
        return tuple(self._outputs[start : start + self._output_counts[node]]) if start != _NONE_YET else ()

    def path_ids(self, tree: Tree, node: int) -> Ids:
        """Return the ids from the root to `node`, end to end: what the model saw."""
        found = array("i")
        for step in tree.path(node).tolist():
            self._check(step)
            found += self._ids[self._ends[step] : self._ends[step + 1]]
        return tuple(found)

    def _check(self, node: int) -> None:
        if not 0 <= node < len(self):
            raise InputError(f"there are no tokens of node {node}", f"entries 0 to {len(self) - 1} exist")

    def columns(self) -> TokenColumns:
        """Return copies of everything, flat."""
        nodes = len(self)
        counts = np.array(self._output_counts, np.int64)
        outputs = array("f")
        for node in range(nodes):
            start = self._output_starts[node]
            if start != _NONE_YET:
                outputs += self._outputs[start : start + self._output_counts[node]]
        return TokenColumns(
            ids=np.array(self._ids, np.int32),
            id_offsets=np.array(self._ends, np.int64),
            logprobs=np.array(self._logprobs, np.float32),
            outputs=np.array(outputs, np.float32),
            output_offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
            texts=[self.text(node) for node in range(nodes)],
            finishes=[_FINISHES[code] for code in self._finish],
        )
