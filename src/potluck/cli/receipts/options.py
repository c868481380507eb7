"""The option that receipts commands share: whose receipts, those of my machines or of my tasks."""

from typing import Annotated

import typer

from potluck.wire.signing.receipt import ReceiptSide

AsOption = Annotated[
    ReceiptSide,
    typer.Option("--as", help="As the provider: of my machines. As the consumer: of my tasks."),
]
