"""`potluck cp`: copies files of tasks and volumes."""

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.tasks.resolve_task import resolve_task_to_read
from potluck.cli.terminal.live_line import Progress, report_progress, resumable_transfer
from potluck.cli.terminal.screen import Screen, printable
from potluck.model.blob import NamedFile, check_volume_name, is_path
from potluck.model.error import InvalidInput, NotFound
from potluck.model.units import show_bytes, show_count

if TYPE_CHECKING:
    from potluck.consumer import Potluck

# A single letter is a drive of Windows.
_REMOTE = re.compile(r"((?:0x[0-9a-fA-F]{40}/)?[^/:\\]{2,}):(.*)")


def cp(
    words: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE... TARGET", help="TASK:PATH, VOLUME[@VERSION]:PATH, files."),
    ],
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Copy files of a task or a volume here, or files into a volume.

    `potluck cp TASK:model.pt .` copies a file that a task left, `potluck cp FILE VOLUME:` adds a
    file to a volume as a new version, `potluck cp VOLUME:PATH DIR` copies from a volume. A single
    file gets the target's name, unless that is a directory or ends with a slash.
    """
    screen = Screen(json)
    *sources, target = words
    if not sources:
        raise InvalidInput("There is no target.", "Write it like `potluck cp TASK:model.pt .`.")
    into = None if Path(target).exists() else _REMOTE.fullmatch(target)
    with connect(server) as potluck, resumable_transfer(screen) as line:
        progress = report_progress(screen, line, "Copying")
        if into is not None:
            put = potluck.volumes.add(
                into[1], _named(into[1], into[2], [Path(source) for source in sources]), progress
            )
            copied = [Path(source) for source in sources]
            is_first = len(put.volume.versions) == 1
            what = f"Made the volume {into[1]}" if is_first else f"{into[1]} has a new version"
            note = f"{what}; sent {show_bytes(put.sent_bytes)}."
            result: dict[str, object] = {
                "volume": put.volume.volume,
                "version": put.volume.versions[0],
            }
        else:
            is_file = len(sources) == 1 and not target.endswith("/") and not Path(target).is_dir()
            fetch = partial(_fetch, potluck, screen, Path(target), is_file, progress)
            copied = [place for source in sources for place in fetch(source)]
            note = _copied(copied, target)
            result = {"files": [str(place) for place in copied]}
    if json:
        screen.emit(result)
    else:
        screen.out.line(note)


def _copied(places: list[Path], target: str) -> str:
    if len(places) == 1:
        return f"Copied {printable(str(places[0]))}."
    # `.` and `..` would look like the end of the sentence.
    where = Path(target).resolve() if target.endswith(".") else target
    return f"Copied {show_count(len(places), 'file')} to {printable(str(where))}."


def _named(volume: str, path: str, sources: list[Path]) -> dict[str, Path]:
    """Paths in the volume: a folder if there are several sources or a slash at the end."""
    check_volume_name(volume)
    named: dict[str, Path] = {}
    for source in sources:
        if not source.is_file():
            raise InvalidInput(
                f"{source} is not a file.", "Put a folder with `potluck volume put NAME DIR`."
            )
        is_folder = not path or path.endswith("/") or len(sources) > 1
        name = "/".join(filter(None, (path.strip("/"), source.name))) if is_folder else path
        if not is_path(name):
            raise InvalidInput(f"{name!r} is not a valid path in a volume.", "Choose another.")
        named[name] = source
    return named


def _fetch(
    potluck: "Potluck", screen: Screen, target: Path, is_file: bool, progress: Progress, source: str
) -> list[Path]:
    """With `is_file` a single file becomes `target`; a folder is copied into it anyway."""
    match = _REMOTE.fullmatch(source)
    if match is None:
        raise InvalidInput(
            f"{printable(source)!r} is neither TASK:PATH nor VOLUME:PATH.",
            "One of the two sides must be a task or a volume.",
        )
    name, path = match[1], match[2]
    volume, at, version = name.partition("@")
    is_volume = any(known.name == volume for known in potluck.volumes.list() if known.is_own)
    if is_volume or at or "/" in volume:
        wanted_version = version if at else None
        return list(
            potluck.volumes.fetch(volume, target, path, wanted_version, progress, as_file=is_file)
        )
    task_id = resolve_task_to_read(potluck, name, screen)
    files = potluck.files.of_task(task_id).files
    wanted = _matching(files, path.strip("/"))
    if not wanted:
        raise NotFound(
            f"The task left no file {printable(path)!r}.",
            f"`potluck files {name}` lists them; only files in $POTLUCK_OUTPUT are kept.",
        )
    if is_file and len(wanted) == 1 and any(file.path == path.strip("/") for file in files):
        named = NamedFile(target.name, wanted[0].blob)
        return potluck.files.bring([named], target.parent, task_id, progress)
    return potluck.files.bring(wanted, target, task_id, progress)


def _matching(files: list[NamedFile], path: str) -> list[NamedFile]:
    """The file of this path, or those of this folder, named as in the folder above it."""
    if not path:
        return files
    above = path.rpartition("/")[0]
    return [
        NamedFile(file.path.removeprefix(f"{above}/") if above else file.path, file.blob)
        for file in files
        if file.path == path or file.path.startswith(f"{path}/")
    ]
