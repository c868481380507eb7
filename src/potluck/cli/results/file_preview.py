"""Previews of downloaded files: the dimensions of pictures and tables."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from potluck.cli.terminal.screen import Pane, Tone, printable
from potluck.local.media_size import PICTURES, TABLES, MediaSize, measure_media, media_type
from potluck.model.blob import NamedFile
from potluck.model.units import show_bytes, show_count

_MOST_SHOWN = 20


class FilePreview(Struct, frozen=True):
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
        # The first line of a CSV may or may not be a header, so lines are counted.
        row = "row" if self.media_type.endswith("parquet") else "line"
        rows, columns = show_count(self.size.height, row), show_count(self.size.width, "column")
        return f"{rows} × {columns}, {size}"


def preview_file(file: NamedFile, place: Path) -> FilePreview:
    """Opens only pictures and tables."""
    kind = media_type(file.path)
    size = measure_media(place) if kind in PICTURES | TABLES else None
    return FilePreview(place, file.blob.size_bytes, kind, size)


def show_previews(pane: Pane, files: Iterable[tuple[NamedFile, Path]]) -> None:
    """Shows a line for each of the first pictures and tables, with its place."""
    media = [pair for pair in files if media_type(pair[0].path) in PICTURES | TABLES]
    previews = [preview_file(file, place) for file, place in media[:_MOST_SHOWN]]
    width = max((len(printable(str(preview.place))) for preview in previews), default=0)
    for preview in previews:
        kind = pane.paint(preview.kind.ljust(7), Tone.FAINT)
        pane.line(f"{kind}  {printable(str(preview.place)).ljust(width)}  {preview.about}")
    if len(media) > len(previews):
        pane.line(f"… and {len(media) - len(previews):,} more", Tone.FAINT)


def preview_as_json(file: NamedFile, place: Path) -> dict[str, Any]:
    preview = preview_file(file, place)
    fields: dict[str, Any] = {"place": str(preview.place), "media_type": preview.media_type}
    if preview.size is not None and preview.kind == "picture":
        return {**fields, "width": preview.size.width, "height": preview.size.height}
    if preview.size is not None:
        return {**fields, "rows": preview.size.height, "columns": preview.size.width}
    return fields
