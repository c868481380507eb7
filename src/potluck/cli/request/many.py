"""Arrays: one task, many items."""

from dataclasses import dataclass
from typing import Annotated

import typer

from potluck.model.task import MOST_ITEMS

_PANEL = "Many at once"


@dataclass(frozen=True)
class ArrayOptions:
    """How many items, and how many of them may fail."""

    array: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_ITEMS,
            metavar="N",
            help="Run it N times; POTLUCK_ITEM says which, from 0.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    allow_failures: Annotated[
        int,
        typer.Option(
            min=0,
            max=MOST_ITEMS,
            metavar="N",
            help="It succeeds if no more items fail.",
            rich_help_panel=_PANEL,
        ),
    ] = 0
