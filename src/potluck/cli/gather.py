"""What the items of an array have written and left, brought together item by item.

An item's output is that of the newest attempt that had it: it is given to another one only as long
as no outcome of it counts. What is here already and is another's stays as it is.
"""

import contextlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from potluck.cli.attempts import attempts_at
from potluck.cli.fetch import brought
from potluck.cli.kept import size_of
from potluck.cli.logs import log_pages
from potluck.cli.screen import Screen, printable
from potluck.cli.transfer import resumable, telling
from potluck.cli.units import show_count
from potluck.model.blob import NamedFile
from potluck.model.error import BadSettings
from potluck.wire.consumer import AttemptView, TaskView
from potluck.wire.files import TaskFiles

if TYPE_CHECKING:
    from potluck.consumer import Potluck

# As a node begins the log of each item that writes something.
_TITLE = re.compile(r"item (\d+):")
_STREAMS = ("stdout", "stderr")


class Gathering(Struct, frozen=True):
    """Which items there are, by what their results are called and what they stand for."""

    labels: Sequence[str]
    values: Sequence[str]
    directory: Path | None = None

    def gather(self, potluck: "Potluck", task: TaskView, screen: Screen) -> None:
        """Into the directory, if one is named: files, and what was written. Else what was written,
        in the order of the items, on stdout."""
        if self.directory is not None:
            self._fetch(potluck, task, self.directory, screen)
        with tempfile.TemporaryDirectory(prefix="potluck-") as scratch:
            self._collect(potluck, task, Path(scratch), screen)
            if self.directory is None or screen.json:
                self._show(Path(scratch), screen)
            if self.directory is not None:
                self._keep(Path(scratch), self.directory, screen)

    def _fetch(self, potluck: "Potluck", task: TaskView, directory: Path, screen: Screen) -> None:
        with resumable(screen) as line:
            told = telling(screen, line, f"downloading to {directory}")
            found = self._named(potluck.files.of_task(task.id))
            potluck.files.bring(found.files, directory, task.id, told)
        if screen.json:
            screen.emit({"event": "files", **brought(found, directory)})
        elif found.files:
            screen.err.line(f"{size_of(found)} in {printable(str(directory))}")

    def _named(self, found: TaskFiles) -> TaskFiles:
        files = [NamedFile(self._renamed(file.path), file.blob) for file in found.files]
        return msgspec.structs.replace(found, files=files)

    def _renamed(self, path: str) -> str:
        """A file of item 17 comes back as `17/picture.png`."""
        number, slash, rest = path.partition("/")
        is_known = number.isdecimal() and int(number) < len(self.labels)
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

    def _show(self, scratch: Path, screen: Screen) -> None:
        for item, value in enumerate(self.values):
            texts = {each: _read(scratch / f"{item}.{each}") for each in _STREAMS}
            if screen.json:
                decoded = {name: text.decode("utf-8", "replace") for name, text in texts.items()}
                screen.emit({"event": "item", "item": item, "value": value, **decoded})
            else:
                screen.out.write_bytes(texts["stdout"])

    def _keep(self, scratch: Path, directory: Path, screen: Screen) -> None:
        """Beside the files of each item."""
        kept, left = 0, []
        for item, label in enumerate(self.labels):
            for stream in _STREAMS:
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


def _collect_attempt(
    potluck: "Potluck", task: TaskView, attempt: AttemptView, scratch: Path
) -> None:
    """Only of the items that it was granted, whatever a node says of others."""
    assert attempt.items is not None
    found: dict[str, bytearray] = {}
    for item, stream, data in _pieces(potluck, task, attempt):
        found.setdefault(f"{item}.{stream}", bytearray()).extend(data)
    for item in range(attempt.items.start, attempt.items.end):
        for name in (f"{item}.{stream}" for stream in _STREAMS):
            if name in found:
                (scratch / name).write_bytes(found[name])
            else:
                (scratch / name).unlink(missing_ok=True)


def _pieces(
    potluck: "Potluck", task: TaskView, attempt: AttemptView
) -> Iterator[tuple[int, str, bytes]]:
    """What was written, and by which item; what the platform says besides is left out."""
    item: int | None = None
    for page in log_pages(potluck, task.id, attempt.number):
        for piece in page.pieces:
            if piece.stream not in _STREAMS:
                titles = filter(None, map(_TITLE.fullmatch, piece.text.splitlines()))
                item = next((int(title[1]) for title in reversed(list(titles))), item)
            elif item is not None:
                yield item, piece.stream, piece.data


def _place(directory: Path, path: str) -> Path:
    from potluck.consumer.files import place_in

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
