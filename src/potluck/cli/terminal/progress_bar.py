"""How far something has come, drawn."""

import re

from potluck.cli.terminal.text_width import width

_CELLS = 20
_FEW_CELLS = 5
_FEWEST_CELLS = 4
_BAR = re.compile("([━╌]{4,}) ")


def bar(percent: int) -> str:
    """For a line that is drawn again and again."""
    return f"{_drawn(percent, _CELLS)} {percent} %"


def short_bar(percent: int) -> str:
    """For a column: as wide whatever it says."""
    return f"{_drawn(percent, _FEW_CELLS)} {percent:3} %"


def fitted(text: str, room: int) -> str:
    """A text with a bar in it, whose bar gives way before its words do."""
    too_long = width(text) - room
    if too_long <= 0:
        return text
    return _BAR.sub(lambda found: _shorter(found[1], too_long), text)


def _shorter(drawn: str, by: int) -> str:
    """A bar of less than a few cells says nothing, and is left out."""
    cells = len(drawn) - by
    percent = drawn.count("━") * 100 // len(drawn)
    return f"{_drawn(percent, cells)} " if cells >= _FEWEST_CELLS else ""


def in_tens(percent: int) -> str:
    """For a log, where every change is a line: it changes ten times and not ten thousand."""
    return f"{percent // 10 * 10} %"


def _drawn(percent: int, cells: int) -> str:
    filled = percent * cells // 100
    return f"{'━' * filled}{'╌' * (cells - filled)}"
