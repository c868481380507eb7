"""`potluck attempts`: lists the attempts of a task."""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.options import JsonOption, LimitOption, NewestTaskArgument, ServerOption, connect
from potluck.cli.results.usage import show_short_usage
from potluck.cli.tasks.items import explain_end
from potluck.cli.tasks.resolve_task import resolve_task_to_read
from potluck.cli.tasks.task_text import describe_place, ran_seconds
from potluck.cli.terminal.screen import Pane, Screen, Tone
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.model.units import show_seconds
from potluck.wire.consumer import AttemptView

if TYPE_CHECKING:
    from potluck.consumer import Potluck


def attempts(
    task: NewestTaskArgument = None,
    item: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Only attempts that ran item N of an array."),
    ] = None,
    limit: LimitOption = 20,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """List the attempts of a task, newest first."""
    screen = Screen(json)
    with connect(server) as potluck:
        task_id = resolve_task_to_read(potluck, task, screen)
        matches = iter_attempts(potluck, task_id, item)
        shown = list(islice(matches, limit))
        has_more = len(shown) == limit and next(matches, None) is not None
        view = None if shown and not has_more else potluck.tasks.get(task_id)
    if json:
        screen.emit({"attempts": shown})
    elif shown:
        _show(screen.out, shown)
        if has_more:
            total = "" if view is None or item is not None else f" of {view.attempt_count:,}"
            screen.err.line(f"The newest {limit:,}{total}; --limit N shows more.", Tone.FAINT)
    elif view is not None and view.state.is_final and not view.attempt_count:
        screen.err.line(f"No attempts: the task ended while it waited ({view.state}).")
    else:
        screen.err.line("No attempts yet. `potluck explain` shows why a task waits.")


def iter_attempts(
    potluck: "Potluck", task_id: str, item: int | None = None
) -> Iterator[AttemptView]:
    """Newest first; with `item`, only attempts that ran this item of an array."""
    cursor: int | None = None
    while True:
        page = potluck.tasks.attempts(task_id, cursor, item=item)
        yield from page.attempts
        cursor = page.next_cursor
        if cursor is None:
            return


def _show(pane: Pane, attempts: list[AttemptView]) -> None:
    columns = [
        TableColumn("N", is_number=True),
        TableColumn("ITEMS"),
        TableColumn("STATE"),
        TableColumn("NODE", shrinks=True),
        TableColumn("RAN", is_number=True),
        TableColumn("USED"),
        TableColumn("WHY", shrinks=True),
    ]
    show_table(pane, columns, [_row(attempt) for attempt in attempts])


def _row(attempt: AttemptView) -> list[Cell]:
    return [
        Cell(f"{attempt.number}", Tone.STRONG),
        Cell(_items(attempt)),
        Cell(attempt.state.value),
        Cell(describe_place(attempt)),
        Cell(_ran(attempt)),
        Cell(_used(attempt)),
        Cell(_why(attempt), Tone.FAINT),
    ]


def _items(attempt: AttemptView) -> str:
    items = attempt.items
    if items is None:
        return ""
    last = items.end - 1
    return f"{items.start}" if last == items.start else f"{items.start}-{last}"


def _ran(attempt: AttemptView) -> str:
    seconds = ran_seconds(attempt)
    return "" if seconds is None else show_seconds(seconds)


def _used(attempt: AttemptView) -> str:
    """Empty if the node has not measured it."""
    usage = attempt.usage
    is_measured = usage is not None and (usage.run_seconds or usage.cpu_seconds)
    return show_short_usage(usage) if usage is not None and is_measured else ""


def _why(attempt: AttemptView) -> str:
    if attempt.detail or attempt.last_lines:
        return explain_end(attempt)
    return "" if attempt.reason is None else attempt.reason.value.replace("_", " ")
