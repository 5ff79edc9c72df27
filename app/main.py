"""The command line: `treewise COMMAND`. The one place where errors become messages and exit statuses.

A command is a function from its arguments to an exit status, loaded when it is called. This file knows nothing of what
commands do.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from difflib import get_close_matches

from treewise.app.interrupts import TerminatedError
from treewise.app.stdout import StdoutClosedError
from treewise.app.version import library_version
from treewise.search.types import InputError, TreewiseError

FAILED, BAD_INPUT, INTERRUPTED, TERMINATED, NO_READER = 1, 2, 130, 143, 141
"""Exit statuses; the last three are 128 plus the signal's number, as shells have it."""

USAGE = """\
usage: treewise COMMAND [OPTIONS]

commands:
  solve      solve problems by a search over reasoning steps

options:
  -h, --help   show this help; treewise COMMAND --help shows a command's
  --version    show the version"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0 fine, 1 failed, 2 bad usage or input, 130 interrupted."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _dispatch(words)
    except TreewiseError as error:
        return _complain(str(error), BAD_INPUT if isinstance(error, InputError) else FAILED)
    except KeyboardInterrupt:
        return _complain("interrupted; what was finished is written", INTERRUPTED)
    except TerminatedError:
        return _complain("terminated; what was finished is written", TERMINATED)
    except StdoutClosedError:
        return NO_READER
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else FAILED
    except Exception as error:  # noqa: BLE001 - the command line is where a run ends
        traceback.print_exc()
        return _complain(f"internal error, please report it: {type(error).__name__}: {error}", FAILED)


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(USAGE)
        return 0 if words else BAD_INPUT
    if words[0] == "--version":
        print(f"treewise {library_version()}")
        return 0
    command = COMMANDS.get(words[0])
    if command is None:
        near = get_close_matches(words[0], COMMANDS, n=1)
        raise InputError(f"unknown command {words[0]!r}", f"did you mean {near[0]!r}?" if near else "see treewise --help")
    return command(words[1:])


def _solve(arguments: list[str]) -> int:
    from treewise.app.solve import solve

    return solve(arguments)


COMMANDS: dict[str, Callable[[list[str]], int]] = {"solve": _solve}


def _complain(message: str, status: int) -> int:
    print(f"treewise: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
