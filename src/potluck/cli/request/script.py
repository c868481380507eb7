"""Reads and checks a script before it is sent."""

import sys
from pathlib import Path

from potluck.model.bounded_types import SOURCE_CHARACTERS
from potluck.model.error import InvalidInput, TooLarge

STDIN = "-"


def read_script(path: str) -> tuple[str, str]:
    """Returns the name and the source; `-` is stdin."""
    name, content = ("stdin.py", _read_stdin()) if path == STDIN else _read_file(path)
    if len(content) > SOURCE_CHARACTERS:
        raise TooLarge(
            f"{path} is larger than the {SOURCE_CHARACTERS // 1024} KiB that a script may have.",
            "Move data out of the script.",
        )
    source = _decoded(content, path)
    _check_block(source)
    return name, source


def _read_file(path: str) -> tuple[str, bytes]:
    file = Path(path)
    try:
        if not file.is_file():
            raise InvalidInput(_not_a_file(file), "Name a Python file; `-` reads it from stdin.")
        with file.open("rb") as opened:
            return file.name, opened.read(SOURCE_CHARACTERS + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(
            f"{path} cannot be read: {reason}.", "Check its name and its permissions."
        ) from error


def _read_stdin() -> bytes:
    return sys.stdin.buffer.read(SOURCE_CHARACTERS + 1)


def _not_a_file(file: Path) -> str:
    if file.is_dir():
        return f"{file} is a directory, not a script."
    if file.exists():
        return f"{file} is not a regular file."
    return f"There is no file {file}."


def _decoded(content: bytes, path: str) -> str:
    try:
        source = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path} is not a Python script: byte {error.start} is not valid UTF-8.",
            "Save it as UTF-8, or name another file.",
        ) from error
    if "\0" in source:
        raise InvalidInput(
            f"{path} is not a Python script: it contains NUL bytes.", "Name another file."
        )
    if not source.strip():
        raise InvalidInput(f"{path} is empty.", "Name another file.")
    return source


def _check_block(source: str) -> None:
    """Reports an invalid PEP 723 block before the task waits for a device."""
    from potluck.model.script import read_metadata

    read_metadata(source)
