"""Reproducible archives of folders: the same files always give the same bytes.

Files that a `.gitignore` excludes, `.git` and bytecode are left out. Archives have only files and
directories, since a node unpacks nothing else: a link to a file of the folder is packed as that
file. Everything that cannot be packed is reported in one error, before anything is packed.
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
_MOST_REPORTED = 10

# Directories from the top down, each with the rules of its .gitignore.
_Rules = tuple[tuple[Path, GitIgnoreSpec], ...]


def list_files(directory: Path) -> list[Path]:
    """The files that would be packed."""
    return [path for path in _below(directory, ()) if path.is_file()]


def pack_files(named: Mapping[str, Path], archive: Path) -> None:
    """Packs single files; the keys are their names in the archive."""
    try:
        with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as packed:
            for name in sorted({str(parent) for path in named for parent in _parents(path)}):
                _add_directory(packed, name)
            for name, path in sorted(named.items()):
                _add_file(packed, path, name)
    except OSError as error:
        raise InvalidInput(
            f"{error.filename or 'A file'} cannot be packed: {error.strerror or error}.",
            "Check that you may read it, and that nothing writes to it.",
        ) from error


def _parents(path: str) -> list[PurePosixPath]:
    return list(PurePosixPath(path).parents)[:-1]


def pack_folder(directory: Path, archive: Path) -> None:
    """Packs a folder; the archive may be inside it, and is then left out."""
    if not directory.is_dir():
        raise InvalidInput(f"{directory} is not a directory.", "Choose a folder.")
    try:
        paths = list(_below(directory, ()))
        _check(paths, directory)
        with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as packed:
            for path in paths:
                if path != archive and path.resolve() != archive.resolve():
                    _add(packed, path, directory)
    except OSError as error:
        raise InvalidInput(
            f"The folder {directory} cannot be packed: {error.strerror or error}.",
            "Check that you may read it, and that nothing writes to it.",
        ) from error


def _below(directory: Path, rules: _Rules) -> Iterator[Path]:
    """All paths to pack, in order."""
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
    """As in git, the last matching rule of the deepest directory decides."""
    is_ignored = False
    for directory, spec in rules:
        name = path.relative_to(directory).as_posix()
        match = spec.check_file(f"{name}/" if is_directory else name).include
        is_ignored = is_ignored if match is None else match
    return is_ignored


def _check(paths: list[Path], top: Path) -> None:
    mistakes = [f"{str(path)!r} {why}" for path in paths if (why := describe_mistake(path, top))]
    if not mistakes:
        return
    more = len(mistakes) - _MOST_REPORTED
    rest = f"; and {more} more" if more > 0 else ""
    raise InvalidInput(
        f"The folder cannot be packed: {'; '.join(mistakes[:_MOST_REPORTED])}{rest}.",
        f"Replace links by copies, rename the files, or exclude them in {_IGNORE}.",
    )


def describe_mistake(path: Path, top: Path) -> str:
    """Why a node would not unpack the path; empty if it would."""
    name = path.relative_to(top).as_posix()
    if not is_path(name):
        return "has an invalid or too long name"
    if not path.is_symlink():
        return "" if path.is_file() or path.is_dir() else "is neither a file nor a directory"
    target = Path(os.path.realpath(path))  # works for a link to itself too
    if not target.is_relative_to(top.resolve()):
        return "is a link to outside the folder"
    if target.is_dir():
        return "is a link to a directory"
    return "" if target.is_file() else "is a link to nothing"


def _add(packed: tarfile.TarFile, path: Path, top: Path) -> None:
    """Stores no owner and no time, and of the mode only the executable bit."""
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
