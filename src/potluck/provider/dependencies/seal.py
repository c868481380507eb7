"""Takes over an environment that a sandbox has filled, or refuses it.

Afterwards everything belongs to the provider's user, no other user can change it, every sandbox can
read it, and it contains no devices, sockets, pipes or set-user-id bits. Every link leads, also
through other links, to a path inside or to the sandbox's own interpreter. No process of the sandbox
is alive when this runs, so nothing changes meanwhile.
"""

import os
import stat
from pathlib import Path, PurePosixPath

from potluck.provider.dependencies.directory_size import DirectorySize, entries, measure
from potluck.provider.dependencies.outcome import prepare_failed
from potluck.provider.sandbox.driver import ENVIRONMENT

_READABLE = 0o444
_KEPT = 0o755
# More than any legitimate link needs; ends cycles.
_MOST_STEPS = 64


def seal(directory: Path, interpreters: frozenset[str]) -> DirectorySize:
    """Returns its size; raises PrepareFailed. Links may lead to `interpreters`, paths inside."""
    _make_ours(directory, directory.lstat())
    for path, status in entries(directory):
        _check(directory, path, status.st_mode, interpreters)
        _make_ours(path, status)
    return measure(directory)


def _check(directory: Path, path: Path, mode: int, interpreters: frozenset[str]) -> None:
    name = path.relative_to(directory).as_posix()
    if stat.S_ISLNK(mode):
        if not _stays_inside(directory, path, interpreters):
            raise prepare_failed(f"The environment contains {name!r}, a link that leads out of it.")
    elif not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise prepare_failed(
            f"The environment contains {name!r}, which is neither file nor directory."
        )
    elif mode & (stat.S_ISUID | stat.S_ISGID):
        raise prepare_failed(f"The environment contains {name!r}, which has a set-user-id bit.")


def _stays_inside(directory: Path, link: Path, interpreters: frozenset[str]) -> bool:
    """Resolves the link as the kernel would, step by step; `..` applies to a link's target."""
    position = list(link.parent.relative_to(directory).parts)
    steps = [link.name]
    for _ in range(_MOST_STEPS):
        if not steps:
            return True
        step = steps.pop(0)
        if step == "..":
            if not position:
                return False
            position.pop()
        elif (target := _target(directory.joinpath(*position, step))) is None:
            position.append(step)
        elif target in interpreters:
            return not steps
        else:
            position, further = _follow(position, PurePosixPath(target))
            steps = [*further, *steps]
    return False


def _follow(position: list[str], target: PurePosixPath) -> tuple[list[str], tuple[str, ...]]:
    """The start of a link's target, and the steps from there."""
    if not target.is_absolute():
        return position, target.parts
    if target.is_relative_to(ENVIRONMENT):
        return [], target.relative_to(ENVIRONMENT).parts
    return [], ("..",)


def _target(path: Path) -> str | None:
    """The target of a link; None if it is not a link or does not exist."""
    return str(path.readlink()) if path.is_symlink() else None


def _make_ours(path: Path, status: os.stat_result) -> None:
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        os.lchown(path, os.geteuid(), os.getegid())
    if stat.S_ISDIR(status.st_mode):
        path.chmod(_KEPT)
    elif not stat.S_ISLNK(status.st_mode):
        path.chmod((stat.S_IMODE(status.st_mode) | _READABLE) & _KEPT)
