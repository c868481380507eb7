"""What a container stands on: an image made from nothing, and `first` in whatever image it is.

The image holds links and empty directories; what is in them is mounted when it runs, the same as
in bwrap's root, so that no registry is needed for it. It is named by its content: another host, or
another version of this file, makes another.

In somebody else's image there may be no Python, or one for another libc. So `first` brings its own:
the interpreter that runs the provider, its library, and the loader with the libraries beside it,
mounted where no image has anything, and started by naming the loader.
"""

import hashlib
import io
import re
import sys
import tarfile
from functools import cache
from pathlib import Path

from msgspec import Struct

from potluck.model.error import SandboxUnavailable
from potluck.provider.sandbox import exec_env
from potluck.provider.sandbox.bubblewrap.root_filesystem import Python, base_links, base_mounts
from potluck.provider.sandbox.docker import container_init
from potluck.provider.sandbox.driver import WORK, Mount

LABEL = "potluck.root"
_OURS = "/.potluck"
_DIRECTORIES = ("usr", "etc", "etc/ssl", "etc/ssl/certs", "tmp", WORK[1:])
_LOADER = re.compile(r"(/\S*/ld-(?:linux|musl)[^/\s]*|/\S*/ld64?[^/\s]*\.so\S*)$", re.MULTILINE)


class InitCommand(Struct, frozen=True):
    """How the first process is started, and what must be mounted for it."""

    words: tuple[str, ...]
    mounts: tuple[Mount, ...]
    environment: dict[str, str] = {}


def build_own_image() -> tuple[str, bytes]:
    """Its name, and the archive that it is made from."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in _DIRECTORIES:
            tar.addfile(_entry(path, tarfile.DIRTYPE))
        for path, target in base_links().items():
            tar.addfile(_entry(path.lstrip("/"), tarfile.SYMTYPE, target))
    content = archive.getvalue()
    return f"potluck-{hashlib.sha256(content).hexdigest()[:20]}", content


def _entry(path: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.type, entry.mode, entry.linkname = kind, 0o755, target
    return entry


def init_on_own_image(python: Python) -> InitCommand:
    return InitCommand(
        (python.path, "-I", "-S", f"{_OURS}/container_init.py"),
        (*base_mounts(python), *_programs()),
        python.environment,
    )


@cache
def init_on_any_image(prefix: Path = Path(sys.base_prefix)) -> InitCommand:
    """Raises SandboxUnavailable where it can not be told how this Python is loaded."""
    loader = _loader(Path("/proc/self/maps").read_text())
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    program, library = prefix / "bin" / name, prefix / "lib"
    # All of a Python that stands alone, which may have libraries of its own; of the system's only
    # what is Python's.
    is_system = prefix.resolve() == Path("/usr")
    shown = Path("lib") / name if is_system else Path("lib")
    libraries = f"{_OURS}/python/lib:{_OURS}/lib"
    return InitCommand(
        (
            *(f"{_OURS}/lib/{loader.name}", "--library-path", libraries),
            *(f"{_OURS}/python/bin/{name}", "-I", "-S", f"{_OURS}/container_init.py"),
        ),
        (
            Mount(loader.parent, f"{_OURS}/lib"),
            Mount(program.resolve(), f"{_OURS}/python/bin/{name}"),
            Mount(library.parent / shown, f"{_OURS}/python/{shown}"),
            *_programs(),
        ),
    )


def _programs() -> tuple[Mount, ...]:
    return (
        Mount(Path(str(container_init.__file__)), f"{_OURS}/container_init.py"),
        Mount(Path(str(exec_env.__file__)), f"{_OURS}/exec_env.py"),
    )


def _loader(maps: str) -> Path:
    found = _LOADER.search(maps)
    if found is None:
        raise SandboxUnavailable(
            "It can not be told what loads programs on this system, so images can not be run.",
            "Run the provider with the system's own Python.",
        )
    return Path(found[1]).resolve()
