"""`potluck files`: lists the files that a task has left."""

from typing import Annotated

import typer

from potluck.cli.options import JsonOption, NewestTaskArgument, ServerOption, connect
from potluck.cli.results.fetch import describe_no_files, describe_size, retention_suffix
from potluck.cli.tasks.resolve_task import resolve_task_to_read, short_id
from potluck.cli.terminal.screen import Screen, Tone
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.model.blob import NamedFile
from potluck.model.error import NotFound
from potluck.model.units import show_bytes, show_count
from potluck.wire.consumer import TaskView
from potluck.wire.files import TaskFiles


def files(
    task: NewestTaskArgument = None,
    attempt: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Of attempt N; default: the newest with files."),
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """List the files that a task left.

    `potluck result TASK -o DIR` downloads them.
    """
    screen = Screen(json)
    with connect(server) as potluck:
        task_id = resolve_task_to_read(potluck, task, screen)
        listing = potluck.files.of_task(task_id, attempt)
        empty_task = None if listing.files else potluck.tasks.get(task_id)
    if empty_task is not None and attempt is not None:
        _check_number(empty_task, attempt)
    if json:
        screen.emit(listing)
        return
    if empty_task is not None:
        screen.err.prose(describe_no_files(listing, empty_task, attempt))
        return
    columns = [
        TableColumn("PATH", shrinks=True),
        TableColumn("SIZE", is_number=True),
        TableColumn("SHA-256"),
    ]
    show_table(screen.out, columns, [_row(file) for file in listing.files])
    screen.err.prose(
        f"{_about(listing)} `potluck result {short_id(task_id)} -o DIR` downloads them."
    )


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


def _about(listing: TaskFiles) -> str:
    """The files of an array come from many attempts."""
    attempt = "" if listing.attempt is None else f" of attempt {listing.attempt}"
    return f"{describe_size(listing)}{attempt}{retention_suffix(listing)}."
