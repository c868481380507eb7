"""`potluck admin epochs` and `statement`."""

from itertools import islice
from typing import Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.provider.statements import CsvOption, EpochArgument, print_statement
from potluck.cli.terminal.screen import Screen, Tone
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.model.units import show_credits
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
