"""Texts about an array: its progress and its failed items."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from potluck.cli.terminal.live_line import draw_bar, show_tens
from potluck.cli.terminal.screen import Pane, Tone, printable
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.local.failure_hints import is_of_code, last_line
from potluck.model.task import EndReason
from potluck.wire.consumer import AttemptView, FailedItem, ItemCounts, TaskView

if TYPE_CHECKING:
    from potluck.consumer import Potluck

# Further failed items are only counted.
MOST_SHOWN = 20


def percent_done(counts: ItemCounts) -> int:
    """The share of items that need no more work; 100 only if all are done."""
    return counts.done * 100 // counts.total


def describe_counts(counts: ItemCounts) -> str:
    failed = f", {counts.failed:,} failed" if counts.failed else ""
    cancelled = f", {counts.cancelled:,} cancelled" if counts.cancelled else ""
    return f"{counts.done:,} of {counts.total:,} items{failed}{cancelled}"


def describe_progress(counts: ItemCounts, is_live: bool) -> str:
    if is_live:
        return f"{draw_bar(percent_done(counts))} · {describe_counts(counts)}"
    return f"{show_tens(percent_done(counts))} of {counts.total:,} items"


def iter_failed_items(potluck: "Potluck", task_id: str) -> Iterator[FailedItem]:
    """Items that will not be retried, in order."""
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
    """Shows the failed items with their reasons, and values if given; counts the rest."""
    value = [TableColumn("VALUE", shrinks=True)] if values else []
    columns = [
        TableColumn("ITEM", is_number=True),
        *value,
        TableColumn("TRIES", is_number=True),
        TableColumn("WHY", shrinks=True),
    ]
    rows = [
        [
            Cell(f"{item.item}", Tone.STRONG),
            *([Cell(values[item.item])] if values else []),
            Cell(f"{item.failures}"),
            Cell(explain_end(item)),
        ]
        for item in failed
    ]
    show_table(pane, columns, rows)
    if total > len(failed):
        pane.line(f"… and {total - len(failed):,} more", Tone.FAINT)


def explain_end(ended: TaskView | FailedItem | AttemptView) -> str:
    """The reason in one line; if the code ended by itself, with what it wrote last."""
    last = printable(last_line(ended.last_lines)) if is_of_code(ended.reason) else ""
    if ended.reason is EndReason.EXCEPTION and last:
        return last
    return ": ".join(filter(None, (_reason(ended), last)))


def _reason(ended: TaskView | FailedItem | AttemptView) -> str:
    if ended.detail:
        return printable(ended.detail)
    if ended.reason is EndReason.EXIT_STATUS:
        return f"exit status {ended.exit_code}"
    return "" if ended.reason is None else ended.reason.facts.meaning
