"""`potluck top`: my tasks and the pool, live."""

import os
from typing import Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Pane, Screen
from potluck.cli.terminal.table import Cell, Columns, drop_empty_columns, show_table
from potluck.cli.top.snapshot import SnapshotReader, TopSnapshot
from potluck.cli.top.text import (
    DEVICE_COLUMNS,
    TASK_COLUMNS,
    DeviceOrder,
    TaskOrder,
    TextRow,
    device_rows,
    head_lines,
    task_rows,
)


def top(
    interval: Annotated[
        float,
        typer.Option(min=0.5, max=3600, metavar="SECONDS", help="Time between two refreshes."),
    ] = 2.0,
    once: Annotated[
        bool, typer.Option("--once", help="Print once and exit; the default in a pipe.")
    ] = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Watch my tasks and the pool, full-screen.

    Press `?` for the keys. In a pipe, and with --once or --json, it prints once.
    """
    screen = Screen(json)
    with connect(server) as potluck:
        reader = SnapshotReader(potluck)
        first = reader.read()
        if json:
            screen.emit(first)
        elif once or not screen.out.is_live:
            _show_once(screen.out, first)
        else:
            if not os.environ.get("NO_COLOR"):
                os.environ.pop("NO_COLOR", None)  # textual would take an empty value as set
            from potluck.cli.top.app import Top

            app = Top(potluck, first, reader, interval)
            status = app.run(mouse=False)
            if app.failure is not None:
                raise app.failure
            raise typer.Exit(status or 0)


def _show_once(pane: Pane, snapshot: TopSnapshot) -> None:
    """For pipes and --once."""
    for line in head_lines(snapshot):
        pane.line(" · ".join(pane.paint(cell.text, cell.tone) for cell in line))
    tasks = task_rows(snapshot, TaskOrder.AGE, "")
    _show(pane, TASK_COLUMNS, tasks if pane.is_terminal else list(map(_with_full_id, tasks)))
    _show(pane, DEVICE_COLUMNS, device_rows(snapshot, DeviceOrder.NODE, ""))


def _with_full_id(task: TextRow) -> TextRow:
    """With the full id, for programs."""
    return TextRow(task.key, [Cell(task.key), *task.cells[1:]])


def _show(pane: Pane, columns: Columns, rows: list[TextRow]) -> None:
    if rows:
        pane.line()
        show_table(pane, *drop_empty_columns(columns, [row.cells for row in rows]))
