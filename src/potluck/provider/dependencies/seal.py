"""Makes what a sandbox left behind ours, or refuses it.

Afterwards everything belongs to the provider's own user, nobody else can change it, every sandbox
can read it, and there is no device, socket, pipe or set-user-id bit in it. A link leads, through
whatever other links, to a place inside or to the sandbox's own interpreter. Nothing that a sandbox
started is alive when this runs, so nothing changes under it.
"""

import os
import stat
from pathlib import Path, PurePosixPath

from potluck.provider.dependencies.directory_size import DirectorySize, entries, measure
from potluck.provider.dependencies.outcome import failed
from potluck.provider.sandbox.driver import ENVIRONMENT

_READABLE = 0o444
_KEPT = 0o755
# More than any honest link takes; those that lead round in circles end here.
_MOST_STEPS = 64


def seal(directory: Path, interpreters: frozenset[str]) -> DirectorySize:
    """Its size; raises PrepareFailed. `interpreters` are paths that links may name inside."""
    _make_ours(directory, directory.lstat())
    for path, status in entries(directory):
        _check(directory, path, status.st_mode, interpreters)
        _make_ours(path, status)
    return measure(directory)


def _check(directory: Path, path: Path, mode: int, interpreters: frozenset[str]) -> None:
    name = path.relative_to(directory).as_posix()
    if stat.S_ISLNK(mode):
        if not _stays_inside(directory, path, interpreters):
            raise failed(f"The environment contains {name!r}, a link to the outside.")
    elif not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise failed(f"The environment contains {name!r}, which is neither file nor directory.")
    elif mode & (stat.S_ISUID | stat.S_ISGID):
        raise failed(f"The environment contains {name!r}, which would change its user when run.")


def _stays_inside(directory: Path, link: Path, interpreters: frozenset[str]) -> bool:
    """Walks the link as the kernel would, step by step; `..` after a link is where that led to."""
    here = list(link.parent.relative_to(directory).parts)
    steps = [link.name]
    for _ in range(_MOST_STEPS):
        if not steps:
            return True
        step = steps.pop(0)
        if step == "..":
            if not here:
                return False
            here.pop()
        elif (target := _target(directory.joinpath(*here, step))) is None:
            here.append(step)
        elif target in interpreters:
            return not steps
        else:
            here, further = _follow(here, PurePosixPath(target))
            steps = [*further, *steps]
    return False


def _follow(here: list[str], target: PurePosixPath) -> tuple[list[str], tuple[str, ...]]:
    """Where a link's target begins, and the steps from there."""
    if not target.is_absolute():
        return here, target.parts
    if target.is_relative_to(ENVIRONMENT):
        return [], target.relative_to(ENVIRONMENT).parts
    return [], ("..",)


def _target(path: Path) -> str | None:
    """Where a link leads; None for what is no link, or not there."""
    return str(path.readlink()) if path.is_symlink() else None


def _make_ours(path: Path, status: os.stat_result) -> None:
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        os.lchown(path, os.geteuid(), os.getegid())
    if stat.S_ISDIR(status.st_mode):
        path.chmod(_KEPT)
    elif not stat.S_ISLNK(status.st_mode):
        path.chmod((stat.S_IMODE(status.st_mode) | _READABLE) & _KEPT)
