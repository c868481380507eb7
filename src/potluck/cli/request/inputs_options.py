"""What goes along with a task: files, and secrets."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from potluck.cli.options import directory

SecretOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A variable that only my own nodes get; taken from my environment, or asked for;"
        " repeatable.",
        show_default=False,
    ),
]
TrustOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WALLET",
        help="Nodes of this wallet may have the secrets too; repeatable.",
        show_default=False,
    ),
]
StrangersOption = Annotated[
    bool,
    typer.Option(
        "--secrets-to-strangers",
        help="Every node may have the secrets: whoever owns it can read them.",
    ),
]


@dataclass(frozen=True)
class SentOptions:
    """Files are looked at before anything is sent; secrets are read then, too."""

    panel: ClassVar = "Files and secrets"

    folder: Annotated[
        Path | None,
        typer.Option(
            parser=directory,
            metavar="DIR",
            help="Goes along, without what its .gitignore names; the task works in it.",
        ),
    ] = None
    file: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SRC[:DST]",
            help="Goes along, for reading; DST is its name there; repeatable.",
            show_default=False,
        ),
    ] = None
    checkpoint: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="How often $POTLUCK_CHECKPOINT is brought to safety, for the next attempt.",
        ),
    ] = "60s"
    secret: SecretOption = None
    trust: TrustOption = None
    secrets_to_strangers: StrangersOption = False
