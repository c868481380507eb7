"""The 0700 directory of PostgreSQL's Unix socket.

It is `run` below the cluster's directory. The path of a socket is limited to about a hundred bytes;
if it is longer, `run` is a link to a new directory in the system's temporary one.
"""

import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

SOCKET_NAME = ".s.PGSQL.5432"
_PATH_LIMIT_BYTES = 107 if sys.platform == "linux" else 103
_PREFIX = "potluck-postgres-"


def make_socket_directory(directory: Path) -> Path:
    """Makes an empty directory; removes the one of an earlier, killed server."""
    remove_socket_directory(directory)
    run = directory / "run"
    if _fits(run):
        run.mkdir(mode=0o700)
        return run
    short = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_short_parent()))
    run.symlink_to(short)
    return short


def remove_socket_directory(directory: Path) -> None:
    run = directory / "run"
    if run.is_symlink():
        _remove_files(run.readlink())
        run.unlink()
    elif run.exists():
        shutil.rmtree(run)


def _fits(directory: Path) -> bool:
    return len(str(directory / SOCKET_NAME).encode()) <= _PATH_LIMIT_BYTES


def _short_parent() -> Path:
    chosen = Path(tempfile.gettempdir())
    return chosen if _fits(chosen / (_PREFIX + "12345678")) else Path("/tmp")  # noqa: S108


def _remove_files(short: Path) -> None:
    # By name and not recursively: in a world-writable directory another user may have made one of
    # this name meanwhile.
    with suppress(OSError):
        for name in (SOCKET_NAME, f"{SOCKET_NAME}.lock"):
            (short / name).unlink(missing_ok=True)
        short.rmdir()
