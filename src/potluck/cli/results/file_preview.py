"""Files that were brought, for eyes: which of them are pictures and tables, and how large."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from potluck.cli.terminal.screen import Pane, Tone, printable
from potluck.cli.terminal.units import show_bytes, show_count
from potluck.local.media_size import MediaSize, measured
from potluck.local.media_type import PICTURES, TABLES, media_type
from potluck.model.blob import NamedFile

_MOST_SHOWN = 20


class LookedAt(Struct, frozen=True):
    """A file that is here now."""

    place: Path
    size_bytes: int
    media_type: str
    size: MediaSize | None

    @property
    def kind(self) -> str:
        return "picture" if self.media_type in PICTURES else "table"

    @property
    def about(self) -> str:
        size = show_bytes(self.size_bytes)
        if self.size is None:
            return size
        if self.kind == "picture":
            return f"{self.size.width:,} × {self.size.height:,}, {size}"
        # Whether the first line of a CSV is a heading, nobody can tell.
        row = "row" if self.media_type.endswith("parquet") else "line"
        rows, columns = show_count(self.size.height, row), show_count(self.size.width, "column")
        return f"{rows} × {columns}, {size}"


def look_at(file: NamedFile, directory: Path) -> LookedAt:
    """Only what is worth looking at is opened."""
    place, kind = directory / file.path, media_type(file.path)
    size = measured(place) if kind in PICTURES | TABLES else None
    return LookedAt(place, file.blob.size_bytes, kind, size)


def show_looked_at(pane: Pane, files: Iterable[NamedFile], directory: Path) -> None:
    """A line for each picture and each table, as far as somebody reads."""
    worth = [file for file in files if media_type(file.path) in PICTURES | TABLES]
    seen = [look_at(file, directory) for file in worth[:_MOST_SHOWN]]
    width = max((len(printable(str(each.place))) for each in seen), default=0)
    for each in seen:
        kind = pane.paint(each.kind.ljust(7), Tone.FAINT)
        pane.line(f"{kind}  {printable(str(each.place)).ljust(width)}  {each.about}")
    if len(worth) > len(seen):
        pane.line(f"… and {len(worth) - len(seen):,} more", Tone.FAINT)


def for_programs(file: NamedFile, directory: Path) -> dict[str, Any]:
    seen = look_at(file, directory)
    told: dict[str, Any] = {"place": str(seen.place), "media_type": seen.media_type}
    if seen.size is not None and seen.kind == "picture":
        return {**told, "width": seen.size.width, "height": seen.size.height}
    if seen.size is not None:
        return {**told, "rows": seen.size.height, "columns": seen.size.width}
    return told
