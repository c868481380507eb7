"""What a task has left, from the server to a directory here."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from potluck.cli.screen import Screen, printable
from potluck.cli.transfer import resumable, telling
from potluck.cli.units import show_bytes, show_count
from potluck.model.error import InvalidInput
from potluck.wire.files import TaskFiles

if TYPE_CHECKING:
    from potluck.consumer import Potluck


def fetch_files(
    potluck: "Potluck", task_id: str, directory: Path, screen: Screen, attempt: int | None = None
) -> TaskFiles:
    """Brings all of them; broken off, the same command goes on where it ended."""
    with resumable(screen) as line:
        told = telling(screen, line, f"downloading to {directory}")
        found = potluck.files.fetch(task_id, directory, attempt, told)
    if screen.json:
        return found
    if found.files:
        screen.err.line(f"{size_of(found)} in {printable(str(directory))}")
    else:
        screen.err.line("It left no files: what is in $POTLUCK_OUTPUT at the end comes back.")
    return found


def check_output(directory: Path | None) -> None:
    """Before a task is run for what it leaves."""
    if directory is not None and directory.exists() and not directory.is_dir():
        raise InvalidInput(
            f"--output {printable(str(directory))} is no directory.",
            "Name a directory; it is made if there is none.",
        )


def brought(found: TaskFiles, directory: Path) -> dict[str, Any]:
    """For programs: what there is now, and where."""
    return {"directory": str(directory), **msgspec.to_builtins(found)}


def size_of(found: TaskFiles) -> str:
    """How many and how large."""
    total = sum(file.blob.size_bytes for file in found.files)
    return f"{show_count(len(found.files), 'file')}, {show_bytes(total)}"
