"""Downloads a task's files, and describes what the server still keeps of them.

Nodes report how much was written; the server knows how much of it was accepted and is still kept.
"""

import errno
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from potluck.cli.results.file_preview import preview_as_json, show_previews
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.terminal.live_line import report_progress, resumable_transfer
from potluck.cli.terminal.screen import Pane, Screen, Tone, printable
from potluck.model.blob import NamedFile
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


class FetchedFiles(Struct, frozen=True):
    """The files of a task, and where they were saved in the directory."""

    listing: TaskFiles
    directory: Path
    places: list[Path]

    @property
    def pairs(self) -> list[tuple[NamedFile, Path]]:
        return list(zip(self.listing.files, self.places, strict=True))

    @property
    def aside(self) -> list[Path]:
        """The places of files whose own places are taken."""
        return [place for file, place in self.pairs if place != self.directory / file.path]

    def as_json(self) -> dict[str, Any]:
        """The files, their places, and the dimensions of pictures and tables."""
        entries = [
            {**msgspec.to_builtins(file), **preview_as_json(file, place)}
            for file, place in self.pairs
        ]
        return {
            "directory": str(self.directory),
            **msgspec.to_builtins(self.listing),
            "files": entries,
        }


class OutputDirectory(Struct, frozen=True):
    """Where results are saved, and whether they replace files with other content."""

    path: Path
    overwrite: bool = False

    def check(self, screen: Screen) -> None:
        """Before the task runs: makes the directory. The task's files are not known yet."""
        path = printable(str(self.path))
        if os.path.lexists(self.path) and not self.path.is_dir():
            raise InvalidInput(
                f"--output {path} is not a directory.",
                "Name a directory; it is created if it does not exist.",
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not os.access(self.path, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise InvalidInput(
                f"--output {path} cannot be used as a directory: {error.strerror}.",
                "Choose one that exists or can be created.",
            ) from error
        if self.overwrite or screen.json or not any(self.path.iterdir()):
            return
        screen.err.prose(
            f"potluck: {path} is not empty; its files are not replaced by files with other"
            f" content, which are saved in {path}/potluck-…; --overwrite replaces them",
            Tone.FAINT,
        )


def output_directory(path: Path | None, overwrite: bool) -> OutputDirectory | None:
    """Of the options --output and --overwrite."""
    if overwrite and path is None:
        raise InvalidInput(
            "--overwrite has no meaning without --output.", "Name a directory: -o DIR."
        )
    return None if path is None else OutputDirectory(path, overwrite)


def tell_aside(places: Sequence[Path], task: TaskView, output: OutputDirectory, pane: Pane) -> None:
    """Says which files were not saved in their own places; no failure."""
    if places:
        path = printable(str(output.path))
        again = (
            "It is no regular file: move it away."
            if output.overwrite
            else f"To replace it: `potluck result {short_id(task.id)} -o {path} --overwrite`"
        )
        pane.prose(
            f"{show_count(len(places), 'file')} did not replace what is in {path}:"
            f" see {path}/potluck-{short_id(task.id)}. {again}"
        )


def fetch_files(
    potluck: "Potluck", task: TaskView, output: OutputDirectory, screen: Screen
) -> FetchedFiles:
    """Downloads all files; after an interruption `potluck result` resumes."""
    directory = printable(str(output.path))
    again = f"`potluck result {short_id(task.id)} -o {directory}`"
    with resumable_transfer(screen, again=again) as line:
        progress = report_progress(screen, line, f"downloading to {output.path}")
        files = potluck.files.of_task(task.id)
        places = potluck.files.bring(
            files.files, output.path, task.id, progress, overwrite=output.overwrite
        )
    fetched = FetchedFiles(files, output.path, places)
    if screen.json:
        return fetched
    if files.files:
        show_previews(screen.err, fetched.pairs)
        retention = retention_suffix(files)
        screen.err.line(f"{describe_size(files)} in {directory}, checked{retention}")
        tell_aside(fetched.aside, task, output, screen.err)
    else:
        screen.err.prose(describe_no_files(files, task))
    return fetched
