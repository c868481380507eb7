"""When a task runs, and how often it is tried."""

from dataclasses import dataclass
from typing import Annotated

import typer

_PANEL = "When it runs"


@dataclass(frozen=True)
class TimingOptions:
    """Its place in line, and what it waits for."""

    after: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TASK",
            help="Only once this task of mine has succeeded; repeatable.",
            rich_help_panel=_PANEL,
            show_default=False,
        ),
    ] = None
    delay: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Not before this is over.", rich_help_panel=_PANEL),
    ] = None
    deadline: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Started within this, or never.", rich_help_panel=_PANEL),
    ] = None
    expected: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="How long it will take, about; of an array, each item.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    priority: Annotated[
        int,
        typer.Option(min=-100, max=100, help="Higher goes first.", rich_help_panel=_PANEL),
    ] = 0
    attempts: Annotated[int, typer.Option(min=1, max=100, help="Tries, if it fails by itself.")] = 1
