"""Downloads a task's files, and describes what the server still keeps of them.

Nodes report how much was written; the server knows how much of it was accepted and is still kept.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from potluck.cli.results.file_preview import preview_as_json, show_previews
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.terminal.live_line import report_progress, resumable_transfer
from potluck.cli.terminal.screen import Screen, Tone, printable
from potluck.model.error import InvalidInput
from potluck.model.units import show_bytes, show_count, show_moment
from potluck.wire.consumer import TaskView
from potluck.wire.files import TaskFiles

if TYPE_CHECKING:
    from potluck.consumer import Potluck


def written_bytes(task: TaskView, attempt: int | None = None) -> int:
    """The size of the files that this attempt, or all listed attempts, wrote."""
    return sum(
        row.usage.output_bytes
        for row in task.attempts
        if row.usage is not None and attempt in (None, row.number)
    )


def describe_size(files: TaskFiles) -> str:
    total = sum(file.blob.size_bytes for file in files.files)
    return f"{show_count(len(files.files), 'file')}, {show_bytes(total)}"


def retention_suffix(files: TaskFiles) -> str:
    if files.kept_until is None:
        return ""
    return f", kept until {show_moment(files.kept_until, datetime.now(UTC))}"


def describe_retention(task: TaskView, is_cleared: bool) -> str:
    """How long the server keeps the output, the result and the files; empty before the end."""
    if task.kept_until is None:
        return ""
    moment = show_moment(task.kept_until, datetime.now(UTC))
    if not is_cleared:
        return f"until {moment}"
    return f"no longer since {moment}: its output, result and files are deleted"


def explain_absence(files: TaskFiles, task: TaskView, attempt: int | None = None) -> str:
    """Why there are no files; empty if there never were any."""
    if files.cleared and files.kept_until is not None:
        return f"no longer kept since {show_moment(files.kept_until, datetime.now(UTC))}"
    if files.cleared:
        return "no longer kept"
    if written := written_bytes(task, attempt):
        command = f"`potluck logs {short_id(task.id)}`"
        return f"it wrote {show_bytes(written)}, which were not accepted; {command} shows why"
    return ""


def describe_no_files(files: TaskFiles, task: TaskView, attempt: int | None = None) -> str:
    if reason := explain_absence(files, task, attempt):
        return f"No files: {reason}."
    return "It left no files: only files in $POTLUCK_OUTPUT are kept."


def fetch_files(potluck: "Potluck", task: TaskView, directory: Path, screen: Screen) -> TaskFiles:
    """Downloads all files; after an interruption `potluck result` resumes."""
    again = f"`potluck result {short_id(task.id)} -o {printable(str(directory))}`"
    with resumable_transfer(screen, again=again) as line:
        progress = report_progress(screen, line, f"downloading to {directory}")
        files = potluck.files.fetch(task.id, directory, on_progress=progress)
    if screen.json:
        return files
    if files.files:
        show_previews(screen.err, files.files, directory)
        kept = retention_suffix(files)
        screen.err.line(f"{describe_size(files)} in {printable(str(directory))}, checked{kept}")
    else:
        screen.err.prose(describe_no_files(files, task))
    return files


def check_output(directory: Path | None) -> None:
    """Checked before the task runs."""
    if directory is not None and directory.exists() and not directory.is_dir():
        raise InvalidInput(
            f"--output {printable(str(directory))} is not a directory.",
            "Name a directory; it is created if it does not exist.",
        )


def warn_if_occupied(directory: Path | None, screen: Screen) -> None:
    """The task's files are not known yet, but existing files are never replaced."""
    if directory is None or screen.json:
        return
    if directory.is_dir() and any(directory.iterdir()):
        screen.err.prose(
            f"potluck: {printable(str(directory))} is not empty; existing files are not replaced by"
            " files of the same name",
            Tone.FAINT,
        )


def describe_fetched(files: TaskFiles, directory: Path) -> dict[str, Any]:
    """For --json: the files, their paths, and the dimensions of pictures and tables."""
    entries = [
        {**msgspec.to_builtins(file), **preview_as_json(file, directory)} for file in files.files
    ]
    return {"directory": str(directory), **msgspec.to_builtins(files), "files": entries}
