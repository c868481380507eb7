"""`potluck ps`: lists my tasks."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from potluck.cli.completion import complete_task_names
from potluck.cli.options import JsonOption, LimitOption, ServerOption, connect
from potluck.cli.tasks.items import percent_done
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.tasks.task_text import TONES, describe_reason, duration_seconds
from potluck.cli.terminal.screen import Pane, Screen, Tone
from potluck.cli.terminal.table import Cell, TableColumn, drop_empty_columns, show_table
from potluck.model.task import TaskState
from potluck.model.units import parse_moment, show_age, show_seconds
from potluck.wire.consumer import TaskView

if TYPE_CHECKING:
    from potluck.consumer import Potluck

_PAGE = 100
_MOST_CHARACTERS = 160


def ps(
    everything: Annotated[bool, typer.Option("--all", "-a", help="List all tasks.")] = False,
    state: Annotated[
        list[TaskState] | None,
        typer.Option(help="Only tasks in this state; repeatable.", show_default=False),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Only tasks with exactly this name.", autocompletion=complete_task_names),
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="Only tasks of this kind, such as script.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Submitted since: 2h (ago), 2026-01-31, 2026-01-31T12:00."
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Submitted before this time.")
    ] = None,
    limit: LimitOption = 20,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """List my tasks, newest first."""
    screen, now = Screen(json), datetime.now(UTC)
    task_filter = _ListFilter(
        tuple(state or ()),
        name,
        kind,
        parse_moment(since, "--since", now) if since else None,
        parse_moment(until, "--until", now) if until else None,
    )
    with connect(server) as potluck:
        tasks = list(_newest(potluck, task_filter, None if everything else limit))
    if json:
        screen.emit({"tasks": tasks})
    elif tasks:
        _show(screen.out, tasks)
    else:
        screen.err.line(_nothing(task_filter))


class _ListFilter(NamedTuple):
    states: tuple[TaskState, ...]
    name: str | None
    kind: str | None
    since: datetime | None
    until: datetime | None


def _newest(potluck: "Potluck", task_filter: _ListFilter, limit: int | None) -> Iterator[TaskView]:
    cursor, left = None, limit
    while left is None or left > 0:
        page = potluck.tasks.list(
            min(left or _PAGE, _PAGE),
            cursor,
            task_filter.states,
            name=task_filter.name,
            kind=task_filter.kind,
            since=task_filter.since,
            until=task_filter.until,
        )
        yield from page.tasks
        left = None if left is None else left - len(page.tasks)
        cursor = page.next_cursor
        if cursor is None:
            return


def _show(pane: Pane, tasks: list[TaskView]) -> None:
    columns = [
        TableColumn("ID"),
        TableColumn("NAME", shrinks=True),
        TableColumn("STATE"),
        TableColumn("AGE", is_number=True),
        TableColumn("RAN", is_number=True),
        TableColumn("WHY", shrinks=True, wraps=True),
    ]
    now = datetime.now(UTC)
    rows = [_row(task, now, pane.is_terminal) for task in tasks]
    # Programs rely on the columns; in a terminal empty ones are dropped.
    show_table(pane, *(drop_empty_columns(columns, rows) if pane.is_terminal else (columns, rows)))


def _row(task: TaskView, now: datetime, is_short: bool) -> list[Cell]:
    ran = duration_seconds(task, now)
    return [
        Cell(short_id(task.id) if is_short else task.id, Tone.STRONG),
        Cell(task.name if task.items is None else f"{task.name} × {task.items.total:,}"),
        Cell(_phase(task), TONES[task.state]),
        Cell(show_age(task.created_at, now)),
        Cell("" if ran is None else show_seconds(ran)),
        Cell(_shorten(describe_reason(task)), Tone.FAINT),
    ]


def _shorten(reason: str) -> str:
    """`potluck status` shows all of it."""
    return reason if len(reason) <= _MOST_CHARACTERS else f"{reason[:_MOST_CHARACTERS]}…"


def _phase(task: TaskView) -> str:
    """The phase, with the progress of a running array."""
    if task.items is None or task.state.is_final or not (done := percent_done(task.items)):
        return task.phase
    return f"{task.phase} {done} %"


def _nothing(task_filter: _ListFilter) -> str:
    if any(task_filter):
        return "No tasks match. `potluck ps` without options shows your newest."
    return "You have no tasks yet. Start one with `potluck run SCRIPT`."
