"""The folder and the files that a task is sent along, from here to the server.

All of it is looked at before the first byte is sent, so that a wrong name is told at once.
"""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from potluck.cli.terminal.live_line import LiveLine
from potluck.cli.terminal.screen import Screen, printable
from potluck.cli.terminal.transfer_progress import resumable, telling
from potluck.cli.terminal.units import show_count
from potluck.model.blob import MOST_INPUT_FILES, BlobRef, NamedFile, Value, is_path
from potluck.model.error import InvalidInput
from potluck.model.task_spec import FunctionSpec, TaskSpec

if TYPE_CHECKING:
    from potluck.consumer import Potluck


_NO_HASH = "0" * 64
# Of a request of one MiB, which has a script in it too.
_INLINE_BYTES = 65_536


class InputFile(Struct, frozen=True):
    source: Path
    path: str  # where the task finds it


class RequestInputs(Struct, frozen=True):
    folder: Path | None = None
    files: tuple[InputFile, ...] = ()
    packed: tuple[InputFile, ...] = ()  # too many to be shown one by one: instead of a folder
    items: bytes = b""  # of an array: what each of its items is given


def with_item_files(inputs: RequestInputs, files: Sequence[InputFile]) -> RequestInputs:
    """Few are shown as they are; many go along as one archive, which is unpacked."""
    if len(inputs.files) + len(files) <= MOST_INPUT_FILES:
        return replace(inputs, files=(*inputs.files, *files))
    if inputs.folder is None:
        return replace(inputs, packed=tuple(files))
    raise InvalidInput(
        f"{len(files):,} files are too many to go along beside a folder.",
        "Put them into the folder, where its .gitignore does not name them, or leave --folder out.",
    )


def checked_inputs(folder: Path | None, named: Sequence[tuple[Path, str]]) -> RequestInputs:
    """Of the files, each with its name for the task."""
    if folder is not None and not folder.is_dir():
        raise InvalidInput(
            f"--folder {printable(str(folder))} is no directory.",
            "Name a directory; a single file goes along with --file.",
        )
    files = tuple(_input_file(*each) for each in named)
    paths = [file.path for file in files]
    for path in paths:
        if paths.count(path) > 1:
            raise InvalidInput(
                f"Two files would be {printable(path)} for the task.",
                "Give one of them another name: --file SOURCE:NAME.",
            )
    return RequestInputs(folder, files)


def supposed(spec: TaskSpec, inputs: RequestInputs) -> TaskSpec:
    """The spec with all that would go along, under its names and sizes; nothing is read or sent."""
    folder = BlobRef(_NO_HASH, 0) if inputs.folder is not None or inputs.packed else None
    files = tuple(
        NamedFile(file.path, BlobRef(_NO_HASH, file.source.stat().st_size)) for file in inputs.files
    )
    is_small = len(inputs.items) <= _INLINE_BYTES
    items = Value(inputs.items) if is_small else Value(blob=BlobRef(_NO_HASH, len(inputs.items)))
    return _with(spec, folder, files, items if inputs.items else None)


def uploaded(potluck: "Potluck", spec: TaskSpec, inputs: RequestInputs, screen: Screen) -> TaskSpec:
    """The spec with all that goes along, once the server has it."""
    if inputs == RequestInputs():
        return spec
    with resumable(screen, " before it was submitted") as line:
        folder = None if inputs.folder is None else _folder(potluck, inputs.folder, screen, line)
        if inputs.packed:
            folder = _packed(potluck, inputs.packed, screen, line)
        files = tuple(_file(potluck, file, screen, line) for file in inputs.files)
        items = _items(potluck, inputs.items, line) if inputs.items else None
    return _with(spec, folder, files, items)


def _with(
    spec: TaskSpec, folder: BlobRef | None, files: tuple[NamedFile, ...], items: Value | None
) -> TaskSpec:
    """What a function's items are given its caller has said already."""
    if isinstance(spec, FunctionSpec):
        return replace(spec, folder=folder, files=files)
    return replace(spec, folder=folder, files=files, inputs=items)


def _items(potluck: "Potluck", packed: bytes, line: LiveLine) -> Value:
    if len(packed) <= _INLINE_BYTES:
        return Value(packed)
    line.say("uploading the items")
    return Value(blob=potluck.files.upload_bytes(packed))


def _packed(
    potluck: "Potluck", files: Sequence[InputFile], screen: Screen, line: LiveLine
) -> BlobRef:
    what = show_count(len(files), "file")
    line.say(f"packing {what}")
    told = telling(screen, line, f"uploading {what}")
    blob = potluck.files.upload_packed({file.path: file.source for file in files}, told)
    return _told(blob, what, screen)


def _folder(potluck: "Potluck", folder: Path, screen: Screen, line: LiveLine) -> BlobRef:
    name = f"{folder.resolve().name}/"
    line.say(f"packing {printable(name)}")
    told = telling(screen, line, f"uploading {name}")
    blob = potluck.files.upload_folder(folder, told)
    return _told(blob, str(folder), screen)


def _file(potluck: "Potluck", file: InputFile, screen: Screen, line: LiveLine) -> NamedFile:
    line.say(f"reading {printable(file.source.name)}")
    told = telling(screen, line, f"uploading {file.source.name}")
    blob = potluck.files.upload(file.source, told)
    return NamedFile(file.path, _told(blob, str(file.source), screen))


def _told(blob: BlobRef, source: str, screen: Screen) -> BlobRef:
    if screen.json:
        screen.emit({"event": "uploaded", "source": source, **msgspec.to_builtins(blob)})
    return blob


def _input_file(file: Path, name: str) -> InputFile:
    source = printable(str(file))
    if file.is_dir():
        raise InvalidInput(f"--file {source} is a directory.", "Send it along with --folder.")
    if not file.is_file():
        raise InvalidInput(
            f"There is no file {source}.",
            "Write it like --file data.csv, or"
            " --file here.csv:there.csv if the task should find it under another name.",
        )
    path = PurePosixPath(name).as_posix()
    if not is_path(path):
        raise InvalidInput(
            f"--file {source}: {printable(name)!r} is no place in the task's directory.",
            "Say a relative path, such as data/train.csv.",
        )
    return InputFile(file, path)
