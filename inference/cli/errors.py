"""What can go wrong, and the exit code that tells programs which it was.

0    done; with --wait: the operation succeeded
1    with --wait: the operation failed, was cancelled, or was superseded
2    the command can't be right: an unknown option, a value that was refused
3    not logged in, or not allowed
4    there is no such thing
5    right once, not now: somebody changed it, or another operation has it
6    the control plane does not answer, or not as it should
7    --timeout passed; the operation goes on
130  interrupted (Ctrl-C); the operation goes on
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any


class ExitCode(IntEnum):
    DONE = 0
    NOT_SUCCEEDED = 1
    USAGE = 2
    NOT_ALLOWED = 3
    NOT_FOUND = 4
    CONFLICT = 5
    UNREACHABLE = 6
    TIMED_OUT = 7
    INTERRUPTED = 130


class CliError(Exception):
    """A sentence for the person at the terminal."""

    exit_code = ExitCode.USAGE


class BadValue(CliError):
    """Refused here, before anything was sent."""


class NotLoggedIn(CliError):
    exit_code = ExitCode.NOT_ALLOWED


class NotThere(CliError):
    exit_code = ExitCode.NOT_FOUND


class Unreachable(CliError):
    """No answer, or one that is not the control plane's."""

    exit_code = ExitCode.UNREACHABLE


class TimedOut(CliError):
    exit_code = ExitCode.TIMED_OUT


class Refused(CliError):
    """The API's own sentence. code: stable, for programs. current: what is there now, where the API told."""

    def __init__(self, status: int, code: str, detail: str, current: dict[str, Any] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.current = current
        self.exit_code = _EXIT_CODES.get(status, ExitCode.UNREACHABLE if status >= 500 else ExitCode.USAGE)


_EXIT_CODES = {
    401: ExitCode.NOT_ALLOWED,
    403: ExitCode.NOT_ALLOWED,
    404: ExitCode.NOT_FOUND,
    409: ExitCode.CONFLICT,
    412: ExitCode.CONFLICT,
    429: ExitCode.UNREACHABLE,
}
