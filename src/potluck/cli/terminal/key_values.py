"""Names and values, one pair per line, wrapped at the terminal's width."""

from collections.abc import Mapping

from potluck.cli.terminal.screen import Pane, Tone

_GAP = 2


def show_key_values(pane: Pane, pairs: Mapping[str, str]) -> None:
    """Leaves out pairs without a value."""
    shown = {name: value for name, value in pairs.items() if value}
    size = max(map(len, shown), default=0) + _GAP
    for name, value in shown.items():
        first, *rest = pane.wrapped(value, " " * size, " " * size) or [""]
        pane.line(f"{pane.paint(name.ljust(size), Tone.FAINT)}{first[size:]}")
        for line in rest:
            pane.line(line)
