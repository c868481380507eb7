"""`potluck receipts list`: ended attempts, and which of them have receipts."""

from datetime import UTC, datetime
from itertools import islice

from potluck.cli.options import JsonOption, LimitOption, ServerOption, connect
from potluck.cli.receipts.options import AsOption
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.terminal.screen import Screen, Tone
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.model.units import show_credits, show_seconds, show_since
from potluck.wire.signing.receipt import ReceiptSide, ReceiptState

# Receipts come with heartbeats: this long after the end there should be one.
_DUE_SECONDS = 120.0


def list_receipts(
    side: AsOption = ReceiptSide.PROVIDER,
    limit: LimitOption = 20,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """List attempts and their receipts.

    Newest first. A receipt comes with the next heartbeat of its node; a node of an earlier version
    sends none.
    """
    screen, now = Screen(json), datetime.now(UTC)
    with connect(server) as potluck:
        states = list(islice(potluck.receipts.attempts(side), limit))
        address = potluck.rewards.signer()
    if json:
        screen.emit({"server": address, "attempts": states})
        return
    if not states:
        screen.err.line("No attempts have ended yet.")
        return
    columns = [
        TableColumn("ATTEMPT"),
        TableColumn("TASK"),
        TableColumn("NODE", shrinks=True),
        TableColumn("ENDED", is_number=True),
        TableColumn("WORKED", is_number=True),
        TableColumn("CREDITS", is_number=True),
        TableColumn("RECEIPT"),
    ]
    show_table(screen.out, columns, [_row(state, now) for state in states])
    screen.err.line(f"The server signs with {address}.", Tone.FAINT)


def _row(state: ReceiptState, now: datetime) -> list[Cell]:
    worked = "–" if state.worked_ms is None else show_seconds(state.worked_ms / 1000)
    return [
        *(Cell(short_id(state.attempt_id)), Cell(short_id(state.task_id)), Cell(state.node_name)),
        *(Cell(show_since(state.finished_at, now)), Cell(worked)),
        *(Cell(show_credits(state.charged_micro)), _receipt(state, now)),
    ]


def _receipt(state: ReceiptState, now: datetime) -> Cell:
    if state.is_complete:
        return Cell("signed", Tone.GOOD)
    if (now - state.finished_at).total_seconds() < _DUE_SECONDS:
        return Cell("not yet", Tone.FAINT)
    return Cell("in part" if state.receipts else "missing", Tone.WAITING)
