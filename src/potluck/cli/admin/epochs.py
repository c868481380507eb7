"""`potluck admin epochs` and `statement`."""

from itertools import islice
from typing import Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.provider.statements import CsvOption, EpochArgument, print_statement
from potluck.cli.terminal.screen import Screen, Tone, printable
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.model.payout import RootState
from potluck.model.units import show_credits
from potluck.wire.money.contract import EpochRoot
from potluck.wire.money.rewards import EpochView


def list_epochs(
    limit: Annotated[
        int, typer.Option(min=1, max=10_000, help="How many of the newest epochs.")
    ] = 30,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show the epochs of the pool."""
    screen = Screen(json)
    with connect(server) as potluck:
        epochs = list(islice(potluck.admin.epochs(), limit))
    if json:
        screen.emit({"epochs": epochs})
        return
    columns = [TableColumn("EPOCH", is_number=True), TableColumn("ENDS"), TableColumn("CLOSED")]
    titles = ("ACCOUNTS", "EARNED", "FEES", "SET ASIDE", "IN ALL")
    columns += [TableColumn(title, is_number=True) for title in titles]
    show_table(screen.out, columns, [_cells(epoch) for epoch in epochs])
    if any(epoch.roots for epoch in epochs):
        columns = [TableColumn("EPOCH", is_number=True), TableColumn("STATE")]
        columns += [TableColumn("ROOT", shrinks=True), TableColumn("TRANSACTION", shrinks=True)]
        screen.out.line()
        show_table(
            screen.out,
            columns,
            [_root_cells(epoch.number, root) for epoch in epochs for root in epoch.roots],
        )
    for epoch in epochs:
        for root in epoch.roots:
            if root.waits_because:
                why = printable(root.waits_because.rstrip("."))
                screen.err.prose(f"The root of epoch {epoch.number} waits: {why}.", Tone.WAITING)
    if any(root.is_partial for epoch in epochs for root in epoch.roots):
        screen.err.prose(
            "A part: the root is full, and the rewards of other accounts are in the next one.",
            Tone.FAINT,
        )


def pool_statement(
    epoch: EpochArgument,
    csv: CsvOption = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Get the statement of all accounts for an epoch, signed by the server."""
    screen = Screen(json)
    with connect(server) as potluck:
        signed = potluck.admin.statement(epoch)
    print_statement(screen, signed, csv)


def _cells(epoch: EpochView) -> list[Cell]:
    cells = [Cell(str(epoch.number), Tone.STRONG)]
    cells.append(Cell(f"{epoch.ends_at.astimezone():%Y-%m-%d %H:%M}"))
    if epoch.closed_at is None:
        return [*cells, Cell("open", Tone.GOOD), *([Cell("-", Tone.FAINT)] * 5)]
    cells.append(Cell(f"{epoch.closed_at.astimezone():%Y-%m-%d %H:%M:%S}"))
    amounts = (epoch.earned_micro, epoch.fee_micro, epoch.amount_micro, epoch.cumulative_micro)
    return [*cells, Cell(f"{epoch.accounts:,}"), *(Cell(show_credits(micro)) for micro in amounts)]


_ROOT_TONES = {
    RootState.PLANNED: Tone.FAINT,
    RootState.PROPOSED: Tone.WAITING,
    RootState.ACCEPTED: Tone.GOOD,
    RootState.REVOKED: Tone.BAD,
}


def _root_cells(number: int, root: EpochRoot) -> list[Cell]:
    sent = "-"
    if root.transaction_kind is not None:
        sent = f"{root.transaction_kind} {root.transaction_state} {root.transaction_hash or ''}"
    return [
        Cell(str(number), Tone.STRONG),
        Cell(f"{root.state}{', a part' if root.is_partial else ''}", _ROOT_TONES[root.state]),
        Cell(root.root),
        Cell(sent.rstrip()),
    ]
