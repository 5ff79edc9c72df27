"""Interruptions never split what belongs together, and are never lost."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from treewise.app.interrupts import Interrupts, TerminatedError


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, TerminatedError)])
def test_an_interruption_waits_for_the_end_of_what_is_held(number: int, kind: type[BaseException]) -> None:
    before = signal.getsignal(number)
    done = []

    def work() -> None:
        with Interrupts() as interrupts:
            with interrupts.held():
                os.kill(os.getpid(), number)
                done.append("held")
            done.append("after")

    with pytest.raises(kind):
        work()
    assert done == ["held"]
    assert signal.getsignal(number) is before


def test_outside_it_comes_at_once() -> None:
    done = []

    def work() -> None:
        with Interrupts():
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("not reached")

    with pytest.raises(TerminatedError):
        work()
    assert done == []


def test_a_second_one_does_not_wait() -> None:
    done = []

    def work() -> None:
        with Interrupts() as interrupts, interrupts.held():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("first")
            os.kill(os.getpid(), signal.SIGINT)
            done.append("not reached")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["first"]


def test_other_threads_may_use_it_without_signals() -> None:
    done = []

    def work() -> None:
        with Interrupts() as interrupts, interrupts.held():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]
