"""Facts for people: a name and what is known of it, line by line, broken where a terminal ends."""

from collections.abc import Mapping

from potluck.cli.terminal.screen import Pane, Tone

_GAP = 2


def show_facts(pane: Pane, facts: Mapping[str, str]) -> None:
    """Those that have something to say."""
    said = {name: value for name, value in facts.items() if value}
    size = max(map(len, said), default=0) + _GAP
    for name, value in said.items():
        first, *rest = pane.wrapped(value, " " * size, " " * size)
        pane.line(f"{pane.paint(name.ljust(size), Tone.FAINT)}{first[size:]}")
        for line in rest:
            pane.line(line)
