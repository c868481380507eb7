"""Makes what a sandbox left behind ours, or refuses it.

Afterwards everything belongs to the provider's own user, nobody else can change it, every sandbox
can read it, and there is no device, socket, pipe, set-user-id bit or link to the outside in it.
Nothing that a sandbox started is alive when this runs, so nothing changes under it.
"""

import os
import posixpath
import stat
from pathlib import Path

from potluck.provider.prepare.measure import Size, entries, measure
from potluck.provider.prepare.outcome import failed
from potluck.provider.sandbox.driver import ENVIRONMENT

_READABLE = 0o444
_KEPT = 0o755


def seal(directory: Path, interpreters: frozenset[str]) -> Size:
    """Its size; raises PrepareFailed. `interpreters` are paths that links may name inside."""
    _make_ours(directory, directory.lstat())
    for path, status in entries(directory):
        _check(path, path.relative_to(directory).as_posix(), status.st_mode, interpreters)
        _make_ours(path, status)
    return measure(directory)


def _check(path: Path, name: str, mode: int, interpreters: frozenset[str]) -> None:
    if stat.S_ISLNK(mode):
        _check_link(name, str(path.readlink()), interpreters)
    elif not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise failed(f"The environment contains {name!r}, which is neither file nor directory.")
    elif mode & (stat.S_ISUID | stat.S_ISGID):
        raise failed(f"The environment contains {name!r}, which would change its user when run.")


def _check_link(name: str, target: str, interpreters: frozenset[str]) -> None:
    if target in interpreters:
        return
    inside = posixpath.normpath(posixpath.join(ENVIRONMENT, posixpath.dirname(name), target))
    if not inside.startswith(f"{ENVIRONMENT}/"):
        raise failed(f"The environment contains {name!r}, a link to the outside.")


def _make_ours(path: Path, status: os.stat_result) -> None:
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        os.lchown(path, os.geteuid(), os.getegid())
    if stat.S_ISDIR(status.st_mode):
        path.chmod(_KEPT)
    elif not stat.S_ISLNK(status.st_mode):
        path.chmod((stat.S_IMODE(status.st_mode) | _READABLE) & _KEPT)
