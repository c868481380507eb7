"""`potluck files`: what a task has left."""

from typing import Annotated

import typer

from potluck.cli.options import JsonOption, NewestTaskArgument, ServerOption, connect
from potluck.cli.results.fetch import none_there, size_of, until
from potluck.cli.tasks.resolve_task import pick_to_read, short_id
from potluck.cli.terminal.screen import Screen, Tone
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.cli.terminal.units import show_bytes, show_count
from potluck.model.blob import NamedFile
from potluck.model.error import NotFound
from potluck.wire.consumer import TaskView
from potluck.wire.files import TaskFiles


def files(
    task: NewestTaskArgument = None,
    attempt: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Of this attempt; else of the newest that left any."),
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """List the files that a task has left.

    `potluck result TASK -o DIR` brings them.
    """
    screen = Screen(json)
    with connect(server) as potluck:
        task_id = pick_to_read(potluck, task, screen)
        found = potluck.files.of_task(task_id, attempt)
        about = None if found.files else potluck.tasks.get(task_id)
    if about is not None and attempt is not None:
        _check_number(about, attempt)
    if json:
        screen.emit(found)
        return
    if about is not None:
        screen.err.prose(none_there(found, about, attempt))
        return
    columns = [
        TableColumn("PATH", shrinks=True),
        TableColumn("SIZE", is_number=True),
        TableColumn("SHA-256"),
    ]
    show_table(screen.out, columns, [_row(file) for file in found.files])
    screen.err.prose(f"{_about(found)} `potluck result {short_id(task_id)} -o DIR` brings them.")


def _check_number(task: TaskView, attempt: int) -> None:
    if attempt > task.attempt_count:
        raise NotFound(
            f"{short_id(task.id)} has had {show_count(task.attempt_count, 'attempt')}.",
            f"`potluck attempts {short_id(task.id)}` lists them.",
        )


def _row(file: NamedFile) -> list[Cell]:
    return [
        Cell(file.path, Tone.STRONG),
        Cell(show_bytes(file.blob.size_bytes)),
        Cell(file.blob.sha256[:16], Tone.FAINT),
    ]


def _about(found: TaskFiles) -> str:
    """Of an array they are of many attempts."""
    whose = "" if found.attempt is None else f" of attempt {found.attempt}"
    return f"{size_of(found)}{whose}{until(found)}."
