"""What a task has left, from the server to a directory here."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from potluck.cli.results.file_preview import for_programs, show_looked_at
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.terminal.screen import Screen, Tone, printable
from potluck.cli.terminal.transfer_progress import resumable, telling
from potluck.cli.terminal.units import show_bytes, show_count, show_moment
from potluck.model.error import InvalidInput
from potluck.wire.consumer import TaskView
from potluck.wire.files import TaskFiles

if TYPE_CHECKING:
    from potluck.consumer import Potluck


def written_bytes(task: TaskView, attempt: int | None = None) -> int:
    """How much its attempts, as far as they are known, or this one, wrote as files."""
    return sum(
        each.usage.output_bytes
        for each in task.attempts
        if each.usage is not None and attempt in (None, each.number)
    )


def size_of(found: TaskFiles) -> str:
    """How many and how large."""
    total = sum(file.blob.size_bytes for file in found.files)
    return f"{show_count(len(found.files), 'file')}, {show_bytes(total)}"


def until(found: TaskFiles) -> str:
    if found.kept_until is None:
        return ""
    return f", kept until {show_moment(found.kept_until, datetime.now(UTC))}"


def keeping(task: TaskView, is_cleared: bool) -> str:
    """How long the server keeps what it wrote, returned and left; empty while it is not over."""
    if task.kept_until is None:
        return ""
    moment = show_moment(task.kept_until, datetime.now(UTC))
    if not is_cleared:
        return f"until {moment}"
    return f"no longer since {moment}: what it wrote, returned and left is gone"


def absence(found: TaskFiles, task: TaskView, attempt: int | None = None) -> str:
    """Why there are none; empty when there never were any."""
    if found.cleared and found.kept_until is not None:
        return f"no longer kept since {show_moment(found.kept_until, datetime.now(UTC))}"
    if found.cleared:
        return "no longer kept"
    if written := written_bytes(task, attempt):
        again = f"`potluck logs {short_id(task.id)}`"
        return f"of {show_bytes(written)} that it wrote none was taken; {again} says why"
    return ""


def none_there(found: TaskFiles, task: TaskView, attempt: int | None = None) -> str:
    if why := absence(found, task, attempt):
        return f"No files: {why}."
    return "It left no files: what is in $POTLUCK_OUTPUT at the end comes back."


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
