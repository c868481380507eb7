"""Arrays: one task, many items."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from potluck.model.task import MOST_ITEMS

AllowFailuresOption = Annotated[
    int,
    typer.Option(min=0, max=MOST_ITEMS, metavar="N", help="It succeeds if no more items fail."),
]


@dataclass(frozen=True)
class ArrayOptions:
    """How many items, and how many of them may fail."""

    panel: ClassVar = "Many at once"

    array: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_ITEMS,
            metavar="N",
            help="Run it N times; POTLUCK_ITEM says which, from 0.",
        ),
    ] = None
    allow_failures: AllowFailuresOption = 0
