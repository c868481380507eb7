"""`potluck top`: my tasks and the pool, live."""

import os
from typing import Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Screen
from potluck.cli.top.print_once import show_once
from potluck.cli.top.snapshot import SnapshotReader


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
            show_once(screen.out, first)
        else:
            if not os.environ.get("NO_COLOR"):
                os.environ.pop("NO_COLOR", None)  # textual would take an empty value as set
            from potluck.cli.top.app import Top

            app = Top(potluck, first, reader, interval)
            status = app.run(mouse=False)
            if app.failure is not None:
                raise app.failure
            raise typer.Exit(status or 0)
