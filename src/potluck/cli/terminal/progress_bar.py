"""Progress bars of several widths."""

import re

from potluck.cli.terminal.text_width import width

_CELLS = 20
_FEW_CELLS = 5
_FEWEST_CELLS = 4
_BAR = re.compile("([━╌]{4,}) ")


def draw_bar(percent: int) -> str:
    """For a live line."""
    return f"{_cells(percent, _CELLS)} {percent} %"


def draw_short_bar(percent: int) -> str:
    """For a column: the width is constant."""
    return f"{_cells(percent, _FEW_CELLS)} {percent:3} %"


def fit_bar(text: str, room: int) -> str:
    """Shortens the bar in a text so that its words fit; omits a bar that would be too short."""
    excess = width(text) - room
    if excess <= 0:
        return text
    return _BAR.sub(lambda match: _shorten(match[1], excess), text)


def _shorten(bar: str, excess: int) -> str:
    cells = len(bar) - excess
    percent = bar.count("━") * 100 // len(bar)
    return f"{_cells(percent, cells)} " if cells >= _FEWEST_CELLS else ""


def show_tens(percent: int) -> str:
    """For a log, where every change is a line: changes only ten times."""
    return f"{percent // 10 * 10} %"


def _cells(percent: int, cells: int) -> str:
    filled = percent * cells // 100
    return f"{'━' * filled}{'╌' * (cells - filled)}"
