"""`potluck top`: my tasks and the pool, live."""

import os
from typing import Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Screen
from potluck.cli.top.print_once import show_once
from potluck.cli.top.snapshot import Looker


def top(
    interval: Annotated[
        float,
        typer.Option(min=0.5, max=3600, metavar="SECONDS", help="Between two looks at the pool."),
    ] = 2.0,
    once: Annotated[
        bool, typer.Option("--once", help="Look once, print it, and return; so it does in a pipe.")
    ] = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Watch my tasks and the pool on the whole screen.

    `?` there shows the keys. In a pipe it is one look, as it is with --once and --json.
    """
    screen = Screen(json)
    with connect(server) as potluck:
        looker = Looker(potluck)
        first = looker.look()
        if json:
            screen.emit(first)
        elif once or not screen.out.is_live:
            show_once(screen.out, first)
        else:
            if not os.environ.get("NO_COLOR"):
                os.environ.pop("NO_COLOR", None)  # empty means nothing, also to textual
            from potluck.cli.top.app import Top

            app = Top(potluck, first, looker, interval)
            status = app.run(mouse=False)
            if app.failure is not None:
                raise app.failure
            raise typer.Exit(status or 0)
