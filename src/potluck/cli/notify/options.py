"""`--notify`, for every command that waits for a task's end."""

from typing import Annotated

import typer

NotifyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--notify",
        metavar="HOW",
        envvar="POTLUCK_NOTIFY",
        show_default=False,
        help="At the task's end: bell, desktop, or an apprise URL, which this machine sends to;"
        " repeatable; none is silent.",
    ),
]
