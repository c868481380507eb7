"""What the items of an array have written and left, brought together item by item.

An item's output is that of the newest attempt that had it: it is given to another one only as long
as no outcome of it counts. What is here already and is another's stays as it is.
"""

import contextlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from potluck.cli.results.fetch import brought, check_output, size_of
from potluck.cli.results.item_log import NUMBER, STREAMS, by_item
from potluck.cli.results.logs import log_pages
from potluck.cli.tasks.attempts import attempts_at
from potluck.cli.terminal.screen import Screen, printable
from potluck.cli.terminal.transfer_progress import resumable, telling
from potluck.cli.terminal.units import show_count
from potluck.model.blob import NamedFile
from potluck.model.error import BadSettings, InvalidInput
from potluck.wire.consumer import AttemptView, TaskView
from potluck.wire.files import TaskFiles

if TYPE_CHECKING:
    from potluck.consumer import Potluck


class Gathering(Struct, frozen=True):
    """Which items there are, by what their results are called and what they stand for."""

    labels: Sequence[str]
    values: Sequence[str]  # none of them for whoever did not bring them
    directory: Path | None = None

    def check_room(self) -> None:
        """Before anything is run: nothing that is there is replaced, so there should be nothing."""
        check_output(self.directory)
        if self.directory is None or not self.directory.is_dir():
            return
        there = {each.name for each in self.directory.iterdir()}
        taken = next((label for label in self.labels if label in there), None)
        if taken is not None:
            raise InvalidInput(
                f"{printable(str(self.directory / taken))} is there already, perhaps of an earlier"
                " run, and what is there is never replaced.",
                "Name another directory with --output, or move this one away. To bring more of a"
                f" task that ran: `potluck result TASK -o {printable(str(self.directory))}`.",
            )

    def gather(self, potluck: "Potluck", task: TaskView, screen: Screen) -> None:
        """Into the directory, if one is named: files, and what was written. Else what was written,
        in the order of the items, on stdout."""
        if self.directory is not None:
            found = self.fetch(potluck, task, self.directory, screen)
            if screen.json:
                screen.emit({"event": "files", **brought(found, self.directory)})
        for told in self.bring_written(potluck, task, screen):
            screen.emit({"event": "item", **told})

    def bring_written(
        self, potluck: "Potluck", task: TaskView, screen: Screen
    ) -> Iterator[dict[str, Any]]:
        """What items wrote, into the directory or on stdout; for programs, item by item."""
        with tempfile.TemporaryDirectory(prefix="potluck-") as scratch:
            self._collect(potluck, task, Path(scratch), screen)
            if screen.json:
                yield from self._told(Path(scratch))
            elif self.directory is None:
                for item in range(len(self.labels)):
                    screen.out.write_bytes(_read(Path(scratch) / f"{item}.stdout"))
            if self.directory is not None:
                self._keep(Path(scratch), self.directory, screen)

    def fetch(
        self, potluck: "Potluck", task: TaskView, directory: Path, screen: Screen
    ) -> TaskFiles:
        """The files of all items."""
        with resumable(screen) as line:
            told = telling(screen, line, f"downloading to {directory}")
            found = self._named(potluck.files.of_task(task.id))
            alone, doubled = _apart(found.files)
            potluck.files.bring(alone, directory, task.id, told)
        if doubled:
            raise BadSettings(
                f"{printable(doubled[0].path)} is the name of two files of the task; only one of"
                " them was brought.",
                f"`potluck result {task.id} -o DIR` brings both, by the numbers of their items.",
            )
        if found.files and not screen.json:
            screen.err.line(f"{size_of(found)} in {printable(str(directory))}")
        return found

    def _named(self, found: TaskFiles) -> TaskFiles:
        files = [NamedFile(self._renamed(file.path), file.blob) for file in found.files]
        return replace(found, files=files)

    def _renamed(self, path: str) -> str:
        """A file of item 17 comes back as `17/picture.png`."""
        number, slash, rest = path.partition("/")
        is_known = re.fullmatch(NUMBER, number) and int(number) < len(self.labels)
        return f"{self.labels[int(number)]}{slash}{rest}" if is_known else path

    def _collect(self, potluck: "Potluck", task: TaskView, scratch: Path, screen: Screen) -> None:
        """One attempt after the other, the oldest first, so that the newest has the last word."""
        attempts = [each for each in attempts_at(potluck, task.id) if each.items is not None]
        with resumable(screen) as line:
            for number, attempt in enumerate(reversed(attempts), start=1):
                if screen.err.is_live:  # a log need not tell of each
                    of_all = show_count(len(attempts), "attempt")
                    line.say(f"gathering output: {number:,} of {of_all}")
                _collect_attempt(potluck, task, attempt, scratch)

    def _told(self, scratch: Path) -> Iterator[dict[str, Any]]:
        for item in range(len(self.labels)):
            texts = {each: _read(scratch / f"{item}.{each}") for each in STREAMS}
            decoded = {name: text.decode("utf-8", "replace") for name, text in texts.items()}
            value = {"value": self.values[item]} if self.values else {}
            yield {"item": item, **value, **decoded}

    def _keep(self, scratch: Path, directory: Path, screen: Screen) -> None:
        """Beside the files of each item."""
        kept, left = 0, []
        for item, label in enumerate(self.labels):
            for stream in STREAMS:
                if data := _read(scratch / f"{item}.{stream}"):
                    place = _place(directory, f"{label}/{stream}.txt")
                    is_kept = _is_written(place, data)
                    kept += is_kept
                    left += [] if is_kept else [place]
        if left:
            raise BadSettings(
                f"{left[0]} is there already and is another file; it was left as it is.",
                "Name an empty directory; `potluck logs TASK --item N` shows what an item wrote.",
            )
        if kept and not screen.json:
            screen.err.line(f"What items wrote is in {printable(str(directory))}, as stdout.txt")


def by_number(count: int, directory: Path | None) -> Gathering:
    """For whoever knows nothing of the items but how many there are."""
    return Gathering([str(number) for number in range(count)], (), directory)


def _apart(files: Sequence[NamedFile]) -> tuple[list[NamedFile], list[NamedFile]]:
    """Those that have a name to themselves, and those that another file has taken it from."""
    first: dict[str, NamedFile] = {}
    doubled = [file for file in files if first.setdefault(file.path, file).blob != file.blob]
    return list(first.values()), doubled


def _collect_attempt(
    potluck: "Potluck", task: TaskView, attempt: AttemptView, scratch: Path
) -> None:
    """Only of the items that it was granted, whatever a node says of others."""
    assert attempt.items is not None
    found: dict[str, bytearray] = {}
    for _, written in by_item(log_pages(potluck, task.id, attempt.number), attempt.items):
        for item, piece in written:
            found.setdefault(f"{item}.{piece.stream}", bytearray()).extend(piece.data)
    for item in range(attempt.items.start, attempt.items.end):
        for name in (f"{item}.{stream}" for stream in STREAMS):
            if name in found:
                (scratch / name).write_bytes(found[name])
            else:
                (scratch / name).unlink(missing_ok=True)


def _place(directory: Path, path: str) -> Path:
    from potluck.consumer.files.files import place_in

    return place_in(directory, path)


def _is_written(place: Path, data: bytes) -> bool:
    """False if something else is there."""
    if place.exists():
        return _read(place) == data
    try:
        place.write_bytes(data)
    except OSError as error:
        raise BadSettings(
            f"{place} can not be written: {error.strerror}.", "Name a directory with room in it."
        ) from error
    return True


def _read(path: Path) -> bytes:
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""
