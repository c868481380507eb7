"""When a task runs, and how often it is tried."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from potluck.cli.completion import task_ids
from potluck.cli.option_groups import GENERAL


@dataclass(frozen=True)
class TimingOptions:
    """Its place in line, and what it waits for."""

    panel: ClassVar = "When it runs"

    after: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TASK",
            help="Only once this task of mine has succeeded; repeatable.",
            show_default=False,
            autocompletion=task_ids,
        ),
    ] = None
    delay: Annotated[str | None, typer.Option(metavar="TIME", help="Not before this is over.")] = (
        None
    )
    deadline: Annotated[
        str | None, typer.Option(metavar="TIME", help="Started within this, or never.")
    ] = None
    expected: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="How long it will take, about; of an array, each item."),
    ] = None
    priority: Annotated[int, typer.Option(min=-100, max=100, help="Higher goes first.")] = 0
    attempts: Annotated[
        int,
        typer.Option(min=1, max=100, help="Tries, if it fails by itself.", rich_help_panel=GENERAL),
    ] = 1
