"""`potluck files`: what a task has left."""

from typing import Annotated

import typer

from potluck.cli.fetch import size_of
from potluck.cli.options import JsonOption, NewestTaskArgument, ServerOption, connect
from potluck.cli.pick import pick_task_id, short_id
from potluck.cli.screen import Screen, Tone
from potluck.cli.table import Cell, Column, show_table
from potluck.cli.units import show_bytes, show_count
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
    """List the files that a task has left; `potluck result TASK -o DIR` brings them."""
    screen = Screen(json)
    with connect(server) as potluck:
        task_id = pick_task_id(potluck, task)
        found = potluck.files.of_task(task_id, attempt)
        if attempt is not None and not found.files:
            _check_number(potluck.task(task_id), attempt)
    if json:
        screen.emit(found)
        return
    if not found.files:
        screen.err.prose(
            "It has left none, or they are no longer kept: what is in $POTLUCK_OUTPUT when an"
            " attempt ends are its files."
        )
        return
    columns = [Column("PATH", shrinks=True), Column("SIZE", is_number=True), Column("SHA-256")]
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
    until = "" if found.kept_until is None else f", kept until {found.kept_until[:10]}"
    return f"{size_of(found)}{whose}{until}."
