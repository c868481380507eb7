"""A folder as one archive: the same files give the same bytes, whoever packs them and when.

What `.gitignore` names stays behind, in every directory that has one, and so do `.git` and
bytecode. Archives have files and directories only, since nothing else is unpacked on a node: a link
to a file of the folder goes along as that file. All that can not go along is told at once, before
anything is packed.
"""

import os
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from pathspec import GitIgnoreSpec

from potluck.model.blob import is_path
from potluck.model.error import InvalidInput

_ALWAYS_LEFT_OUT = {".git", "__pycache__"}
_IGNORE = ".gitignore"
_MOST_TOLD = 10

# Directories from the top down, each with what it leaves out.
_Rules = tuple[tuple[Path, GitIgnoreSpec], ...]


def listed(directory: Path) -> list[Path]:
    """The files that would go along."""
    return [path for path in _below(directory, ()) if path.is_file()]


def pack_files(named: Mapping[str, Path], archive: Path) -> None:
    """The same of single files, each under the name that it is to have."""
    try:
        with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as packed:
            for name in sorted({str(each) for path in named for each in _above(path)}):
                _add_directory(packed, name)
            for name, path in sorted(named.items()):
                _add_file(packed, path, name)
    except OSError as error:
        raise InvalidInput(
            f"{error.filename or 'A file'} can not be packed: {error.strerror or error}.",
            "Check who may read it, and that nobody writes to it.",
        ) from error


def _above(path: str) -> list[PurePosixPath]:
    return list(PurePosixPath(path).parents)[:-1]


def pack_folder(directory: Path, archive: Path) -> None:
    """Writes the archive; it may lie in the folder itself, and is then left out."""
    if not directory.is_dir():
        raise InvalidInput(f"{directory} is no directory.", "Name a folder.")
    try:
        paths = list(_below(directory, ()))
        _check(paths, directory)
        with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as packed:
            for path in paths:
                if path != archive and path.resolve() != archive.resolve():
                    _add(packed, path, directory)
    except OSError as error:
        raise InvalidInput(
            f"The folder {directory} can not be packed: {error.strerror or error}.",
            "Check who may read it, and that nobody writes to it.",
        ) from error


def _below(directory: Path, rules: _Rules) -> Iterator[Path]:
    """Everything that goes along, in order."""
    ignore = directory / _IGNORE
    if ignore.is_file():
        lines = ignore.read_text("utf-8", "replace").splitlines()
        rules = (*rules, (directory, GitIgnoreSpec.from_lines(lines)))
    for path in sorted(directory.iterdir(), key=lambda path: path.name):
        is_directory = path.is_dir() and not path.is_symlink()
        if path.name in _ALWAYS_LEFT_OUT or _is_ignored(path, is_directory, rules):
            continue
        yield path
        if is_directory:
            yield from _below(path, rules)


def _is_ignored(path: Path, is_directory: bool, rules: _Rules) -> bool:
    """As git decides: the last word counts, and the deepest directory speaks last."""
    ignored = False
    for directory, spec in rules:
        name = path.relative_to(directory).as_posix()
        said = spec.check_file(f"{name}/" if is_directory else name).include
        ignored = ignored if said is None else said
    return ignored


def _check(paths: list[Path], top: Path) -> None:
    mistakes = [f"{str(path)!r} {why}" for path in paths if (why := _mistake(path, top))]
    if not mistakes:
        return
    more = len(mistakes) - _MOST_TOLD
    rest = f"; and {more} more" if more > 0 else ""
    raise InvalidInput(
        f"Not all of the folder can go along: {'; '.join(mistakes[:_MOST_TOLD])}{rest}.",
        f"Put copies in the place of links, rename, or name them in {_IGNORE}.",
    )


def _mistake(path: Path, top: Path) -> str:
    """Why no node would unpack it, if so."""
    name = path.relative_to(top).as_posix()
    if not is_path(name):
        return "has a name with characters that it may not have, or one that is too long"
    if not path.is_symlink():
        return "" if path.is_file() or path.is_dir() else "is no file and no directory"
    target = Path(os.path.realpath(path))  # also of one that leads to itself
    if not target.is_relative_to(top.resolve()):
        return "is a link that leads out of it"
    if target.is_dir():
        return "is a link to a directory"
    return "" if target.is_file() else "is a link to nothing"


def _add(packed: tarfile.TarFile, path: Path, top: Path) -> None:
    """Nothing of the machine or the moment: no owner, no time, and of the mode what matters."""
    name = path.relative_to(top).as_posix()
    if path.is_dir():
        _add_directory(packed, name)
    else:
        _add_file(packed, path, name)


def _add_directory(packed: tarfile.TarFile, name: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    packed.addfile(entry)


def _add_file(packed: tarfile.TarFile, path: Path, name: str) -> None:
    entry = tarfile.TarInfo(name)
    with path.open("rb") as file:
        status = path.stat()
        entry.size, entry.mode = status.st_size, 0o755 if status.st_mode & 0o100 else 0o644
        packed.addfile(entry, file)
