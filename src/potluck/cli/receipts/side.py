"""As whom receipts are seen: the owner of the machines, or of the tasks."""

from typing import Annotated

import typer

from potluck.wire.signing.receipt import ReceiptSide

AsOption = Annotated[
    ReceiptSide,
    typer.Option("--as", help="As the provider: of my machines. As the consumer: of my tasks."),
]
