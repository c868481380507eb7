"""Reports errors: a sentence, a hint and an exit status, never a traceback.

With --json the error is also the last line of stdout: {"error": {…problem details…}}. Errors
without a hint, such as those from a server of another version, get the default of their class.
"""

import os
import traceback

from potluck.cli.terminal.screen import Pane, Screen, Tone, printable
from potluck.model.error import (
    AccountSuspended,
    Conflict,
    Forbidden,
    Internal,
    InvalidInput,
    LocalError,
    MethodNotAllowed,
    NotFound,
    NotSignedIn,
    PotluckError,
    QuotaExceeded,
    RateLimited,
    RemoteError,
    ServerUnreachable,
    TaskFailed,
    UnaffordableTask,
    Unavailable,
    Unopenable,
    UnsupportedMediaType,
    UpgradeRequired,
)
from potluck.wire.problem import to_problem

_DEFAULT_HINTS: dict[type[PotluckError], str] = {
    InvalidInput: "Correct it and try again; --help lists the valid values.",
    UnaffordableTask: "`potluck balance` shows your credits; request less time or a lower price.",
    NotSignedIn: "Sign in with `potluck login`.",
    Forbidden: "`potluck whoami` shows your roles; an admin of the pool can change them.",
    AccountSuspended: "Ask an admin of the pool.",
    QuotaExceeded: "Cancel a task or wait for one to end; `potluck whoami` shows your limits.",
    NotFound: "`potluck ps` lists your tasks; full ids always work.",
    Conflict: "Check the current state with `potluck ps`, and try again.",
    MethodNotAllowed: "Client and server versions differ: `potluck doctor` shows both.",
    UnsupportedMediaType: "Client and server versions differ: `potluck doctor` shows both.",
    UpgradeRequired: "Upgrade the older one of client and server; `potluck doctor` shows both.",
    RateLimited: "Wait a moment, and try again.",
    Unavailable: "Wait a moment, and try again.",
    Unopenable: "Ask the operator: the server's log names the missing key.",
    Internal: "Try again; if the error persists, ask the operator to check the server's log.",
    ServerUnreachable: "Check that the server runs and the address is right: `potluck doctor`.",
    TaskFailed: "`potluck result TASK` shows how it ended, `potluck logs TASK` its output.",
    RemoteError: "`potluck logs TASK` shows its output until then.",
    LocalError: "`potluck doctor` checks everything that this machine needs.",
    PotluckError: "`potluck doctor` checks everything that this machine needs.",
}


def choose_hint(error: PotluckError) -> str:
    """The error's own hint, or the default of its nearest base class."""
    hints = (_DEFAULT_HINTS.get(kind) for kind in type(error).__mro__)
    return error.hint or next(filter(None, hints))


UNEXPECTED_STATUS = 70
_LABEL = "Error:"
_INDENT = " " * 7  # as wide as the label and a blank


def report_error(error: Exception, json: bool) -> int:
    """Writes the error to stderr, and with `json` to stdout too; returns the exit status."""
    screen = Screen(json)
    reported = error if isinstance(error, PotluckError) else _unexpected(error)
    reported.hint = choose_hint(reported)
    text = _wrap(reported, screen.err)
    screen.err.line(f"{screen.err.paint(_LABEL, Tone.BAD)} {text.removeprefix(_INDENT)}")
    if json:
        screen.emit({"error": to_problem(reported)})
    return reported.exit_status if reported is error else UNEXPECTED_STATUS


def _wrap(error: PotluckError, pane: Pane) -> str:
    # A detail may quote the last lines of a log, so its line breaks are kept.
    lines = [*error.detail.splitlines(), error.hint]
    return "\n".join(
        part for line in lines for part in pane.wrapped(printable(line), _INDENT, _INDENT)
    )


def usage_error(sentence: str, command_path: str) -> InvalidInput:
    return InvalidInput(sentence, f"`{command_path} --help` shows its usage.")


def _unexpected(error: Exception) -> PotluckError:
    if os.environ.get("POTLUCK_DEBUG"):
        traceback.print_exception(error)
    return Internal(
        f"Unexpected error ({type(error).__name__}: {error}).",
        "This is a bug. Run with POTLUCK_DEBUG=1 for the traceback, and report it.",
    )
