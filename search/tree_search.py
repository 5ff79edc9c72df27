"""What all search methods share: the solution tree, limits and bill, how a search ends, its answer.

A method subclasses `TreeSearch` and gives `_next_asks`, `_grown` and `_valued`; everything about tickets, reservations, rounds,
errors and ends is here. It knows no model and no clock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from treewise.search.answer import Candidate, Choice, aggregate, choose, why_none
from treewise.search.budget import Budget, Meter
from treewise.search.seeds import sibling_seed
from treewise.search.settings import LANES, WIDTHS, SearchSettings
from treewise.search.solution_tree import Growth, SolutionTree
from treewise.search.trace import Origin, Trace, build_trace
from treewise.search.tree import State
from treewise.search.types import (
    Answer,
    Ask,
    Bill,
    ContextOverflow,
    Evaluation,
    EvaluationAsk,
    EvaluatorError,
    Ids,
    Judgement,
    PolicyError,
    Problem,
    Proposal,
    ProposalAsk,
    SearchEnd,
    Standing,
    StepRequest,
    Task,
    TreewiseError,
)

TRACED = ("parent", "depth", "prior", "multiplicity", "visits", "mean", "best", "value", "exhausted")
"""Tree columns that a trace keeps as they are."""

MOST_BARREN = 3
"""Proposals in a row without a usable sample that end a search as failed."""

REASONS = {
    SearchEnd.BUDGET: "the budget is spent",
    SearchEnd.PROVEN: "the task proves the answer right",
    SearchEnd.EXHAUSTED: "every path is finished or dead",
    SearchEnd.SETTLED: "the rest of the budget cannot change the answer",
    SearchEnd.CONFIDENT: "the answer is probable enough",
    SearchEnd.COMPLETE: "the method has done all that it does",
    SearchEnd.CANCELLED: "the search was cancelled",
}


@dataclass(slots=True)
class Errand:
    """One proposal under way, and what it becomes while its new nodes are valued."""

    node: int
    """The node whose continuations were asked for."""
    samples: int
    """How many were asked for."""
    reserved: int
    """Policy tokens set aside; 0 once they are charged."""
    round: int
    """Length of the longest chain of proposals that led to this one, itself included."""
    growth: Growth | None = None
    """Set once it is back."""
    waiting: tuple[int, ...] = ()
    """New nodes whose values are asked for."""


class TreeSearch(ABC):
    """A search over one problem; see `types.Search` for the protocol."""

    def __init__(
        self,
        problem: Problem,
        prompt_ids: Ids,
        *,
        task: Task,
        settings: SearchSettings,
        budget: Budget,
        seed: int,
        context_length: int,
    ) -> None:
        self.settings = settings
        self.budget = budget
        self.seed = seed
        self.context_length = context_length
        self.step_tokens = settings.step_tokens or task.step_tokens
        self.max_steps = settings.max_steps or task.max_steps
        self.width = settings.width or WIDTHS.get(settings.method, 1)
        self.lanes = settings.lanes or LANES.get(settings.method, 1)
        self.solutions = SolutionTree(problem, prompt_ids, task=task, max_steps=self.max_steps, merge=settings.merge)
        self.meter = Meter(budget)
        self.end: SearchEnd | None = None
        self.error: TreewiseError | None = None
        self._bill = Bill()
        self._errands: dict[int, Errand] = {}
        self._tickets = 0
        self._asked: dict[int, int] = {}
        self._outbox: list[Ask] = []
        self._rounds_told = 0
        self._barren = 0
        """Proposals in a row without a usable sample."""
        self._proof = False
        """Whether a finished path is proven and valued."""
        if len(prompt_ids) >= context_length:
            raise ContextOverflow(
                f"problem {problem.id!r} has a prompt of {len(prompt_ids)} tokens and the model's context is {context_length}",
                "shorten the problem or take a model with a longer context",
            )

    # What a method gives.

    @abstractmethod
    def _next_asks(self) -> None:
        """Start what can be started now, through `_propose`; call `_finish` when nothing is under way and nothing can start."""

    @abstractmethod
    def _grown(self, errand: Errand) -> None:
        """A proposal's nodes are in the tree and valued."""

    @abstractmethod
    def _abandoned(self, errand: Errand) -> None:
        """A proposal will never come back; undo its marks."""

    @abstractmethod
    def _votes_left(self) -> int | None:
        """Most samples that may still finish; None when nothing bounds them."""

    def _planned_step(self) -> int | None:
        """The root's child that the method's plan ends with; None without a plan."""
        return None

    def _read(self, node: int, evaluation: Evaluation) -> None:  # noqa: B027 - optional
        """A node's evaluation is back; for methods that want more of it than its value."""

    # The protocol.

    @property
    def problem(self) -> Problem:
        """The problem."""
        return self.solutions.problem

    @property
    def seconds(self) -> float | None:
        """Wall-clock seconds that the driver may give it; None is no limit."""
        return self.budget.seconds

    @property
    def done(self) -> bool:
        """Whether the search has ended."""
        return self.end is not None

    @property
    def bill(self) -> Bill:
        """What it has used so far."""
        return self._bill

    def ask(self) -> list[Ask]:
        """Return the requests wanted now; empty while it waits or when it is done."""
        if not self.done:
            self._next_asks()
        asks, self._outbox = self._outbox, []
        return [] if self.done else asks

    def tell(self, ticket: int, result: Proposal | Sequence[Evaluation]) -> None:
        """Apply one result. Raises KeyError for a ticket that is not under way."""
        if self.done:
            return
        errand = self._errands[ticket]
        if isinstance(result, Proposal):
            self._take_proposal(ticket, errand, result)
        else:
            self._take_values(ticket, errand, result)

    def fail(self, error: TreewiseError) -> None:
        """End with an error; what is finished is kept."""
        self.error = error
        self._finish(SearchEnd.FAILED)

    def stop(self, end: SearchEnd) -> None:
        """End now; what is finished is kept."""
        self._finish(end)

    def answer(self) -> Answer:
        """Return the best finished answer so far; its text is None when nothing finished."""
        end = self.end or SearchEnd.CANCELLED
        reason = str(self.error) if self.error is not None else REASONS[end]
        choice, unvalued = self._choice(), self._unvalued()
        text = node = value = None
        if choice is not None and not (unvalued and self._proven(unvalued.node) and not self._proven(choice.candidate.node)):
            text, node, value = choice.candidate.text, choice.candidate.node, choice.value
            if self.settings.choice == "planned" and not self._proven(node) and not self._below_plan([choice.candidate]):
                reason = f"{reason}; nothing finished below the planned first step, so the best of the others was chosen"
        elif unvalued is not None:
            text, node = unvalued.text, unvalued.node
            reason = f"{reason}; the search ended before its answer had a value"
        else:
            dead = [j.reason for j in self.solutions.judgements.values() if j.standing is Standing.DEAD]
            reason = f"no path ended in an answer: {reason}{why_none(dead)}"
        return Answer(self.problem.id, text, node, value, end, reason, replace(self._bill), self.error)

    def trace(self, origin: Origin) -> Trace:
        """Return what the search leaves behind."""
        s = self.solutions
        columns, nodes = s.tree.columns(), range(s.tree.size)
        judgements = [s.judgements.get(node) for node in nodes]
        return build_trace(
            problem=s.problem,
            origin=origin,
            answer=self.answer(),
            ids=[s.tokens.ids(node) for node in nodes],
            logprobs=[s.tokens.logprobs(node) for node in nodes],
            texts=[s.tokens.text(node) for node in nodes],
            outputs=[s.tokens.outputs(node) for node in nodes],
            finish=[s.tokens.finish(node) for node in nodes],
            standing=s.standings,
            answers=[None if j is None else j.answer for j in judgements],
            reasons=["" if j is None else j.reason for j in judgements],
            proven=[j is not None and j.proven for j in judgements],
            **{name: columns[name] for name in TRACED},
        )

    # What a method uses.

    def _propose(self, node: int, *, count: int, max_tokens: int, steps: int | None = 1, greedy: bool = False) -> Errand:
        """Ask for continuations of `node`; the tokens must be within what is left."""
        asked = self._asked.get(node, 0)
        self._asked[node] = asked + count
        seeds = tuple(sibling_seed(self.seed, self.problem.id, node, asked + i) for i in range(count))
        path = self.solutions.path(node)
        self.meter.reserve(count * max_tokens)
        errand = Errand(node, count, count * max_tokens, self._rounds_told + 1)
        request = StepRequest(path.ids, path.prompt_length, seeds, max_tokens, steps, greedy)
        self._outbox.append(ProposalAsk(self._ticket(errand), request))
        return errand

    def _finish(self, end: SearchEnd) -> None:
        """End the search; nothing is left in flight."""
        if self.done:
            return
        self.end = end
        for errand in self._errands.values():
            self._bill.cancelled_tokens += errand.reserved
            self._charge(errand, 0)
            self._abandoned(errand)
        self._errands.clear()
        self._outbox.clear()

    def _room(self, node: int) -> int:
        """Tokens that the context still takes after `node`'s path."""
        return self.context_length - len(self.solutions.path(node).ids)

    def _cut(self, node: int, reason: str) -> None:
        """End an open path for want of room."""
        self._bill.unfinished += 1
        self.solutions.end(node, Judgement(Standing.DEAD, reason=reason))
        self._close_terminal(node, 0.0)

    def _close_terminal(self, node: int, value: float) -> None:
        """Give a finished or dead node its outcome, once."""
        tree = self.solutions.tree
        tree.set_value(node, value)
        if tree.state(node) is not State.TERMINAL:
            tree.set_terminal(node)
        tree.backup(node, value)

    def _candidates(self) -> list[Candidate]:
        """The finished paths that may be answered with."""
        solutions, tree = self.solutions, self.solutions.tree
        found = []
        for node in solutions.finished:
            steps = tree.path(node)[1:].tolist()
            values = tuple(tree.value(step) for step in steps)
            if values[-1] != values[-1]:
                continue
            judgement = solutions.judgements[node]
            visits = tuple(tree.visits(step) for step in steps)
            found.append(Candidate(node, judgement.answer or "", values, visits, tree.multiplicity(node)))
        return found

    def _choice(self) -> Choice | None:
        candidates = self._candidates()
        proven = [c for c in candidates if self._proven(c.node)]
        s = self.settings
        if s.choice == "planned":
            candidates = self._below_plan(candidates) or candidates
        return choose(proven or candidates, choice=s.choice, aggregation=s.aggregate, seed=self.seed)

    def _below_plan(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The candidates that begin with the planned first step."""
        step = self._planned_step()
        return [c for c in candidates if self.solutions.tree.path(c.node)[1] == step]

    def _unvalued(self) -> Candidate | None:
        """A finished path whose evaluation never came back, a proven one before others; its numbers mean nothing."""
        tree, judgements = self.solutions.tree, self.solutions.judgements
        nodes = [node for node in self.solutions.finished if tree.value(node) != tree.value(node)]
        nodes = [node for node in nodes if self._proven(node)] or nodes
        candidates = [Candidate(node, judgements[node].answer or "", (0.0,), ()) for node in nodes]
        choice = choose(candidates, choice="value", seed=self.seed)
        return None if choice is None else choice.candidate

    def _proven(self, node: int) -> bool:
        return self.solutions.judgements[node].proven

    # Inside.

    def _ticket(self, errand: Errand) -> int:
        ticket = self._tickets
        self._tickets += 1
        self._errands[ticket] = errand
        return ticket

    def _charge(self, errand: Errand, used: int) -> None:
        """Turn an errand's reservation into what was used, once."""
        self.meter.settle(reserved=errand.reserved, used=used)
        errand.reserved = 0
        self._bill.policy_tokens = self.meter.tokens

    def _take_proposal(self, ticket: int, errand: Errand, proposal: Proposal) -> None:
        """Grow the tree; the errand stays under way until nothing here can fail any more."""
        if proposal.error is not None:
            self.fail(proposal.error)
            return
        used, samples = sum(len(step.ids) for sample in proposal.samples for step in sample), len(proposal.samples)
        if used > errand.reserved or samples != errand.samples:
            message = (
                f"the policy returned {samples} samples of {used} tokens where {errand.samples} samples of at most "
                f"{errand.reserved} tokens were asked for"
            )
            self._charge(errand, min(used, errand.reserved))
            self.fail(PolicyError(message, "report it as a fault of the policy"))
            return
        self._charge(errand, used)
        growth = self.solutions.grow(errand.node, proposal.samples)
        del self._errands[ticket]
        errand.growth = growth
        self._rounds_told = max(self._rounds_told, errand.round)
        bill = self._bill
        bill.prompt_tokens += proposal.prompt_tokens
        bill.cached_tokens += proposal.cached_tokens
        bill.rounds = self._rounds_told
        bill.duplicates += growth.duplicates
        bill.dropped += growth.dropped
        bill.unfinished += growth.cut
        if not growth.first:
            self._barren += 1
            self._abandoned(errand)
            if self._barren >= MOST_BARREN:
                where = f"problem {self.problem.id!r}, node {errand.node}, {self._barren} times in a row"
                remedy = "look at the model and its logs"
                self.fail(PolicyError(f"the policy returned no usable sample for {where}", remedy, retryable=True))
            return
        self._barren = 0
        for node in growth.new:
            if self.solutions.standings[node] is Standing.DEAD:
                self._close_terminal(node, 0.0)
            elif self.solutions.standings[node] is Standing.FINISHED:
                self.solutions.tree.set_terminal(node)
        errand.waiting = tuple(n for n in growth.new if self.solutions.standings[n] is not Standing.DEAD)
        if errand.waiting:
            paths = tuple(self.solutions.path(node) for node in errand.waiting)
            self._outbox.append(EvaluationAsk(self._ticket(errand), paths))
        else:
            self._grown(errand)
            self._end_when_settled()

    def _take_values(self, ticket: int, errand: Errand, evaluations: Sequence[Evaluation]) -> None:
        if len(evaluations) != len(errand.waiting):
            message = f"problem {self.problem.id!r}: {len(evaluations)} evaluations for {len(errand.waiting)} paths"
            self.fail(EvaluatorError(message, "the evaluator must return one evaluation a path"))
            return
        tree = self.solutions.tree
        for node, evaluation in zip(errand.waiting, evaluations, strict=True):
            self.meter.evaluator_tokens += evaluation.tokens
            if evaluation.outputs:
                self.solutions.tokens.set_outputs(node, evaluation.outputs)
            self._read(node, evaluation)
            if self.solutions.standings[node] is Standing.FINISHED:
                self._close_terminal(node, evaluation.value)
                self._proof = self._proof or self._proven(node)
            else:
                tree.set_value(node, evaluation.value)
        del self._errands[ticket]
        self._bill.evaluator_tokens = self.meter.evaluator_tokens
        self._grown(errand)
        if self._proof and self.settings.stop_when_proven:
            self._finish(SearchEnd.PROVEN)
        else:
            self._end_when_settled()

    def _end_when_settled(self) -> None:
        if not self.done and self.settings.prune and self._settled():
            self._finish(SearchEnd.SETTLED)

    def _settled(self) -> bool:
        """Whether the rest of the budget cannot change the answer.

        By value: a finished path is proven. A value of 1 is no proof: others may equal it. By majority: the lead is larger than
        all votes to come. By visits and by the plan there is no such bound, and the search goes on.
        """
        choice = self.settings.choice
        if choice in ("visits", "planned"):
            return False
        if choice == "value":
            return self._proof
        left = self._votes_left()
        if left is None or left >= self.solutions.finished_samples:
            return False
        votes: dict[str, float] = {}
        for c in self._candidates():
            weight = aggregate(c.values, self.settings.aggregate) if choice == "weighted-majority" else 1.0
            votes[c.text] = votes.get(c.text, 0.0) + c.copies * weight
        ranked = sorted(votes.values(), reverse=True)
        return bool(ranked) and ranked[0] - (ranked[1] if len(ranked) > 1 else 0.0) > left
