"""Collects the output and the files of an array's items.

An item's output is that of the newest attempt that ran it: an item is reassigned only as long as it
has no final outcome.
"""

import contextlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from potluck.cli.results.fetch import FetchedFiles, OutputDirectory, describe_size, tell_aside
from potluck.cli.results.logs import log_pages
from potluck.cli.results.output import write_stdout
from potluck.cli.tasks.attempts import iter_attempts
from potluck.cli.terminal.live_line import report_progress, resumable_transfer
from potluck.cli.terminal.screen import Screen, printable
from potluck.consumer.item_log import NUMBER, STREAMS, split_by_item
from potluck.model.blob import NamedFile
from potluck.model.error import BadSettings
from potluck.model.units import show_count
from potluck.wire.consumer import AttemptView, TaskView
from potluck.wire.files import TaskFiles

if TYPE_CHECKING:
    from potluck.consumer import Potluck


class ItemCollector(Struct, frozen=True):
    """The items of an array, with a label for each item's results, and its value if known."""

    labels: Sequence[str]
    values: Sequence[str]  # empty if only the number of items is known
    output: OutputDirectory | None = None

    def collect(self, potluck: "Potluck", task: TaskView, screen: Screen) -> None:
        """Downloads files and output into the directory; without one, writes the output to stdout
        in the order of the items."""
        if self.output is not None:
            files = self.fetch(potluck, task, self.output, screen)
            if screen.json:
                screen.emit({"event": "files", **files.as_json()})
        for item in self.collect_output(potluck, task, screen):
            screen.emit({"event": "item", **item})

    def collect_output(
        self, potluck: "Potluck", task: TaskView, screen: Screen
    ) -> Iterator[dict[str, Any]]:
        """Writes the items' output to the directory or to stdout; yields it for --json."""
        with tempfile.TemporaryDirectory(prefix="potluck-") as scratch:
            self._collect_attempts(potluck, task, Path(scratch), screen)
            if screen.json:
                yield from self._as_json(Path(scratch))
            elif self.output is None:
                for item in range(len(self.labels)):
                    write_stdout(screen, _read(Path(scratch) / f"{item}.stdout"))
            if self.output is not None:
                self._save(Path(scratch), task, self.output, screen)

    def fetch(
        self, potluck: "Potluck", task: TaskView, output: OutputDirectory, screen: Screen
    ) -> FetchedFiles:
        """Downloads the files of all items."""
        directory = output.path
        with resumable_transfer(screen) as line:
            progress = report_progress(screen, line, f"downloading to {directory}")
            files = self._label(potluck.files.of_task(task.id))
            unique, duplicates = _split_duplicates(files.files)
            places = potluck.files.bring(
                unique, directory, task.id, progress, overwrite=output.overwrite
            )
        if duplicates:
            raise BadSettings(
                f"Two files of the task have the name {printable(duplicates[0].path)}; only one of"
                " them was downloaded.",
                f"`potluck result {task.id} -o DIR` downloads both, by the numbers of their items.",
            )
        fetched = FetchedFiles(replace(files, files=unique), directory, places)
        if files.files and not screen.json:
            screen.err.line(f"{describe_size(files)} in {printable(str(directory))}")
            tell_aside(fetched.aside, task, output, screen.err)
        return fetched

    def _label(self, files: TaskFiles) -> TaskFiles:
        labelled = [NamedFile(self._label_path(file.path), file.blob) for file in files.files]
        return replace(files, files=labelled)

    def _label_path(self, path: str) -> str:
        """Replaces the item's number in a path such as `17/picture.png` by its label."""
        number, slash, rest = path.partition("/")
        is_item = re.fullmatch(NUMBER, number) and int(number) < len(self.labels)
        return f"{self.labels[int(number)]}{slash}{rest}" if is_item else path

    def _collect_attempts(
        self, potluck: "Potluck", task: TaskView, scratch: Path, screen: Screen
    ) -> None:
        """Oldest first, so that the output of the newest attempt remains."""
        attempts = [row for row in iter_attempts(potluck, task.id) if row.items is not None]
        with resumable_transfer(screen) as line:
            for number, attempt in enumerate(reversed(attempts), start=1):
                if screen.err.is_live:  # too many lines for a log
                    total = show_count(len(attempts), "attempt")
                    line.say(f"collecting output: {number:,} of {total}")
                _collect_attempt(potluck, task, attempt, scratch)

    def _as_json(self, scratch: Path) -> Iterator[dict[str, Any]]:
        for item in range(len(self.labels)):
            texts = {stream: _read(scratch / f"{item}.{stream}") for stream in STREAMS}
            decoded = {name: text.decode("utf-8", "replace") for name, text in texts.items()}
            value = {"value": self.values[item]} if self.values else {}
            yield {"item": item, **value, **decoded}

    def _save(self, scratch: Path, task: TaskView, output: OutputDirectory, screen: Screen) -> None:
        """Writes each item's output next to its files."""
        places = {}
        for item, label in enumerate(self.labels):
            for stream in STREAMS:
                if data := _read(scratch / f"{item}.{stream}"):
                    path = f"{label}/{stream}.txt"
                    places[output.path / path] = _save_text(output, path, task.id, data)
        if places and not screen.json:
            directory = printable(str(output.path))
            screen.err.line(f"The items' output is in {directory}, as stdout.txt")
            aside = [place for own, place in places.items() if place != own]
            tell_aside(aside, task, output, screen.err)


def numbered_items(count: int, output: OutputDirectory | None) -> ItemCollector:
    """Labels the items by their numbers."""
    return ItemCollector([str(number) for number in range(count)], (), output)


def _split_duplicates(files: Sequence[NamedFile]) -> tuple[list[NamedFile], list[NamedFile]]:
    """The first file of each name, and other files with the same name."""
    first: dict[str, NamedFile] = {}
    duplicates = [file for file in files if first.setdefault(file.path, file).blob != file.blob]
    return list(first.values()), duplicates


def _collect_attempt(
    potluck: "Potluck", task: TaskView, attempt: AttemptView, scratch: Path
) -> None:
    """Only for items of this attempt, even if the node claims others."""
    assert attempt.items is not None
    outputs: dict[str, bytearray] = {}
    for _, pieces in split_by_item(log_pages(potluck, task.id, attempt.number), attempt.items):
        for item, piece in pieces:
            outputs.setdefault(f"{item}.{piece.stream}", bytearray()).extend(piece.data)
    for item in range(attempt.items.start, attempt.items.end):
        for name in (f"{item}.{stream}" for stream in STREAMS):
            if name in outputs:
                (scratch / name).write_bytes(outputs[name])
            else:
                (scratch / name).unlink(missing_ok=True)


def _save_text(output: OutputDirectory, path: str, task_id: str, data: bytes) -> Path:
    """Returns where it is."""
    from potluck.consumer.files.files import choose_place

    place, is_present = choose_place(
        output.path,
        path,
        task_id,
        lambda present: _read(present) == data,
        overwrite=output.overwrite,
    )
    try:
        if not is_present:
            place.write_bytes(data)
    except OSError as error:
        raise BadSettings(
            f"{place} cannot be written: {error.strerror}.", "Name a directory with free space."
        ) from error
    return place


def _read(path: Path) -> bytes:
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""
