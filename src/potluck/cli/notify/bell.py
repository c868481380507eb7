"""The terminal's bell: a sound, a flash, a mark at the window's name, whatever is set there."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from potluck.cli.notify.notifier import Notice
    from potluck.cli.terminal.screen import Screen

_BELL = "\a"


def ring(_: "Notice", screen: "Screen") -> str:
    """In the terminal that the person sits at, also when the output goes elsewhere."""
    if screen.err.is_terminal:
        screen.err.write(_BELL)
        return ""
    with suppress(OSError), Path("/dev/tty").open("w", encoding="ascii") as terminal:
        terminal.write(_BELL)
    return ""
