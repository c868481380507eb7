"""`potluck admin errors`: the errors of the server, by kind and place."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Screen, Tone, printable
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.model.error import NotFound
from potluck.model.units import show_since
from potluck.wire.alerts import ErrorGroup


def errors(
    error: Annotated[
        str | None,
        typer.Argument(
            metavar="ERROR", help="Show the last traceback of this error.", show_default=False
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 20,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show the server's errors by kind and place: how often, and when last."""
    screen = Screen(json)
    with connect(server) as potluck:
        groups = potluck.admin.errors(limit if error is None else None)
    if error is not None:
        _show_trace(screen, groups, error)
    elif json:
        screen.emit({"errors": groups})
    elif groups:
        columns = [
            *(TableColumn("ERROR"), TableColumn("TIMES", is_number=True), TableColumn("LAST")),
            *(TableColumn("FIRST"), TableColumn("KIND"), TableColumn("PLACE", shrinks=True)),
            TableColumn("MESSAGE", shrinks=True),
        ]
        show_table(screen.out, columns, [_row(group) for group in groups])
    else:
        screen.err.line("No errors were logged.")


def _show_trace(screen: Screen, groups: list[ErrorGroup], error: str) -> None:
    group = next((group for group in groups if group.fingerprint == error), None)
    if group is None:
        hint = "`potluck admin errors` lists them."
        raise NotFound(f"There is no error {printable(error)}.", hint)
    if screen.json:
        screen.emit(group)
        return
    when = show_since(group.last_at, datetime.now(UTC))
    screen.err.line(f"{group.occurrences} times, last {when}, on {group.instance}.", Tone.FAINT)
    for line in (group.trace or group.message).splitlines():
        screen.out.line(printable(line))


def _row(group: ErrorGroup) -> list[Cell]:
    now = datetime.now(UTC)
    times = (show_since(moment, now) for moment in (group.last_at, group.first_at))
    return [
        *map(Cell, (group.fingerprint, str(group.occurrences), *times, group.kind, group.place)),
        Cell(group.message),
    ]
