"""How much a task gets, and for how long."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer


@dataclass(frozen=True)
class WallOptions:
    """What it can not go beyond."""

    panel: ClassVar = "Its walls"

    cores: Annotated[int, typer.Option(min=1, max=4096)] = 1
    ram: Annotated[str, typer.Option(metavar="SIZE")] = "1GiB"
    disk: Annotated[str, typer.Option(metavar="SIZE")] = "256MiB"
    time: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="It is ended after this: 90s, 15m, 1h30m …; of an array, each item.",
        ),
    ] = "6h"
    stop_after_silence: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="The node ends it when the server is silent for so long; else it goes on.",
        ),
    ] = None
