"""`potluck admin status`: the pool on one screen, once or repeatedly."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.admin.status_text import status_lines
from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Screen, Tone

if TYPE_CHECKING:
    from potluck.wire.status import PoolStatus

_WATCH_SECONDS = 2.0
_HOME_AND_CLEAR = b"\x1b[H\x1b[2J"


def pool_status(
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Refresh every two seconds, until Ctrl-C.")
    ] = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show the pool on one screen: parts, queue, nodes, ends, sizes, backup, ledger."""
    screen = Screen(json)
    with connect(server) as potluck:
        _show(screen, potluck.admin.status())
        try:
            while watch:
                time.sleep(_WATCH_SECONDS)
                status = potluck.admin.status()
                if screen.out.is_live and not screen.json:
                    screen.out.write_bytes(_HOME_AND_CLEAR)
                _show(screen, status)
        except KeyboardInterrupt:
            screen.err.line()


def _show(screen: Screen, status: "PoolStatus") -> None:
    if screen.json:
        screen.emit(status)
        return
    for title, cells in status_lines(status):
        text = " · ".join(screen.out.paint(cell.text, cell.tone) for cell in cells)
        screen.out.line(screen.out.paint(f"{title:<11}", Tone.FAINT) + text)
