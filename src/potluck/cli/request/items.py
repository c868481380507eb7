"""Reads the items of an array from a file, or from the files that match a pattern.

A file has one item per line, or is JSON, JSON lines, CSV or TSV by its suffix. Malformed input is
refused here with its line, before a node would meet it.
"""

import csv
import io
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from glob import glob
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct

from potluck.cli.request.task_kind import STDIN
from potluck.cli.terminal.screen import printable
from potluck.model.error import InvalidInput, TooLarge
from potluck.model.task import MOST_ITEMS

_MOST_BYTES = 512 * 2**20
_MAGIC = re.compile(r"[*?[]")
_FIX_LINE = "Correct the line, or use --format lines to take each line verbatim."


class ItemFormat(StrEnum):
    """The format of a file of items."""

    LINES = "lines"  # one item per line, verbatim
    JSONL = "jsonl"  # a JSON value on each line
    JSON = "json"  # one list of JSON values
    CSV = "csv"  # a header, then one row per item
    TSV = "tsv"  # the same, with tabs


_BY_SUFFIX = {
    ".jsonl": ItemFormat.JSONL,
    ".ndjson": ItemFormat.JSONL,
    ".json": ItemFormat.JSON,
    ".csv": ItemFormat.CSV,
    ".tsv": ItemFormat.TSV,
}


class Item(Struct, frozen=True):
    """`value` is the complete item as text; `fields` are its parts by name."""

    value: str
    fields: dict[str, str] = {}
    file: Path | None = None  # the file that a pattern matched, if it has to be uploaded
    label: str = ""  # the name of its results; if empty, its number


def read_items(
    source: str, item_format: ItemFormat | None = None, folder: Path | None = None
) -> list[Item]:
    """Files that match a pattern and are in the uploaded folder are not uploaded again."""
    items = _match_files(source, folder) if is_pattern(source) else _read_file(source, item_format)
    if not items:
        raise InvalidInput(f"{printable(source)} has no items.", "Put one on each line.")
    if len(items) > MOST_ITEMS:
        raise TooLarge(
            f"{printable(source)} has {len(items):,} items; an array may have {MOST_ITEMS:,}.",
            "Split it, or let each item do more.",
        )
    return items


def is_pattern(source: str) -> bool:
    """An existing file with a star in its name is not a pattern."""
    return _MAGIC.search(source) is not None and not Path(source).exists()


def _match_files(pattern: str, folder: Path | None) -> list[Item]:
    matches = sorted(Path(match) for match in glob(pattern, recursive=True))  # noqa: PTH207
    files = [path for path in matches if path.is_file()]
    if not files:
        raise InvalidInput(
            f"No files match {printable(pattern)}.",
            "Check it with `ls`; `**` matches directories of any depth.",
        )
    top, in_folder = _fixed_part(pattern), _folder_files(folder)
    names = [in_folder.get(file.resolve()) or _task_path(file, top) for file in files]
    return [
        Item(
            name,
            {"name": file.name, "stem": file.stem},
            None if file.resolve() in in_folder else file,
            label,
        )
        for name, file, label in zip(names, files, _labels(files, names), strict=True)
    ]


def _labels(files: Sequence[Path], names: Sequence[str]) -> list[str]:
    """The shortest unique labels; empty if only the items' numbers are unique."""
    for labels in ([file.name for file in files], [name.replace("/", "_") for name in names]):
        if len(set(labels)) == len(labels):
            return labels
    return [""] * len(files)


def _folder_files(folder: Path | None) -> dict[Path, str]:
    """The files of the folder that are uploaded, with their paths in it."""
    if folder is None:
        return {}
    from potluck.consumer.files.folder import list_files

    return {path.resolve(): path.relative_to(folder).as_posix() for path in list_files(folder)}


def _fixed_part(pattern: str) -> Path:
    """The directory above the first wildcard."""
    parts = Path(pattern).parts
    fixed = next(index for index, part in enumerate(parts) if _MAGIC.search(part))
    return Path(*parts[:fixed])


def _task_path(file: Path, top: Path) -> str:
    """The path as typed, or relative to `top` if it leads out of the task's directory."""
    is_inside = not file.is_absolute() and ".." not in file.parts
    return PurePosixPath(file if is_inside else file.relative_to(top)).as_posix()


def _read_file(source: str, item_format: ItemFormat | None) -> list[Item]:
    text = _text(source)
    match item_format or _BY_SUFFIX.get(Path(source).suffix.lower(), ItemFormat.LINES):
        case ItemFormat.LINES:
            return [Item(line) for line in _lines(text) if line.strip()]
        case ItemFormat.JSONL:
            return list(_json_lines(text, source))
        case ItemFormat.JSON:
            return list(_json_list(text, source))
        case ItemFormat.CSV:
            return list(_rows(text, ",", source))
        case ItemFormat.TSV:
            return list(_rows(text, "\t", source))


def _text(source: str) -> str:
    if source == STDIN:
        return _decoded(sys.stdin.buffer.read(_MOST_BYTES + 1), "stdin")
    file = Path(source)
    if file.is_dir():
        raise InvalidInput(
            f"{printable(source)} is a directory.",
            f"Name its files with a quoted pattern: '{printable(source).rstrip('/')}/*'.",
        )
    if not file.is_file():
        raise InvalidInput(
            f"There is no file {printable(source)}.",
            "Name a file with one item per line, `-` for stdin, or a quoted pattern such as"
            " 'data/*.csv'.",
        )
    with file.open("rb") as opened:
        return _decoded(opened.read(_MOST_BYTES + 1), source)


def _decoded(content: bytes, source: str) -> str:
    if len(content) > _MOST_BYTES:
        raise TooLarge(
            f"{printable(source)} has more than {_MOST_BYTES >> 20} MiB of items.",
            "Put the data into files, and use their names as items.",
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{printable(source)} is not text: byte {error.start} is not valid UTF-8.",
            "Save it as UTF-8; to process files, name them with a quoted pattern.",
        ) from error


def _lines(text: str) -> list[str]:
    """Splits only at newlines: other line breaks that Python knows may be part of an item."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def _json_lines(text: str, source: str) -> Iterator[Item]:
    for number, line in enumerate(_lines(text), start=1):
        if line.strip():
            yield _from_json(_json(line, source, number), line.strip())


def _json_list(text: str, source: str) -> Iterator[Item]:
    values = _json(text, source, 1)
    if not isinstance(values, list):
        raise InvalidInput(
            f"{printable(source)} is not a JSON list.",
            "Write [item, item, …], or use one item per line and --format jsonl.",
        )
    for value in values:
        yield _from_json(value, json.dumps(value, ensure_ascii=False))


def _json(text: str, source: str, line: int) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        number = line + getattr(error, "lineno", 1) - 1
        message = getattr(error, "msg", error)
        raise InvalidInput(
            f"{printable(source)}, line {number}: not valid JSON ({message}).", _FIX_LINE
        ) from error


def _from_json(value: Any, text: str) -> Item:
    """The members of an object become fields; a string loses its quotes."""
    if isinstance(value, dict):
        return Item(text, {name: _plain(member) for name, member in value.items()})
    return Item(_plain(value) if isinstance(value, str) else text)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _rows(text: str, delimiter: str, source: str) -> Iterator[Item]:
    """The value of a row is its only column, or all columns as JSON."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
        _check_header(header, source)
        for row in reader:
            if row:
                yield _from_row(header, row, source, reader.line_num)
    except csv.Error as error:
        raise InvalidInput(
            f"{printable(source)}, line {reader.line_num}: {error}.", _FIX_LINE
        ) from error


def _check_header(header: list[str], source: str) -> None:
    duplicate = next((name for name in header if header.count(name) > 1), None)
    if duplicate is not None:
        raise InvalidInput(
            f"{printable(source)}: the column {printable(duplicate)!r} exists twice.",
            "Give each column a unique name in the first line.",
        )


def _from_row(header: list[str], row: list[str], source: str, line: int) -> Item:
    if len(row) != len(header):
        raise InvalidInput(
            f"{printable(source)}, line {line}: {len(row)} columns, but the header has"
            f" {len(header)}.",
            "Correct the line; quote cells that contain a comma.",
        )
    fields = dict(zip(header, row, strict=True))
    return Item(row[0] if len(row) == 1 else json.dumps(fields, ensure_ascii=False), fields)


def variable_name(field: str) -> str:
    """The variable of a field: `learning rate` becomes LEARNING_RATE."""
    return re.sub(r"\W", "_", field, flags=re.ASCII).upper()


def field_names(items: Iterable[Item]) -> dict[str, None]:
    """The fields of all items, in order of appearance."""
    return {name: None for item in items for name in item.fields}
