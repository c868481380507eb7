"""Reads secrets, and uploads a task's folder and files.

All names are checked before the first byte is sent. The value of `--secret NAME` comes from the
environment, or from a hidden prompt.
"""

import os
import re
import select
import stat
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from potluck.cli.terminal.live_line import LiveLine, report_progress, resumable_transfer
from potluck.cli.terminal.prompt import ask_hidden
from potluck.cli.terminal.screen import Pane, Screen, Tone, printable
from potluck.model.blob import (
    MOST_INPUT_FILES,
    MOST_STDIN_BYTES,
    BlobRef,
    NamedFile,
    Value,
    is_path,
)
from potluck.model.bounded_types import LEAST_MASKED_CHARACTERS
from potluck.model.error import InvalidInput, TooLarge
from potluck.model.task_spec import FunctionSpec, TaskSpec
from potluck.model.units import show_count

if TYPE_CHECKING:
    from potluck.consumer import Potluck


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_HASH = "0" * 64
# A request is limited to one MiB, and contains the script too.
_INLINE_BYTES = 65_536


def read_secrets(words: list[str], pane: Pane) -> dict[str, str]:
    """Values by name; warns about values on the command line."""
    secrets = dict(_read(word, pane) for word in words)
    for name, value in secrets.items():
        if not value:
            raise InvalidInput(f"The secret {name} is empty.", "Set it, or omit it.")
        if len(value) < LEAST_MASKED_CHARACTERS:
            pane.prose(
                f"potluck: {name} has fewer than {LEAST_MASKED_CHARACTERS} characters, so it is not"
                " masked in the task's log.",
                Tone.WAITING,
            )
    return secrets


def stub_secrets(words: list[str]) -> dict[str, str]:
    """The names with a dummy value, for a dry run; asks and warns about nothing."""
    return {_name(word): "placeholder" for word in words}


def _name(word: str) -> str:
    name = word.partition("=")[0]
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"--secret {printable(name)!r} is not the name of a variable.",
            "Write it like --secret API_TOKEN; its value comes from your environment or a prompt.",
        )
    return name


def _read(word: str, pane: Pane) -> tuple[str, str]:
    name, (_, equals, value) = _name(word), word.partition("=")
    if equals:
        pane.prose(
            f"potluck: other users of this machine can see {name} in the process list, and your"
            f" shell may store it; next time export it and use --secret {name}.",
            Tone.WAITING,
        )
        return name, value
    exported = os.environ.get(name)
    return name, ask_hidden(f"{name}: ", f"Set {name}") if exported is None else exported


class InputFile(Struct, frozen=True):
    source: Path
    path: str  # in the task's directory


class RequestInputs(Struct, frozen=True):
    folder: Path | None = None
    files: tuple[InputFile, ...] = ()
    packed: tuple[InputFile, ...] = ()  # files of items, sent as one archive instead of a folder
    items: bytes = b""  # the packed inputs of an array's items
    stdin: bytes | None = None


def read_stdin() -> bytes:
    content = sys.stdin.buffer.read(MOST_STDIN_BYTES + 1)
    if len(content) > MOST_STDIN_BYTES:
        raise TooLarge(
            f"stdin has more than the {MOST_STDIN_BYTES >> 20} MiB that a task can read there.",
            "Send it as a file with --file, and let the task open it by its name.",
        )
    return content


def has_piped_input() -> bool:
    """Whether stdin is a pipe or file with something to read at this moment; never waits."""
    try:
        descriptor = sys.stdin.fileno()
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            return status.st_size > os.lseek(descriptor, 0, os.SEEK_CUR)
        if not stat.S_ISFIFO(status.st_mode):
            return False
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return any(event & select.POLLIN for _, event in poll.poll(0))
    except (AttributeError, OSError, ValueError):  # closed, or replaced
        return False


def add_item_files(inputs: RequestInputs, files: Sequence[InputFile]) -> RequestInputs:
    """Adds a few files one by one, and many as one archive, which the node unpacks."""
    if len(inputs.files) + len(files) <= MOST_INPUT_FILES:
        return replace(inputs, files=(*inputs.files, *files))
    if inputs.folder is None:
        return replace(inputs, packed=tuple(files))
    raise InvalidInput(
        f"{len(files):,} files are too many to send in addition to a folder.",
        "Put them into the folder, where .gitignore does not exclude them, or omit --folder.",
    )


def check_inputs(folder: Path | None, sources: Sequence[tuple[Path, str]]) -> RequestInputs:
    """`sources` are files with their names in the task's directory."""
    if folder is not None and not folder.is_dir():
        raise InvalidInput(
            f"--folder {printable(str(folder))} is not a directory.",
            "Name a directory; send a single file with --file.",
        )
    files = tuple(_input_file(*source) for source in sources)
    paths = [file.path for file in files]
    for path in paths:
        if paths.count(path) > 1:
            raise InvalidInput(
                f"Two files would be named {printable(path)} in the task's directory.",
                "Give one of them another name: --file SOURCE:NAME.",
            )
    return RequestInputs(folder, files)


def add_placeholder_inputs(spec: TaskSpec, inputs: RequestInputs) -> TaskSpec:
    """Adds the names and sizes of the inputs without reading or sending them."""
    folder = BlobRef(_NO_HASH, 0) if inputs.folder is not None or inputs.packed else None
    files = tuple(
        NamedFile(file.path, BlobRef(_NO_HASH, file.source.stat().st_size)) for file in inputs.files
    )
    is_small = len(inputs.items) <= _INLINE_BYTES
    items = Value(inputs.items) if is_small else Value(blob=BlobRef(_NO_HASH, len(inputs.items)))
    stdin = None if inputs.stdin is None else BlobRef(_NO_HASH, len(inputs.stdin))
    return _with(spec, folder, files, items if inputs.items else None, stdin)


def upload_inputs(
    potluck: "Potluck", spec: TaskSpec, inputs: RequestInputs, screen: Screen
) -> TaskSpec:
    """Uploads the inputs and adds them to the spec."""
    if inputs == RequestInputs():
        return spec
    with resumable_transfer(screen, " before it was submitted") as line:
        folder = None
        if inputs.folder is not None:
            folder = _upload_folder(potluck, inputs.folder, screen, line)
        if inputs.packed:
            folder = _upload_packed(potluck, inputs.packed, screen, line)
        files = tuple(_upload_file(potluck, file, screen, line) for file in inputs.files)
        items = _upload_items(potluck, inputs.items, line) if inputs.items else None
        stdin = None
        if inputs.stdin is not None:
            line.say("uploading stdin")
            stdin = _emit(potluck.files.upload_bytes(inputs.stdin), "stdin", screen)
    return _with(spec, folder, files, items, stdin)


def _with(
    spec: TaskSpec,
    folder: BlobRef | None,
    files: tuple[NamedFile, ...],
    items: Value | None,
    stdin: BlobRef | None,
) -> TaskSpec:
    if isinstance(spec, FunctionSpec):  # has its inputs already
        return replace(spec, folder=folder, files=files)
    return replace(spec, folder=folder, files=files, inputs=items, stdin=stdin)


def _upload_items(potluck: "Potluck", packed: bytes, line: LiveLine) -> Value:
    if len(packed) <= _INLINE_BYTES:
        return Value(packed)
    line.say("uploading the items")
    return Value(blob=potluck.files.upload_bytes(packed))


def _upload_packed(
    potluck: "Potluck", files: Sequence[InputFile], screen: Screen, line: LiveLine
) -> BlobRef:
    count = show_count(len(files), "file")
    line.say(f"packing {count}")
    progress = report_progress(screen, line, f"uploading {count}")
    blob = potluck.files.upload_packed({file.path: file.source for file in files}, progress)
    return _emit(blob, count, screen)


def _upload_folder(potluck: "Potluck", folder: Path, screen: Screen, line: LiveLine) -> BlobRef:
    name = f"{folder.resolve().name}/"
    line.say(f"packing {printable(name)}")
    progress = report_progress(screen, line, f"uploading {name}")
    return _emit(potluck.files.upload_folder(folder, progress), str(folder), screen)


def _upload_file(potluck: "Potluck", file: InputFile, screen: Screen, line: LiveLine) -> NamedFile:
    line.say(f"reading {printable(file.source.name)}")
    progress = report_progress(screen, line, f"uploading {file.source.name}")
    blob = potluck.files.upload(file.source, progress)
    return NamedFile(file.path, _emit(blob, str(file.source), screen))


def _emit(blob: BlobRef, source: str, screen: Screen) -> BlobRef:
    if screen.json:
        screen.emit({"event": "uploaded", "source": source, **msgspec.to_builtins(blob)})
    return blob


def _input_file(file: Path, name: str) -> InputFile:
    source = printable(str(file))
    if file.is_dir():
        raise InvalidInput(f"--file {source} is a directory.", "Send it with --folder.")
    if not file.is_file():
        raise InvalidInput(
            f"There is no file {source}.",
            "Write it like --file data.csv, or --file here.csv:there.csv to give it another name in"
            " the task's directory.",
        )
    path = PurePosixPath(name).as_posix()
    if not is_path(path):
        raise InvalidInput(
            f"--file {source}: {printable(name)!r} is not a path in the task's directory.",
            "Use a relative path, such as data/train.csv.",
        )
    return InputFile(file, path)
