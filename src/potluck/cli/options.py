"""Options that many commands share, worded once."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from potluck.consumer import Potluck

ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="URL", help="The server to ask, instead of the one in your profile."
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json",
        help='Write JSON to stdout and nothing else; an error is the last line, {"error": {…}}.',
    ),
]
DataDirOption = Annotated[
    str | None, typer.Option("--data-dir", metavar="DIR", help="Where everything is kept.")
]
TaskArgument = Annotated[
    str,
    typer.Argument(
        metavar="TASK", help="An id, or the beginning or end of one.", show_default=False
    ),
]
NewestTaskArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[TASK]",
        help="An id, or the beginning or end of one. Without it, your newest task.",
        show_default=False,
    ),
]


def connect(server: str | None) -> "Potluck":
    """The client for the named server, or for the one in the profile."""
    from potluck.consumer import Potluck, load_profile

    return Potluck(load_profile(server))
