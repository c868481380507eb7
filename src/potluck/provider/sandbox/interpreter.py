"""The Python inside the sandbox: the one that runs the provider, never its environment.

Under /usr it is there anyway. Elsewhere (a home directory, /opt) its programs and libraries are
mounted at /opt/python, so that neither the path nor a neighbour of it appears inside.
"""

import sys
from pathlib import Path

from msgspec import Struct

from potluck.provider.sandbox.driver import Mount

_INSIDE = "/opt/python"
_SHOWN = ("bin", "lib", "lib64")


class Interpreter(Struct, frozen=True):
    """Where it is inside, and what must be mounted and set for it."""

    path: str
    mounts: tuple[Mount, ...] = ()
    environment: dict[str, str] = {}


def interpreters(prefix: Path) -> tuple[Interpreter, ...]:
    """Ways to start the Python that is installed at `prefix`, the plainest first."""
    prefix = prefix.resolve()
    if prefix.is_relative_to("/usr"):
        return (Interpreter(str(prefix / "bin" / _program(prefix))),)
    mounts = tuple(
        Mount(prefix / name, f"{_INSIDE}/{name}") for name in _SHOWN if (prefix / name).is_dir()
    )
    plain = Interpreter(f"{_INSIDE}/bin/{_program(prefix)}", mounts)
    if not any((prefix / "lib").glob("libpython3*.so*")):
        return (plain,)
    # A shared libpython may be searched for at the path where it was built.
    with_path = Interpreter(plain.path, mounts, {"LD_LIBRARY_PATH": f"{_INSIDE}/lib"})
    return (plain, with_path)


def _program(prefix: Path) -> str:
    names = (f"python{sys.version_info.major}.{sys.version_info.minor}", "python3", "python")
    return next((name for name in names if (prefix / "bin" / name).exists()), "python3")
