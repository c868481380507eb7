"""`potluck sessions`: where my wallet is signed in."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Screen, Tone
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.model.units import show_ahead, show_since
from potluck.wire.identity import SessionView


def list_sessions(server: ServerOption = None, json: JsonOption = False) -> None:
    """Show where my wallet is signed in."""
    screen = Screen(json)
    with connect(server) as potluck:
        sessions = potluck.account.sessions()
    if json:
        screen.emit({"sessions": sessions})
        return
    columns = [
        TableColumn("ID"),
        TableColumn("MACHINE", shrinks=True),
        TableColumn("USED", is_number=True),
        TableColumn("ENDS IN", is_number=True),
    ]
    show_table(screen.out, columns, [_row(session) for session in sessions])


def end_session(
    session: Annotated[str, typer.Argument(metavar="SESSION_ID", show_default=False)],
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """End a session immediately."""
    screen = Screen(json)
    with connect(server) as potluck:
        potluck.account.end_session(session)
    if json:
        screen.emit({"ended": session})
    else:
        screen.out.line(f"Ended {session}.")


def _row(session: SessionView) -> list[Cell]:
    now = datetime.now(UTC)
    marker = " (this one)" if session.is_current else ""
    return [
        Cell(session.id),
        Cell(f"{session.machine or 'unknown'}{marker}", Tone.STRONG if marker else Tone.PLAIN),
        Cell("in use" if session.is_current else show_since(session.used_at, now)),
        Cell(show_ahead(session.expires_at, now)),
    ]
