"""The items of an array, from a file of them or from the files that a pattern names.

A file has one item a line, or is JSON, JSON lines, CSV or TSV by the end of its name. Whatever
would be a surprise on a node is told here, with its line.
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

from potluck.cli.request.script import STDIN
from potluck.cli.terminal.screen import printable
from potluck.model.error import InvalidInput, TooLarge
from potluck.model.task import MOST_ITEMS

_MOST_BYTES = 512 * 2**20
_MAGIC = re.compile(r"[*?[]")


class ItemFormat(StrEnum):
    """How a file of items is read."""

    LINES = "lines"  # one item a line, as it stands there
    JSONL = "jsonl"  # a JSON value on each line
    JSON = "json"  # one list of JSON values
    CSV = "csv"  # a header, then a row an item
    TSV = "tsv"  # the same, with tabs


_BY_SUFFIX = {
    ".jsonl": ItemFormat.JSONL,
    ".ndjson": ItemFormat.JSONL,
    ".json": ItemFormat.JSON,
    ".csv": ItemFormat.CSV,
    ".tsv": ItemFormat.TSV,
}


class Item(Struct, frozen=True):
    """`value` is all of it as text; `fields` its parts by their names."""

    value: str
    fields: dict[str, str] = {}
    file: Path | None = None  # of a pattern: what it stands for, if it has to be sent along
    label: str = ""  # what its results are called; its number, if nothing


def read_items(
    source: str, said: ItemFormat | None = None, folder: Path | None = None
) -> list[Item]:
    """What lies in the folder that goes along anyway is found where it lies in it."""
    items = _of_pattern(source, folder) if is_pattern(source) else _of_file(source, said)
    if not items:
        raise InvalidInput(f"There is no item in {printable(source)}.", "Put one on each line.")
    if len(items) > MOST_ITEMS:
        raise TooLarge(
            f"{printable(source)} has {len(items):,} items; an array may have {MOST_ITEMS:,}.",
            "Split it, or let each item do more.",
        )
    return items


def is_pattern(source: str) -> bool:
    """A file whose name has a star in it is a file, if it is there."""
    return _MAGIC.search(source) is not None and not Path(source).exists()


def _of_pattern(pattern: str, folder: Path | None) -> list[Item]:
    found = sorted(Path(each) for each in glob(pattern, recursive=True))  # noqa: PTH207
    files = [each for each in found if each.is_file()]
    if not files:
        raise InvalidInput(
            f"No file is called like {printable(pattern)}.",
            "Look at it with `ls`; `**` stands for directories of any depth.",
        )
    top, along = _fixed_part(pattern), _along(folder)
    names = [along.get(file.resolve()) or _name_there(file, top) for file in files]
    return [
        Item(
            name,
            {"name": file.name, "stem": file.stem},
            None if file.resolve() in along else file,
            label,
        )
        for name, file, label in zip(names, files, _labels(files, names), strict=True)
    ]


def _labels(files: Sequence[Path], names: Sequence[str]) -> list[str]:
    """The shortest that tell all of them apart; none where only their numbers do."""
    for labels in ([file.name for file in files], [name.replace("/", "_") for name in names]):
        if len(set(labels)) == len(labels):
            return labels
    return [""] * len(files)


def _along(folder: Path | None) -> dict[Path, str]:
    """All files of the folder that are not left behind, and their places in it."""
    if folder is None:
        return {}
    from potluck.consumer.files.folder import listed

    return {path.resolve(): path.relative_to(folder).as_posix() for path in listed(folder)}


def _fixed_part(pattern: str) -> Path:
    """The directory above the first star."""
    parts = Path(pattern).parts
    fixed = next(at for at, part in enumerate(parts) if _MAGIC.search(part))
    return Path(*parts[:fixed])


def _name_there(file: Path, top: Path) -> str:
    """As it was typed, where that is a place in the task's directory too."""
    is_plain = not file.is_absolute() and ".." not in file.parts
    return PurePosixPath(file if is_plain else file.relative_to(top)).as_posix()


def _of_file(source: str, said: ItemFormat | None) -> list[Item]:
    text = _text(source)
    shape = said or _BY_SUFFIX.get(Path(source).suffix.lower(), ItemFormat.LINES)
    match shape:
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
            f"Name its files with a pattern, in quotes: '{printable(source).rstrip('/')}/*'.",
        )
    if not file.is_file():
        raise InvalidInput(
            f"There is no file {printable(source)}.",
            "Name a file with one item on each line, `-` for stdin, or a pattern in quotes such as"
            " 'data/*.csv'.",
        )
    with file.open("rb") as opened:
        return _decoded(opened.read(_MOST_BYTES + 1), source)


def _decoded(content: bytes, source: str) -> str:
    if len(content) > _MOST_BYTES:
        raise TooLarge(
            f"{printable(source)} has more than {_MOST_BYTES >> 20} MiB of items.",
            "Let the items name files, and send those along.",
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{printable(source)} is not text: byte {error.start} is not valid UTF-8.",
            "Save it as UTF-8; files that are to be worked on are named by a pattern in quotes.",
        ) from error


def _lines(text: str) -> list[str]:
    """As other programs count them: what Python takes for ends too may be part of an item."""
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
            "Write [item, item, …], or one item a line and --format jsonl.",
        )
    for value in values:
        yield _from_json(value, json.dumps(value, ensure_ascii=False))


def _json(text: str, source: str, line: int) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        at = line + getattr(error, "lineno", 1) - 1
        raise InvalidInput(
            f"{printable(source)}, line {at}: that is not JSON ({getattr(error, 'msg', error)}).",
            "Mend the line, or say --format lines if each line is to be taken as it is.",
        ) from error


def _from_json(value: Any, text: str) -> Item:
    """Of an object its members are fields; a text is itself, without its quotes."""
    if isinstance(value, dict):
        return Item(text, {name: _plain(each) for name, each in value.items()})
    return Item(_plain(value) if isinstance(value, str) else text)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _rows(text: str, delimiter: str, source: str) -> Iterator[Item]:
    """A row of one column is that column; of several, `value` has all of them as JSON."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
        _check_header(header, source)
        for row in reader:
            if row:
                yield _from_row(header, row, source, reader.line_num)
    except csv.Error as error:
        raise InvalidInput(
            f"{printable(source)}, line {reader.line_num}: {error}.",
            "Mend the line, or say --format lines if each line is to be taken as it is.",
        ) from error


def _check_header(header: list[str], source: str) -> None:
    doubled = next((name for name in header if header.count(name) > 1), None)
    if doubled is not None:
        raise InvalidInput(
            f"{printable(source)}: the column {printable(doubled)!r} is there twice.",
            "Give each column a name of its own in the first line.",
        )


def _from_row(header: list[str], row: list[str], source: str, line: int) -> Item:
    if len(row) != len(header):
        raise InvalidInput(
            f"{printable(source)}, line {line}: {len(row)} columns, and the header has"
            f" {len(header)}.",
            "Mend the line; a cell with a comma in it stands in quotes.",
        )
    fields = dict(zip(header, row, strict=True))
    whole = row[0] if len(row) == 1 else json.dumps(fields, ensure_ascii=False)
    return Item(whole, fields)


def variable_name(field: str) -> str:
    """Of the variable that a field is given in: `learning rate` is LEARNING_RATE."""
    return re.sub(r"\W", "_", field, flags=re.ASCII).upper()


def field_names(items: Iterable[Item]) -> dict[str, None]:
    """All that any of them has, in the order in which they are met."""
    return {name: None for item in items for name in item.fields}
