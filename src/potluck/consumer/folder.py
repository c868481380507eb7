"""A folder as one archive: the same files give the same bytes, whoever packs them and when.

What `.gitignore` names stays behind, in every directory that has one, and so do `.git` and
bytecode. Archives have files and directories only, since nothing else is unpacked on a node: a link
to a file of the folder goes along as that file, and any other link is a mistake that is said.
"""

import tarfile
from collections.abc import Iterator
from pathlib import Path

from pathspec import GitIgnoreSpec

from potluck.model.error import InvalidInput

_ALWAYS_LEFT_OUT = {".git", "__pycache__"}
_IGNORE = ".gitignore"

# Directories from the top down, each with what it leaves out.
_Rules = tuple[tuple[Path, GitIgnoreSpec], ...]


def pack_folder(directory: Path, archive: Path) -> None:
    """Writes the archive; it may lie in the folder itself, and is then left out."""
    if not directory.is_dir():
        raise InvalidInput(f"{directory} is no directory.", "Name a folder.")
    try:
        with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as packed:
            for path in _below(directory, directory, ()):
                if path != archive and path.resolve() != archive.resolve():
                    _add(packed, path, directory)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "a name in it is not valid UTF-8"
        raise InvalidInput(
            f"The folder {directory} can not be packed: {why or error}.",
            "Check who may read it, and that nobody writes to it.",
        ) from error


def _below(directory: Path, top: Path, rules: _Rules) -> Iterator[Path]:
    """Everything that goes along, in order."""
    ignore = directory / _IGNORE
    if ignore.is_file():
        lines = ignore.read_text("utf-8", "replace").splitlines()
        rules = (*rules, (directory, GitIgnoreSpec.from_lines(lines)))
    for path in sorted(directory.iterdir(), key=lambda path: path.name):
        is_directory = path.is_dir() and not path.is_symlink()
        if path.name in _ALWAYS_LEFT_OUT or _is_ignored(path, is_directory, rules):
            continue
        yield _checked(path, top)
        if is_directory:
            yield from _below(path, top, rules)


def _is_ignored(path: Path, is_directory: bool, rules: _Rules) -> bool:
    """As git decides: the last word counts, and the deepest directory speaks last."""
    ignored = False
    for directory, spec in rules:
        name = path.relative_to(directory).as_posix()
        said = spec.check_file(f"{name}/" if is_directory else name).include
        ignored = ignored if said is None else said
    return ignored


def _checked(path: Path, top: Path) -> Path:
    if path.is_symlink():
        target = path.resolve()
        if target.is_file() and target.is_relative_to(top.resolve()):
            return path
    elif path.is_file() or path.is_dir():
        return path
    raise InvalidInput(
        f"{path} is no file and no directory, and nothing else can go along.",
        f"Put a copy in its place, or name it in {_IGNORE}.",
    )


def _add(packed: tarfile.TarFile, path: Path, top: Path) -> None:
    """Nothing of the machine or the moment: no owner, no time, and of the mode what matters."""
    entry = tarfile.TarInfo(path.relative_to(top).as_posix())
    if path.is_dir():
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        packed.addfile(entry)
        return
    with path.open("rb") as file:
        status = path.stat()
        entry.size, entry.mode = status.st_size, 0o755 if status.st_mode & 0o100 else 0o644
        packed.addfile(entry, file)
