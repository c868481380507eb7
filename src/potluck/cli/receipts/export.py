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
    after: Annotated[
        int,
        typer.Option(
            metavar="PLACE",
            min=0,
            help="Only receipts after this position, which the last export printed.",
        ),
    ] = 0,
    server: ServerOption = None,
) -> None:
    """Export receipts as JSON lines.

    `potluck receipts verify` checks them offline. An export has at most 100,000 receipts.
    """
    with connect(server) as potluck:
        for attempt in range(_TRIES):
            try:
                export = potluck.receipts.export(side, node, after)
                break
            except Unavailable:
                if attempt == _TRIES - 1:
                    raise
    content = b"".join(line + b"\n" for line in export.lines)
    screen = Screen()
    if file == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        _write(file, content)
        screen.err.line(f"Wrote {show_count(export.receipts, 'receipt')} to {file}.")
    if export.next_after is not None:
        screen.err.line(f"There are more: export them with --after {export.next_after}.")


def _write(file: str, content: bytes) -> None:
    try:
        write_atomically(Path(file), content)
    except OSError as error:
        detail = f"{file} cannot be written: {os.strerror(error.errno or 0)}."
        raise BadSettings(detail, "Choose another file.") from error
