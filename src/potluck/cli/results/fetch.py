"""What a task has left, from the server to a directory here."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from potluck.cli.results.file_preview import for_programs, show_looked_at
from potluck.cli.results.retention_text import none_there, size_of, until
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.terminal.screen import Screen, Tone, printable
from potluck.cli.terminal.transfer_progress import resumable, telling
from potluck.model.error import InvalidInput
from potluck.wire.consumer import TaskView
from potluck.wire.files import TaskFiles

if TYPE_CHECKING:
    from potluck.consumer import Potluck


def fetch_files(potluck: "Potluck", task: TaskView, directory: Path, screen: Screen) -> TaskFiles:
    """Brings all of them; broken off, `potluck result` goes on where it ended."""
    again = f"`potluck result {short_id(task.id)} -o {printable(str(directory))}`"
    with resumable(screen, again=again) as line:
        told = telling(screen, line, f"downloading to {directory}")
        found = potluck.files.fetch(task.id, directory, on_progress=told)
    if screen.json:
        return found
    if found.files:
        show_looked_at(screen.err, found.files, directory)
        screen.err.line(f"{size_of(found)} in {printable(str(directory))}, checked{until(found)}")
    else:
        screen.err.prose(none_there(found, task))
    return found


def check_output(directory: Path | None) -> None:
    """Before a task is run for what it leaves."""
    if directory is not None and directory.exists() and not directory.is_dir():
        raise InvalidInput(
            f"--output {printable(str(directory))} is no directory.",
            "Name a directory; it is made if there is none.",
        )


def tell_occupied(directory: Path | None, screen: Screen) -> None:
    """What a task will leave nobody knows yet; only that nothing gives way to it."""
    if directory is None or screen.json:
        return
    if directory.is_dir() and any(directory.iterdir()):
        screen.err.prose(
            f"potluck: {printable(str(directory))} is not empty; what is in it stays, also where"
            " the task leaves a file of the same name",
            Tone.FAINT,
        )


def brought(found: TaskFiles, directory: Path) -> dict[str, Any]:
    """For programs: what there is now, where, and how large pictures and tables are."""
    told = msgspec.to_builtins(found)
    told["files"] = [
        {**msgspec.to_builtins(file), **for_programs(file, directory)} for file in found.files
    ]
    return {"directory": str(directory), **told}
