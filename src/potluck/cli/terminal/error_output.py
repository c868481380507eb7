"""How errors are told: a sentence, what to do about it, an exit status. Never a traceback.

With --json the error is also the last line of stdout: {"error": {…problem details…}}.
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

_NEXT: dict[type[PotluckError], str] = {
    InvalidInput: "Change what the sentence names, and try again; --help shows what is possible.",
    UnaffordableTask: "`potluck balance` shows your credits; ask for less time, or a lower price.",
    NotSignedIn: "Sign in with `potluck login`.",
    Forbidden: "`potluck whoami` shows what you may; an admin of the pool can change it.",
    AccountSuspended: "Ask an admin of the pool.",
    QuotaExceeded: "Cancel something or let it end; `potluck whoami` shows what you may have.",
    NotFound: "`potluck ps` lists your tasks; whole ids always work.",
    Conflict: "Look how it stands now with `potluck ps`, and try again.",
    MethodNotAllowed: "Client and server differ: `potluck doctor` shows both versions.",
    UnsupportedMediaType: "Client and server differ: `potluck doctor` shows both versions.",
    UpgradeRequired: "Install the newer version on the older side; `potluck doctor` shows both.",
    RateLimited: "Wait a little, and try again.",
    Unavailable: "Wait a little, and try again.",
    Unopenable: "Ask the operator: the server's log says which key is missing.",
    Internal: "Try again; if it stays, ask the operator to look into the server's log.",
    ServerUnreachable: "See that the server runs, and that the address is right: `potluck doctor`.",
    TaskFailed: "`potluck result TASK` tells how it ended, `potluck logs TASK` what it wrote.",
    RemoteError: "`potluck logs TASK` shows what it wrote before.",
    LocalError: "`potluck doctor` looks at everything that this machine needs.",
    PotluckError: "`potluck doctor` looks at everything that this machine needs.",
}


def next_step(error: PotluckError) -> str:
    """Its own hint, or that of the nearest of its kind."""
    return error.hint or next(_NEXT[kind] for kind in type(error).__mro__ if kind in _NEXT)


UNEXPECTED_STATUS = 70
_LABEL = "Error:"
_INDENT = " " * 7  # as wide as the label and a blank


def tell(error: Exception, json: bool) -> int:
    """Tells a person, and with `json` a program; returns the exit status."""
    screen = Screen(json)
    told = error if isinstance(error, PotluckError) else _unexpected(error)
    told.hint = next_step(told)
    text = _laid_out(told, screen.err)
    screen.err.line(f"{screen.err.paint(_LABEL, Tone.BAD)} {text.removeprefix(_INDENT)}")
    if json:
        screen.emit({"error": to_problem(told)})
    return told.exit_status if told is error else UNEXPECTED_STATUS


def _laid_out(error: PotluckError, pane: Pane) -> str:
    """The sentence and the hint, indented and wrapped for a terminal."""
    # A detail may quote a log's last lines, so its line breaks stay.
    lines = [*error.detail.splitlines(), error.hint]
    return "\n".join(
        part for line in lines for part in pane.wrapped(printable(line), _INDENT, _INDENT)
    )


def misused(sentence: str, command_path: str) -> InvalidInput:
    """The command line itself does not fit."""
    return InvalidInput(sentence, f"`{command_path} --help` shows how it is used.")


def _unexpected(error: Exception) -> PotluckError:
    if os.environ.get("POTLUCK_DEBUG"):
        traceback.print_exception(error)
    return Internal(
        f"Something unexpected happened ({type(error).__name__}: {error}).",
        "This is a mistake of ours. Run with POTLUCK_DEBUG=1 for the traceback, and report it.",
    )
