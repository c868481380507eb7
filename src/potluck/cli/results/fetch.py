"""Writes a task's output, downloads its files, and describes what the server still keeps of them.

Output goes to the same streams that the task wrote to; the platform's own remarks go to stderr,
faint, so that they cannot be mistaken for the task's. Nodes report how much was written; the server
knows how much of it was accepted and is still kept.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from potluck.cli.results.file_preview import preview_as_json, show_previews
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.terminal.live_line import report_progress, resumable_transfer
from potluck.cli.terminal.screen import Pane, Screen, Tone, printable
from potluck.model.error import InvalidInput
from potluck.model.units import show_bytes, show_count, show_moment
from potluck.wire.consumer import LogPage, LogPiece, TaskView
from potluck.wire.files import TaskFiles

if TYPE_CHECKING:
    from potluck.consumer import Potluck


class TaskOutput:
    """Shows log pages, and tracks whether the cursor is at the start of a line."""

    def __init__(self, screen: Screen):
        self._screen = screen
        self._attempt_id: str | None = None
        self.at_line_start = True

    def show(self, page: LogPage) -> None:
        if page.pieces and page.attempt_id != self._attempt_id:
            self._begin_attempt(page.attempt_id)
        for piece in page.pieces:
            if self._screen.json:
                self._emit(page, piece)
            else:
                self._write(piece)

    def finish_line(self) -> None:
        """In a terminal, keeps the next message from continuing the task's last line."""
        if not self.at_line_start and self._screen.err.is_terminal:
            self._screen.err.line()
            self.at_line_start = True

    def _begin_attempt(self, attempt_id: str | None) -> None:
        if self._attempt_id is not None and not self._screen.json:
            self.finish_line()
            self._screen.err.line("potluck: the task starts again, in a new attempt", Tone.FAINT)
        self._attempt_id = attempt_id

    def _emit(self, page: LogPage, piece: LogPiece) -> None:
        self._screen.emit(
            {
                "event": "log",
                "attempt_id": page.attempt_id,
                "stream": piece.stream,
                "text": piece.text,
            }
        )

    def _write(self, piece: LogPiece) -> None:
        if piece.stream == "potluck":
            self.finish_line()
            for line in piece.text.splitlines():
                self._screen.err.line(f"potluck: {printable(line)}", Tone.FAINT)
            return
        self._pane(piece.stream).write_bytes(piece.data)
        if piece.data:
            self.at_line_start = piece.data.endswith(b"\n")

    def _pane(self, stream: str) -> Pane:
        return self._screen.out if stream == "stdout" else self._screen.err


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
