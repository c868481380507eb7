"""The words behind the options: what is run, and with which arguments."""

from typing import Annotated

import typer

ScriptArgument = Annotated[
    str | None,
    typer.Argument(metavar="SCRIPT", help="A Python file; `-` reads stdin.", show_default=False),
]
ArgumentsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGS", help="For the script, untouched.", show_default=False),
]


def words_of(script: str | None, arguments: list[str] | None) -> list[str]:
    return [] if script is None else [script, *(arguments or ())]
