"""How errors are told: a sentence, what to do about it, an exit status. Never a traceback.

With --json the error is also the last line of stdout: {"error": {…problem details…}}.
"""

import os
import traceback

from potluck.cli.terminal.default_hints import next_step
from potluck.cli.terminal.screen import (
    Pane,
    Screen,
    Tone,
    printable,
)
from potluck.model.error import Internal, InvalidInput, PotluckError
from potluck.wire.problem import to_problem

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
