"""`treewise solve`: problems in, answers, verdicts and traces out.

The run is here: read everything, refuse what cannot run, start the models once, let the driver do all searches, check each
answer when its search has ended, report at once. What a search does is not known here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from time import monotonic
from typing import TYPE_CHECKING

from rich.console import Console

from treewise.app.arguments import parse_solve
from treewise.app.config import SolveOptions
from treewise.app.interrupts import Interrupts
from treewise.app.problems import Item, ProblemSet, Rejected, read_problems
from treewise.app.progress import Watch
from treewise.app.report import JsonLines, Report, ResultTable
from treewise.app.results import Result, Tally
from treewise.app.stdout import results_only
from treewise.app.version import library_version
from treewise.search.types import Answer, InputError, TreewiseError, Verdict

if TYPE_CHECKING:
    from treewise.app.folder import OutputFolder
    from treewise.search.driver import Progress
    from treewise.search.trace import Trace
    from treewise.search.tree_search import TreeSearch
    from treewise.search.types import Evaluator, Policy
    from treewise.value.tasks import NamedTask

OK, FAILED, BAD_INPUT = 0, 1, 2
"""Exit status: fine; a problem failed for reasons of infrastructure; input or options were unusable."""


def solve(arguments: Sequence[str]) -> int:
    """Run `treewise solve` and return the exit status.

    Raises TreewiseError when nothing can run, SystemExit for help and usage errors, StdoutClosedError when the reader has gone.
    """
    options = parse_solve(arguments)
    from treewise.value.tasks import task_named

    task = task_named(options.models.task)
    problems = read_problems(options.source, task, seed=options.run.seed)
    console = Console(stderr=True, highlight=False)
    as_lines = options.run.json or not sys.stdout.isatty()
    bar = console.is_terminal and not (as_lines and sys.stdout.isatty())
    watch = Watch(console, bar=bar)
    for row in problems.rejected:
        watch.say(f"{row.where}: problem {row.id!r} cannot run: {row.error}")
    if options.source.strict and problems.rejected:
        return BAD_INPUT
    with Interrupts() as interrupts, results_only() as stream, ExitStack() as stack:
        folder = _open_folder(options, stack)
        report: Report = JsonLines(stream) if as_lines else ResultTable(stream)
        run = Run(options, task, watch=watch, report=report, folder=folder, interrupts=interrupts)
        try:
            with watch:
                run.all(problems)
        finally:
            if as_lines and run.tally.total:
                watch.say(run.tally.sentence(seconds=run.seconds()))
            report.close(run.tally, seconds=run.seconds())
        run.advise()
    return run.status()


class Run:
    """One run over one set of problems: what is open, what has been counted."""

    def __init__(
        self,
        options: SolveOptions,
        task: NamedTask,
        *,
        watch: Watch,
        report: Report,
        folder: OutputFolder | None,
        interrupts: Interrupts,
    ) -> None:
        self.tally = Tally()
        self._options = options
        self._task = task
        self._watch = watch
        self._report = report
        self._folder = folder
        self._interrupts = interrupts
        self._open: dict[str, tuple[Item, TreeSearch]] = {}
        self._total = 0
        self._started = monotonic()

    def all(self, problems: ProblemSet) -> None:
        """Run every problem that can run and report every row."""
        self._total = len(problems.items) + len(problems.rejected)
        for row in problems.rejected:
            self._record(_rejected(row))
        limit = self._zero_limit()
        if limit is not None:
            for item in problems.items:
                self._record(Result(item.problem.id, None, None, None, f"the budget is 0 {limit}: nothing was run"))
        elif problems.items:
            self._search(problems.items)

    def seconds(self) -> float:
        """Wall-clock seconds since the models were ready."""
        return monotonic() - self._started

    def status(self) -> int:
        """The exit status that the results call for."""
        if self.tally.failed:
            return FAILED
        return BAD_INPUT if self.tally.rejected else OK

    def advise(self) -> None:
        """Say why method auto chose what it did, and what to change when paths were cut and problems stayed without an answer."""
        if self._options.search.method_reason:
            self._watch.say(f"method auto took {self._options.search.method}: {self._options.search.method_reason}")
        if self.tally.unfinished and self.tally.cut:
            self._watch.say(
                f"{self.tally.unfinished} problems have no finished answer and {self.tally.cut} paths were cut; "
                "more --tokens, --max-steps or --step-tokens may help"
            )

    def _zero_limit(self) -> str | None:
        budget = self._options.budget
        limits = {
            "simulations": budget.simulations,
            "tokens": budget.tokens,
            "evaluator tokens": budget.evaluator_tokens,
            "seconds": budget.seconds,
        }
        return next((name for name, limit in limits.items() if limit == 0), None)

    def _search(self, items: list[Item]) -> None:
        from treewise.app.models import build_evaluator, build_policy
        from treewise.search.driver import Driver

        self._warn_of_short_paths(items)
        self._watch.phase("starting the model", total=None)
        with closing(build_policy(self._options.models, self._task, say=self._watch.say)) as policy:
            evaluator = build_evaluator(self._options.models, self._task)
            self._warn_of_long_steps(policy.context_length)
            self._watch.phase("solving", total=self._total)
            self._watch.start_clock()
            self._started = monotonic()
            driver = Driver(policy, evaluator)
            searches, concurrency = self._searches(items, policy), self._concurrency(policy)
            for ended in driver.run(searches, concurrency=concurrency, on_progress=self._show):
                with self._interrupts.held():
                    self._finish(ended.answer(), policy, evaluator)

    def _concurrency(self, policy: Policy) -> int:
        from treewise.search.concurrency import problems_at_once

        options = self._options
        return options.run.concurrency or problems_at_once(
            policy, settings=options.search, budget=options.budget, task=self._task
        )

    def _searches(self, items: list[Item], policy: Policy) -> Iterator[TreeSearch]:
        from treewise.search.methods import start_search

        for item in items:
            try:
                search = start_search(
                    item.problem,
                    policy.encode(self._task.prompt(item.problem)),
                    task=self._task,
                    settings=self._options.search,
                    budget=self._options.budget,
                    seed=self._options.run.seed,
                    context_length=policy.context_length,
                )
            except InputError as error:
                row = Rejected(item.problem.id, item.where, error)
                self._watch.say(f"{row.where}: problem {row.id!r} cannot run: {row.error}")
                self._record(_rejected(row))
                continue
            except TreewiseError as error:
                self._record(Result(item.problem.id, None, None, None, f"failed: {error}", failed=True))
                continue
            self._open[item.problem.id] = item, search
            yield search

    def _finish(self, answer: Answer, policy: Policy, evaluator: Evaluator) -> None:
        item, search = self._open.pop(answer.problem_id)
        verdict = self._check(item, answer.text)
        result = Result.of(answer, verdict)
        self._record(result, self._trace(search, policy, evaluator, verdict=verdict))

    def _check(self, item: Item, text: str | None) -> Verdict | None:
        if text is None or (item.reference is None and not self._task.self_verifying):
            return None
        return self._task.verify(item.problem, text, item.reference)

    def _trace(self, search: TreeSearch, policy: Policy, evaluator: Evaluator, *, verdict: Verdict | None) -> Trace | None:
        if self._folder is None:
            return None
        from treewise.search.trace import Origin

        origin = Origin(
            task=self._task.name,
            method=self._options.search.method,
            config=self._options.canonical(),
            config_hash=self._options.hash(),
            seed=self._options.run.seed,
            policy=policy.fingerprint,
            evaluator=evaluator.fingerprint,
            library_version=library_version(),
        )
        trace = search.trace(origin)
        return trace if verdict is None else trace.with_verdict(verdict)

    def _record(self, result: Result, trace: Trace | None = None) -> None:
        if result.failed:
            self._watch.say(f"problem {result.id!r} {result.reason}")
        self.tally.add(result)
        if self._folder is not None:
            self._folder.add(result, trace)
        self._report.add(result)

    def _show(self, progress: Progress) -> None:
        self._watch.update(
            ended=self.tally.total,
            total=self._total,
            tokens=progress.policy_tokens,
            simulations=progress.simulations,
            tally=self.tally,
        )

    def _warn_of_short_paths(self, items: list[Item]) -> None:
        limit = self._options.search.max_steps
        if limit is None:
            return
        needed = max(self._task.least_steps(item.problem) for item in items)
        if limit < needed:
            self._watch.say(
                f"max_steps is {limit}, but solutions here have up to {needed} steps: few or none finish; raise --max-steps"
            )

    def _warn_of_long_steps(self, context_length: int) -> None:
        limit = self._options.search.step_tokens
        if limit is not None and limit >= context_length:
            self._watch.say(f"step_tokens is {limit}, but the model's context is {context_length}: steps are cut where it ends")


def _rejected(row: Rejected) -> Result:
    return Result(row.id, None, None, None, f"input: {row.error}", rejected=True)


def _open_folder(options: SolveOptions, stack: ExitStack) -> OutputFolder | None:
    if options.run.output is None:
        return None
    from treewise.app.folder import OutputFolder

    return stack.enter_context(OutputFolder(options.run.output, options=options, version=library_version()))
