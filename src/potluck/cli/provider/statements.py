"""`potluck rewards statement`, `verify` and `signer`: statements that need no trust in a copy."""

from pathlib import Path
from typing import Annotated

import typer

from potluck.cli.account.ensure_signed_in import owner_client
from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.csv_file import csv_text
from potluck.cli.terminal.screen import Screen
from potluck.model.error import InvalidInput
from potluck.model.units import show_amount, show_credits
from potluck.wire import codec
from potluck.wire.money.rewards import SignedStatement
from potluck.wire.signing.address import checksummed
from potluck.wire.signing.epoch_statement import EpochStatement, statement_sha256, statement_signer

EpochArgument = Annotated[
    int, typer.Argument(metavar="EPOCH", min=1, help="The number of an epoch.", show_default=False)
]
CsvOption = Annotated[bool, typer.Option("--csv", help="As CSV, without the signature.")]
_MOST_BYTES = 64 * 1024 * 1024


def own_statement(
    epoch: EpochArgument,
    csv: CsvOption = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Get my statement of an epoch, signed by the server.

    It is JSON. `potluck rewards verify` checks it without the server.
    """
    screen = Screen(json)
    with owner_client(screen, server) as potluck:
        signed = potluck.rewards.statement(epoch)
    print_statement(screen, signed, csv)


def verify_statement(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A statement as JSON.", show_default=False)
    ],
    signer: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="The server's address, as `potluck rewards signer` showed it.",
            show_default=False,
        ),
    ],
    json: JsonOption = False,
) -> None:
    """Verify a statement, without the server."""
    screen = Screen(json)
    signed = _read(file)
    _check(signed, checksummed(signer))
    statement = signed.statement
    amount_micro = sum(line.amount_micro for line in statement.lines)
    if json:
        facts = {"epoch": statement.epoch, "signer": signed.signer, "sha256": signed.sha256}
        screen.emit({**facts, "amount_micro": amount_micro, "is_valid": True})
    else:
        screen.out.line(
            f"Valid: epoch {statement.epoch}, {show_amount(amount_micro)} set aside, "
            f"signed by {signed.signer}."
        )


def show_signer(server: ServerOption = None, json: JsonOption = False) -> None:
    """Show the address that signs the server's statements."""
    screen = Screen(json)
    with connect(server) as potluck:
        address = potluck.rewards.signer()
    if json:
        screen.emit({"signer": address})
    else:
        screen.out.line(address)


def print_statement(screen: Screen, signed: SignedStatement, as_csv: bool) -> None:
    """Exactly as it is stored and signed: it goes into files."""
    if as_csv:
        screen.out.write(_statement_csv(signed.statement))
    else:
        screen.emit(signed)


def _statement_csv(statement: EpochStatement) -> str:
    columns = ("epoch", "starts_at", "ends_at", "wallet", "earned", "fee", "held_back")
    span = (statement.epoch, statement.starts_at.isoformat(), statement.ends_at.isoformat())
    rows = [
        (
            *span,
            line.wallet,
            show_credits(line.earned_micro),
            show_credits(line.fee_micro),
            show_credits(line.held_back_micro),
            line.rewards_to,
            show_credits(line.amount_micro),
            show_credits(line.cumulative_micro),
        )
        for line in statement.lines
    ]
    return csv_text((*columns, "rewards_to", "set_aside", "cumulative"), rows)


def _read(file: Path) -> SignedStatement:
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise InvalidInput(f"{file} is too large.", "A statement is much smaller.")
        data = file.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}.", "Check it.") from error
    try:
        return codec.decode_json(data, SignedStatement)
    except InvalidInput as error:
        raise InvalidInput(
            f"{file} is not a statement.",
            "It should be as `potluck rewards statement EPOCH` wrote it.",
        ) from error


def _check(signed: SignedStatement, signer: str) -> None:
    digest = statement_sha256(signed.statement).hex()
    if signed.sha256 != digest:
        raise InvalidInput(
            "The statement was changed: its SHA-256 differs.", "Get it from the server."
        )
    actual = statement_signer(signed.statement, signed.signature)
    if actual is None or actual != signer or signed.signer != actual:
        raise InvalidInput(
            f"The statement was not signed by {signer}.",
            f"It is signed by {actual}. `potluck rewards signer` shows the server's address."
            if actual
            else "Its signature is malformed.",
        )
