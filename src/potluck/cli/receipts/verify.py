"""`potluck receipts verify`: checks exported receipts without a server."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from potluck.cli.options import JsonOption
from potluck.cli.terminal.screen import Pane, Screen, Tone
from potluck.consumer.receipt_check import ReceiptChainFound, ReceiptCheck, check_receipts
from potluck.model.error import InvalidInput, NotFound
from potluck.model.units import show_amount, show_count, show_seconds

_STARTS = {
    "first": "began with this data directory",
    "moved": "began after another key, node or server",
    "refused": "began again, because the server refused to continue the previous one",
    "": "begins before this file",
}


_WHAT_IT_IS = "The file should be as `potluck receipts export FILE` wrote it, with all its lines."


def verify_receipts(
    file: Annotated[str, typer.Argument(metavar="FILE", help="An export; - for stdin.")],
    server: Annotated[
        str | None,
        typer.Option(
            "--signer", metavar="0x…", help="The server's address, which must have countersigned."
        ),
    ] = None,
    node_key: Annotated[
        list[str] | None,
        typer.Option(
            "--node-key", metavar="0x…", help="A node key that must have signed; repeatable."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Check exported receipts offline.

    Signatures, order and amounts, and that no receipt is missing. Needs no server: the addresses
    of the server and of the node keys are enough.
    """
    screen = Screen(json)
    check = check_receipts(_read(file).splitlines(), server, node_key or ())
    if json:
        screen.emit(check)
    elif check.bad is None:
        _show(screen.out, check, is_compared=server is not None)
    if check.bad is not None:
        # Where a chain breaks is known only when all lines were read.
        good = min(check.receipts, check.bad.line - 1)
        hint = f"Good before it: {show_count(good, 'receipt')}." if good else _WHAT_IT_IS
        raise InvalidInput(f"Line {check.bad.line}: {check.bad.problem}", hint)


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        detail = f"{file} cannot be read: {os.strerror(error.errno or 0)}."
        raise NotFound(detail, "Make it with `potluck receipts export FILE`.") from error


def _show(pane: Pane, check: ReceiptCheck, *, is_compared: bool) -> None:
    receipts = show_count(check.receipts, "receipt")
    pane.line(f"{receipts} of {show_count(check.attempts, 'attempt')} are good.", Tone.GOOD)
    pane.line(f"Worked: {show_seconds(check.worked_ms / 1000)} as the nodes signed it.")
    pane.line(f"Measured: {show_seconds(check.measured_ms / 1000)} as the server signed it.")
    held_back = f", of which {show_amount(check.held_back_micro)} was held back"
    pane.line(
        f"Charged: {show_amount(check.charged_micro)}{held_back if check.held_back_micro else ''}."
    )
    for chain in check.chains:
        pane.prose(_chain(chain))
    if not is_compared:
        pane.prose(f"Countersigned by {check.server}. Compare it with the pool's address.")


def _chain(chain: ReceiptChainFound) -> str:
    which = f"Chain {chain.of_node} of {chain.node_id}" if chain.of_node > 1 else chain.node_id
    place = f"receipts {chain.first} to {chain.last}"
    return f"{which}: {place}, signed by {chain.node_key}; it {_STARTS.get(chain.starts, 'began')}."
