"""`potluck version`: what is installed here."""

import platform

from potluck import __version__
from potluck.cli.options import JsonOption
from potluck.cli.terminal.screen import Screen


def version(json: JsonOption = False) -> None:
    """Show the version of Potluck, of Python and of the system."""
    screen = Screen(json)
    python, system = platform.python_version(), platform.platform()
    if json:
        screen.emit({"potluck": __version__, "python": python, "system": system})
    else:
        screen.out.line(f"Potluck {__version__} (Python {python}, {system})")
