"""The notebook display of a result and its files.

Names and contents are untrusted: names and table cells are escaped, pictures (also SVG, which may
contain scripts) are shown only as images, and large files are not fetched.
"""

import base64
import csv
import io
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from potluck.local.media_size import DRAWN, media_type
from potluck.model.error import PotluckError

if TYPE_CHECKING:
    from potluck.consumer.result.files import ResultFile
    from potluck.consumer.result.result import Result

MOST_PICTURE_BYTES = 4 * 2**20
_MOST_TABLE_BYTES = 2**20
_MOST_PICTURES = 6
_MOST_FILES = 50
_MOST_ROWS, _MOST_COLUMNS, _MOST_CHARACTERS = 10, 12, 60
_SIGNATURES = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}


def file_bundle(file: "ResultFile") -> dict[str, str]:
    """A picture, the first lines of a table, or the name of any other file."""
    bundle = {"text/plain": repr(file), "text/html": _named(file)}
    try:
        if file.is_picture and file.size_bytes <= MOST_PICTURE_BYTES:
            bundle |= _picture(file)
        elif file.media_type in DRAWN and file.size_bytes <= _MOST_TABLE_BYTES:
            bundle["text/html"] = _named(file) + _table(file)
    except PotluckError as error:
        bundle["text/html"] += f"<i>{escape(error.detail)}</i>"
    return bundle


def files_html(files: "Iterable[ResultFile]") -> str:
    """A row for each file, and the first pictures below."""
    every = list(files)
    lines = "".join(
        f"<tr><td style='text-align:left'>{escape(file.path)}</td>"
        f"<td>{file.size_bytes:,}</td><td style='text-align:left'>{escape(file.media_type)}</td>"
        f"<td><code>{file.sha256[:12]}</code></td></tr>"
        for file in every[:_MOST_FILES]
    )
    more = len(every) - _MOST_FILES
    rest = f"<p>… and {more:,} more</p>" if more > 0 else ""
    head = "<tr><th>path</th><th>bytes</th><th>kind</th><th>SHA-256</th></tr>"
    return f"<table>{head}{lines}</table>{rest}{_pictures(every)}" if every else "<p>No files.</p>"


def result_html(result: "Result") -> str:
    """The facts about the result, and its files if it is final."""
    task = result.task
    facts = {
        "task": f"{result.name} ({result.task_id})",
        "state": f"{result.state.value}{f': {result.detail}' if result.detail else ''}",
        "exit code": "" if result.exit_code is None else str(result.exit_code),
        "items": ""
        if task.items is None
        else f"{task.items.done:,} of {task.items.total:,} done, {task.items.failed:,} failed",
        "cost": f"{result.cost:g} credits" if result.cost_micro else "",
        "kept until": "" if result.kept_until is None else f"{result.kept_until:%Y-%m-%d %H:%M %Z}",
    }
    lines = "".join(
        f"<tr><th style='text-align:left'>{name}</th>"
        f"<td style='text-align:left'>{escape(value)}</td></tr>"
        for name, value in facts.items()
        if value
    )
    return f"<table>{lines}</table>{_left(result)}"


def _left(result: "Result") -> str:
    if not result.is_over:
        return ""
    try:
        return files_html(result.files) if len(result.files) else ""
    except PotluckError as error:
        return f"<i>{escape(error.detail)}</i>"


def _pictures(files: "Sequence[ResultFile]") -> str:
    small = [file for file in files if file.is_picture and file.size_bytes <= MOST_PICTURE_BYTES]
    return "".join(_figure(file) for file in small[:_MOST_PICTURES])


def _figure(file: "ResultFile") -> str:
    try:
        source = _source(file)
    except PotluckError as error:
        return f"<i>{escape(error.detail)}</i>"
    if source is None:
        return ""
    return (
        f"<figure style='display:inline-block;margin:.5em'><img src='{source}'"
        f" style='max-width:24em;max-height:24em'>"
        f"<figcaption>{escape(file.path)}</figcaption></figure>"
    )


def _picture(file: "ResultFile") -> dict[str, str]:
    """As its own media type where that can only be an image; as an <img> otherwise."""
    source = _source(file)
    if source is None:
        return {"text/html": f"{_named(file)}<i>It is not a picture, despite its name.</i>"}
    if file.media_type in ("image/png", "image/jpeg", "image/gif"):
        return {file.media_type: source.partition(",")[2]}
    return {"text/html": f"<img src='{source}' style='max-width:100%'>"}


def _source(file: "ResultFile") -> str | None:
    data = file.read_bytes(MOST_PICTURE_BYTES)
    kind = media_type(file.path)
    if not data.startswith(_SIGNATURES.get(kind, b"")):
        return None
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _named(file: "ResultFile") -> str:
    return f"<code>{escape(file.path)}</code> ({file.size_bytes:,} bytes)"


def _table(file: "ResultFile") -> str:
    """The first rows and columns."""
    text = file.read_bytes(_MOST_TABLE_BYTES).decode("utf-8", "replace")
    separator = "\t" if file.media_type == "text/tab-separated-values" else ","
    try:
        rows = list(csv.reader(io.StringIO(text), delimiter=separator))
    except csv.Error:
        return ""
    lines = "".join(f"<tr>{_cells(row)}</tr>" for row in rows[:_MOST_ROWS])
    more = len(rows) - _MOST_ROWS
    return f"<table>{lines}</table>" + (f"<p>… and {more:,} more lines</p>" if more > 0 else "")


def _cells(row: list[str]) -> str:
    cells = [escape(_cut(cell)) for cell in row[:_MOST_COLUMNS]]
    return "".join(
        f"<td>{cell}</td>" for cell in [*cells, *(["…"] if len(row) > len(cells) else [])]
    )


def _cut(cell: str) -> str:
    return cell if len(cell) <= _MOST_CHARACTERS else f"{cell[:_MOST_CHARACTERS]}…"
