"""`potluck receipts export`: receipts as JSON lines, signed by the server at the end."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from potluck.cli.options import ServerOption, connect
from potluck.cli.receipts.options import AsOption
from potluck.cli.terminal.screen import Screen
from potluck.local.durable_files import write_atomically
from potluck.model.error import BadSettings, Unavailable
from potluck.model.units import show_count
from potluck.wire.signing.receipt import ReceiptSide

_TRIES = 3


def export_receipts(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Where to write them; - for stdout.")
    ] = "-",
    side: AsOption = ReceiptSide.PROVIDER,
    node: Annotated[
        str | None, typer.Option(metavar="NODE_ID", help="Only those of this node.")
    ] = None,
    server: ServerOption = None,
) -> None:
    """Export receipts as JSON lines.

    `potluck receipts verify` checks them offline.
    """
    with connect(server) as potluck:
        for attempt in range(_TRIES):
            try:
                lines = list(potluck.receipts.export(side, node))
                break
            except Unavailable:
                if attempt == _TRIES - 1:
                    raise
    content = b"".join(line + b"\n" for line in lines)
    if file == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        write_atomically(Path(file), content)
    except OSError as error:
        detail = f"{file} cannot be written: {os.strerror(error.errno or 0)}."
        raise BadSettings(detail, "Choose another file.") from error
    screen = Screen()
    screen.err.line(f"Wrote {show_count(len(lines) - 1, 'receipt')} to {file}.")
