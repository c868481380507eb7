"""`potluck ps`: my tasks."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.pick import short_id
from potluck.cli.screen import Pane, Screen, Tone
from potluck.cli.story import TONES, duration_seconds, why
from potluck.cli.table import Cell, Column, show_table
from potluck.cli.units import show_age, show_seconds
from potluck.model.task import TaskState
from potluck.wire.consumer import TaskView

if TYPE_CHECKING:
    from potluck.consumer import Potluck

_PAGE = 100


def ps(
    everything: Annotated[bool, typer.Option("--all", "-a", help="All of them.")] = False,
    state: Annotated[
        TaskState | None, typer.Option(help="Only those in this state.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="So many of the newest.")] = 20,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """List my tasks, newest first."""
    screen = Screen(json)
    with connect(server) as potluck:
        tasks = list(_newest(potluck, state, None if everything else limit))
    if json:
        screen.emit({"tasks": tasks})
    elif tasks:
        _show(screen.out, tasks)
    else:
        screen.err.line(_nothing(state))


def _newest(potluck: "Potluck", state: TaskState | None, limit: int | None) -> Iterator[TaskView]:
    cursor, left = None, limit
    while left is None or left > 0:
        page = potluck.tasks(min(left or _PAGE, _PAGE), cursor, state)
        yield from page.tasks
        left = None if left is None else left - len(page.tasks)
        cursor = page.next_cursor
        if cursor is None:
            return


def _show(pane: Pane, tasks: list[TaskView]) -> None:
    columns = [
        Column("ID"),
        Column("NAME", shrinks=True),
        Column("STATE"),
        Column("AGE", is_number=True),
        Column("RAN", is_number=True),
        Column("WHY", shrinks=True),
    ]
    now = datetime.now(UTC)
    show_table(pane, columns, [_row(task, now, pane.is_terminal) for task in tasks])


def _row(task: TaskView, now: datetime, is_short: bool) -> list[Cell]:
    ran = duration_seconds(task, now)
    return [
        Cell(short_id(task.id) if is_short else task.id, Tone.STRONG),
        Cell(task.name),
        Cell(task.phase, TONES[task.state]),
        Cell(show_age(task.created_at, now)),
        Cell("" if ran is None else show_seconds(ran)),
        Cell(why(task), Tone.FAINT),
    ]


def _nothing(state: TaskState | None) -> str:
    if state is not None:
        return f"None of your tasks is {state}. `potluck ps` shows all states."
    return "You have no tasks yet. Start one with `potluck run SCRIPT`."
