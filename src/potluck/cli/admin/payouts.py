"""`potluck admin payouts`: who is to be paid, and what was paid outside the pool."""

from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.csv_file import csv_text, read_csv
from potluck.cli.terminal.screen import Pane, Screen, Tone, printable
from potluck.cli.terminal.table import Cell, TableColumn, drop_empty_columns, show_table
from potluck.model.decode_errors import plain_message, split_path
from potluck.model.error import Conflict, InvalidInput, NotFound
from potluck.model.units import parse_amount, show_amount, show_count, show_credits
from potluck.wire.money.rewards import ClaimantView, PaidRow, PayoutsMarked, PayoutView

if TYPE_CHECKING:
    from potluck.consumer import Potluck

_COLUMNS = ("id", "wallet", "credits")
_REFERENCE = "reference"


def list_payouts(
    limit: Annotated[int, typer.Option(min=0, max=10_000, help="How many payouts.")] = 10,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show the accounts to be paid, and the newest payouts."""
    screen = Screen(json)
    with connect(server) as potluck:
        claimants = list(potluck.admin.claimants())
        payouts = list(islice(potluck.admin.payouts(), limit))
    if json:
        screen.emit({"claimants": claimants, "payouts": payouts})
        return
    if claimants:
        _show_claimants(screen.out, claimants)
    else:
        screen.out.line("No account is due a payout.")
    if payouts:
        screen.out.line()
        _show_payouts(screen.out, payouts)


def export_payouts(server: ServerOption = None, json: JsonOption = False) -> None:
    """Write a CSV file of what is to be paid, for `mark`.

    Each row has an id. Pay the rows, add a reference if you like, then run `potluck admin payouts
    mark` with the file, before you export the next one: it would have the same amounts again.
    """
    screen = Screen(json)
    with connect(server) as potluck:
        _check_payouts_outside(potluck)
        claimants = list(potluck.admin.claimants())
    if json:
        screen.emit({"claimants": claimants})
        return
    rows = [
        (_payout_id(claimant), claimant.wallet, show_credits(claimant.claimable_micro), "")
        for claimant in claimants
    ]
    screen.out.write(csv_text((*_COLUMNS, _REFERENCE), rows))


def _check_payouts_outside(potluck: "Potluck") -> None:
    """A root that is made between export and payment would pay the same rewards again."""
    with suppress(NotFound):
        contract = potluck.rewards.contract()
        if contract.has_payouts:
            raise Conflict(
                f"This pool pays rewards through the contract {contract.contract}.",
                "To pay outside, remove POTLUCK_TREASURY_SOCKET from the server's settings first.",
            )


def mark_payouts(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="PAID.csv",
            help="Columns id, wallet, credits and, if you like, reference.",
            show_default=False,
        ),
    ],
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Record what was paid outside the pool, each row once.

    The id of a row is your choice. The same row again changes nothing. If a row is bad, nothing is
    recorded.
    """
    screen = Screen(json)
    rows = _read_rows(file)
    with connect(server) as potluck:
        marked = potluck.admin.mark_paid(rows) if rows else PayoutsMarked(0, 0, 0)
    if json:
        screen.emit(marked)
    if marked.bad:
        _refuse(screen, file, marked)
    if not json:
        screen.out.line(
            f"Recorded {show_count(marked.recorded, 'payout')} of "
            f"{show_amount(marked.amount_micro)}; recorded before: {marked.already_recorded}."
        )


def _read_rows(file: Path) -> list[PaidRow]:
    rows, wrong = list[PaidRow](), list[str]()
    for line, cells in enumerate(read_csv(file, _COLUMNS, (_REFERENCE,)), 2):
        payout_id, wallet, amount, reference = cells
        try:
            row = PaidRow(payout_id, wallet, parse_amount(amount, "credits"), reference)
            rows.append(msgspec.convert(msgspec.to_builtins(row), PaidRow))
        except InvalidInput as error:
            wrong.append(f"line {line}: {error}")
        except msgspec.ValidationError as error:
            sentence, path = split_path(error)
            wrong.append(f"line {line}: {path or 'the row'}: {plain_message(sentence)}.")
    if wrong:
        raise InvalidInput(f"{file}: {' '.join(wrong)}", "Nothing was recorded. Correct the file.")
    return rows


def _refuse(screen: Screen, file: Path, marked: PayoutsMarked) -> None:
    for bad in marked.bad:
        screen.err.line(f"line {bad.row + 1}, {printable(bad.id)}: {bad.sentence}", Tone.BAD)
    count = show_count(len(marked.bad), "bad row")
    raise InvalidInput(f"{file} has {count}.", "Nothing was recorded. Correct the file.")


def _payout_id(claimant: ClaimantView) -> str:
    """The payout that covers all that was set aside so far has one id, whenever it is exported."""
    return f"{claimant.wallet}-{claimant.paid_micro + claimant.claimable_micro}"


def _show_claimants(pane: Pane, claimants: list[ClaimantView]) -> None:
    columns = [
        *(TableColumn("ACCOUNT"), TableColumn("LABEL"), TableColumn("WALLET", shrinks=True)),
        *(TableColumn("CLAIMABLE", is_number=True), TableColumn("PAID", is_number=True)),
        TableColumn("UNPAID SINCE", is_number=True),
    ]
    rows = [
        [
            *(Cell(claimant.account_id), Cell(claimant.label, Tone.STRONG), Cell(claimant.wallet)),
            Cell(show_credits(claimant.claimable_micro), Tone.WAITING),
            Cell(show_credits(claimant.paid_micro)),
            Cell(f"epoch {claimant.unpaid_since_epoch}"),
        ]
        for claimant in claimants
    ]
    show_table(pane, *drop_empty_columns(columns, rows))


def _show_payouts(pane: Pane, payouts: list[PayoutView]) -> None:
    columns = [
        *(TableColumn("RECORDED"), TableColumn("CREDITS", is_number=True)),
        *(TableColumn("WALLET", shrinks=True), TableColumn("ID", shrinks=True)),
        TableColumn("REFERENCE", shrinks=True),
    ]
    rows = [
        [
            Cell(f"{payout.recorded_at.astimezone():%Y-%m-%d %H:%M}"),
            Cell(show_credits(payout.amount_micro), Tone.GOOD),
            *(Cell(payout.wallet), Cell(printable(payout.id)), Cell(printable(payout.reference))),
        ]
        for payout in payouts
    ]
    show_table(pane, *drop_empty_columns(columns, rows))


def resume_payouts(server: ServerOption = None, json: JsonOption = False) -> None:
    """Resume deposits and payouts of the contract after they have stopped.

    `potluck admin alerts` says why they have. Look into that first."""
    screen = Screen(json)
    with connect(server) as potluck:
        potluck.admin.resume_payouts()
    if json:
        screen.emit({"resumed": True})
    else:
        screen.out.line("Deposits are credited and rewards are paid again.")
