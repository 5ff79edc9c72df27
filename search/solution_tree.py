"""A tree of partial solutions: structure, tokens, and what the task says of each node.

All search methods grow one of these, so that answers and traces are made the same way for each. It knows the task, no
model, no budget and no selection rule. Nothing that was generated is thrown away: a step becomes a node, or counts as
another copy of an identical sibling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from treewise.search.tokens import TokenStore
from treewise.search.trace_nodes import NodeTable
from treewise.search.tree import ROOT, Tree
from treewise.search.types import Finish, Ids, InputError, Judgement, Path, Problem, Standing, Step, Task, TraceError

RECENT = 32
"""Paths of one search that are kept whole: those of its lanes, which are asked for several times a step."""

_FINISHES = {finish.value: finish for finish in Finish}

Merge = Literal["ids", "text", "none"]


@dataclass(slots=True)
class Growth:
    """What one proposal added below one node."""

    new: list[int] = field(default_factory=list)
    """New nodes, parents before children."""
    tips: list[int] = field(default_factory=list)
    """The last node of each sample, new or known, in sample order."""
    first: list[int] = field(default_factory=list)
    """The first node of each sample, new or known."""
    tokens: int = 0
    """Tokens generated, kept or not."""
    steps: int = 0
    """Steps generated."""
    duplicates: int = 0
    """Steps merged into an identical sibling."""
    dropped: int = 0
    """Samples with no token, or given up by the backend."""
    cut: int = 0
    """New nodes that ended a path for want of room."""


class SolutionTree:
    """Structure, tokens and judgements of one search."""

    def __init__(self, problem: Problem, prompt_ids: Ids, *, task: Task, max_steps: int, merge: Merge) -> None:
        if not prompt_ids:
            raise InputError(f"problem {problem.id!r} has an empty prompt", "give it some text")
        self.problem = problem
        self.task = task
        self.max_steps = max_steps
        self.tree = Tree()
        self.tokens = TokenStore()
        self.tokens.append(prompt_ids, (float("nan"),) * len(prompt_ids), "", "")
        self.standings = [Standing.OPEN]
        self.judgements: dict[int, Judgement] = {}
        """Of every node that is FINISHED or DEAD."""
        self.finished: list[int] = []
        """FINISHED nodes in order of creation."""
        self.finished_samples = 0
        """Samples that ended in them."""
        self._merge: Merge = merge
        self._known: dict[tuple[int, object, Finish], int] = {}
        self._prompt_length = len(prompt_ids)
        self._root = Path(problem, prompt_ids, (), len(prompt_ids), (), Finish.SEPARATOR)
        self._recent: dict[int, Path] = {}
        """The paths made last, the oldest first: those of the lanes at work."""

    def path(self, node: int) -> Path:
        """Return the partial solution that ends in `node`."""
        known = self._recent.get(node)
        if known is not None:
            return known
        start, missing = self._root, []
        for step in self.tree.path(node)[:0:-1].tolist():
            ancestor = self._recent.get(step)
            if ancestor is not None:
                start = ancestor
                break
            missing.append(step)
        if not missing:
            return start
        ids, ends, texts = list(start.ids), list(start.ends), list(start.texts)
        for step in reversed(missing):
            ids.extend(self.tokens.ids(step))
            ends.append(len(ids))
            texts.append(self.tokens.text(step))
        finish = _FINISHES[self.tokens.finish(node)]
        return self._remember(node, Path(self.problem, tuple(ids), tuple(ends), self._prompt_length, tuple(texts), finish))

    def grow(self, node: int, samples: Sequence[Sequence[Step]]) -> Growth:
        """Add the samples of one proposal below `node` and judge what is new."""
        growth = Growth()
        kept: list[Sequence[Step]] = []
        for sample in samples:
            growth.tokens += sum(len(step.ids) for step in sample)
            growth.steps += len(sample)
            if not sample or any(step.finish is Finish.ERROR or not step.ids for step in sample):
                growth.dropped += 1
            else:
                kept.append(sample)
        if not kept:
            return growth
        parent = self.path(node)
        exact = any(len(sample) > 1 for sample in kept)
        growth.first = self._place(node, parent, [sample[0] for sample in kept], growth, exact=exact)
        for tip, sample in zip(growth.first, kept, strict=True):
            for step in sample[1:]:
                if self.standings[tip] is not Standing.OPEN:
                    break
                (tip,) = self._place(tip, self.path(tip), [step], growth, exact=True)
            growth.tips.append(tip)
        return growth

    def restore(self, nodes: NodeTable) -> None:
        """Take over the nodes of an earlier search for the same prompt, with their ids. Only a tree of the root alone may.

        Values and visits are left to the caller. Raises TraceError when the prompt's ids are others.
        """
        assert self.tree.size == 1, "only a fresh tree takes over nodes"
        if nodes.path_ids(ROOT) != self._root.ids:
            raise TraceError(
                f"the trace of problem {self.problem.id!r} has another prompt", "use the same model, task and prompt"
            )
        for node in range(1, len(nodes)):
            above, copies = int(nodes.parent[node]), int(nodes.multiplicity[node])
            self.tree.add_children(above, [float(copies)], multiplicity=[copies])
            finish = nodes.finish[node] or Finish.SEPARATOR
            step = Step(
                tuple(nodes.node_ids(node).tolist()), tuple(nodes.node_logprobs(node).tolist()), nodes.texts[node], finish
            )
            self.tokens.append(step.ids, step.logprobs, step.text, finish.value)
            self._known[self._key(above, step, 0, exact=False)] = node
            self.standings.append(Standing.OPEN)
            if nodes.node_outputs(node).size:
                self.tokens.set_outputs(node, nodes.node_outputs(node).tolist())
            if nodes.standing[node] is not Standing.OPEN:
                answer, reason, proven = nodes.answers[node], nodes.reasons[node], bool(nodes.proven[node])
                self.end(node, Judgement(nodes.standing[node], answer, reason, proven))

    def end(self, node: int, judgement: Judgement) -> None:
        """Record that nothing follows `node`: FINISHED or DEAD."""
        self.standings[node] = judgement.standing
        self.judgements[node] = judgement
        if judgement.standing is Standing.FINISHED:
            self.finished.append(node)
            self.finished_samples += self.tree.multiplicity(node)

    def _remember(self, node: int, path: Path) -> Path:
        if len(self._recent) >= RECENT:
            del self._recent[next(iter(self._recent))]
        self._recent[node] = path
        return path

    def _place(self, node: int, parent: Path, steps: Sequence[Step], growth: Growth, *, exact: bool) -> list[int]:
        """Return the child of `node` for each step; new children are appended, copies counted.

        `exact`: never merge by text. What follows in the same sample was written after just these ids and no others.
        """
        weights: dict[tuple[int, object, Finish], int] = {}
        fresh: list[Step] = []
        keys = []
        for index, step in enumerate(steps):
            key = self._key(node, step, index, exact=exact)
            keys.append(key)
            if key in self._known:
                known = self._known[key]
                self.tree.add_multiplicity(known, 1.0)
                self.finished_samples += self.standings[known] is Standing.FINISHED
                growth.duplicates += 1
            elif key in weights:
                weights[key] += 1
                growth.duplicates += 1
            else:
                weights[key] = 1
                fresh.append(step)
        if fresh:
            counts = np.fromiter(weights.values(), dtype=np.int64, count=len(weights))
            first = self.tree.add_children(node, counts.astype(np.float64), multiplicity=counts)
            for offset, (key, step) in enumerate(zip(weights, fresh, strict=True)):
                child = first + offset
                self.tokens.append(step.ids, step.logprobs, step.text, step.finish.value)
                self.standings.append(Standing.OPEN)
                self._known[key] = child
                growth.new.append(child)
                self._judge(child, parent, step, growth)
        return [self._known[key] for key in keys]

    def _key(self, node: int, step: Step, index: int, *, exact: bool) -> tuple[int, object, Finish]:
        if self._merge == "none":
            return (node, (len(self.standings), index), step.finish)
        by_text = self._merge == "text" and not exact
        return (node, " ".join(step.text.split()) if by_text else step.ids, step.finish)

    def _judge(self, child: int, parent: Path, step: Step, growth: Growth) -> None:
        ids = parent.ids + step.ids
        path = Path(self.problem, ids, (*parent.ends, len(ids)), self._prompt_length, (*parent.texts, step.text), step.finish)
        self._remember(child, path)
        judgement = self.task.judge(path)
        if judgement.standing is Standing.OPEN:
            if step.finish is Finish.END:
                judgement = Judgement(Standing.DEAD, reason="the text ended without an answer")
            elif len(path.ends) >= self.max_steps:
                judgement = Judgement(Standing.DEAD, reason=f"no answer within {self.max_steps} steps")
                growth.cut += 1
        elif judgement.standing is Standing.DEAD and step.finish is Finish.LENGTH:
            growth.cut += 1
        if judgement.standing is not Standing.OPEN:
            self.end(child, judgement)
