"""An array in words: how far it has come, and which of its items failed."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from potluck.cli.terminal.progress_bar import bar, in_tens
from potluck.cli.terminal.screen import Pane, Tone, printable
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.model.task import EndReason
from potluck.wire.consumer import FailedItem, ItemCounts, TaskView

if TYPE_CHECKING:
    from potluck.consumer import Potluck

# More of them nobody reads; the rest is told by number.
MOST_SHOWN = 20


def percent(counts: ItemCounts) -> int:
    """Of all items, those that need no more work; 100 only when it is all of them."""
    return (counts.succeeded + counts.failed) * 100 // counts.total


def told(counts: ItemCounts) -> str:
    """How many are done, and how many of these failed."""
    failed = f", {counts.failed:,} failed" if counts.failed else ""
    return f"{counts.succeeded + counts.failed:,} of {counts.total:,} items{failed}"


def progress(counts: ItemCounts, is_live: bool) -> str:
    if is_live:
        return f"{bar(percent(counts))} · {told(counts)}"
    return f"{in_tens(percent(counts))} of {counts.total:,} items"


def finally_failed(potluck: "Potluck", task_id: str) -> Iterator[FailedItem]:
    """Items that will not be tried again, in order."""
    cursor: int | None = None
    while True:
        page = potluck.tasks.failed_items(task_id, cursor)
        yield from (item for item in page.items if item.is_final)
        cursor = page.next_cursor
        if cursor is None:
            return


def show_failed(
    pane: Pane, failed: list[FailedItem], total: int, values: Sequence[str] = ()
) -> None:
    """The first of them with their reasons, and how many there are besides; with what they stand
    for, where that is known."""
    value = [TableColumn("VALUE", shrinks=True)] if values else []
    columns = [
        TableColumn("ITEM", is_number=True),
        *value,
        TableColumn("TRIES", is_number=True),
        TableColumn("WHY", shrinks=True),
    ]
    rows = [
        [
            Cell(f"{each.item}", Tone.STRONG),
            *([Cell(values[each.item])] if values else []),
            Cell(f"{each.failures}"),
            Cell(explain_end(each)),
        ]
        for each in failed
    ]
    show_table(pane, columns, rows)
    if total > len(failed):
        pane.line(f"… and {total - len(failed):,} more", Tone.FAINT)


def explain_end(ended: TaskView | FailedItem) -> str:
    if ended.detail:
        return printable(ended.detail)
    if ended.reason is EndReason.EXIT_STATUS:
        return f"exit status {ended.exit_code}"
    return "" if ended.reason is None else ended.reason.facts.meaning
