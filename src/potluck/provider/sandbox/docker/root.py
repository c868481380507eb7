"""Our own minimal image, and how `container_init` starts in any image.

Our image contains links and empty directories; their content is mounted at run time, as in bwrap's
root, so no registry is needed. Its name is a hash of its content, so another host, or another
version of this file, gets another image.

Other images may have no Python, or one for another libc. So `container_init` brings its own: the
provider's interpreter, its library, and the loader with the libraries next to it are mounted under
a path that no image uses, and the loader is started explicitly.
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
from potluck.provider.sandbox.docker import container_init, container_proxy
from potluck.provider.sandbox.driver import WORK, Mount

LABEL = "potluck.root"
_OURS = "/.potluck"
_DIRECTORIES = ("usr", "etc", "etc/ssl", "etc/ssl/certs", "tmp", WORK[1:])
_LOADER = re.compile(r"(/\S*/ld-(?:linux|musl)[^/\s]*|/\S*/ld64?[^/\s]*\.so\S*)$", re.MULTILINE)


class InitCommand(Struct, frozen=True):
    """The command of the init process, and the mounts that it needs."""

    words: tuple[str, ...]
    mounts: tuple[Mount, ...]
    environment: dict[str, str] = {}
    packages: tuple[str, ...] = ()  # directories with Python packages of the node


def build_own_image() -> tuple[str, bytes]:
    """Returns its name and its content as a tar archive."""
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
        python.packages,
    )


@cache
def init_on_any_image(prefix: Path = Path(sys.base_prefix)) -> InitCommand:
    """Raises SandboxUnavailable if the loader of this Python cannot be found."""
    loader = _loader(Path("/proc/self/maps").read_text())
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    program, library = prefix / "bin" / name, prefix / "lib"
    # A standalone Python may have its own shared libraries, so all of lib; of /usr only Python's.
    is_system = prefix.resolve() == Path("/usr")
    mounted = Path("lib") / name if is_system else Path("lib")
    libraries = f"{_OURS}/python/lib:{_OURS}/lib"
    return InitCommand(
        (
            *(f"{_OURS}/lib/{loader.name}", "--library-path", libraries),
            *(f"{_OURS}/python/bin/{name}", "-I", "-S", f"{_OURS}/container_init.py"),
        ),
        (
            Mount(loader.parent, f"{_OURS}/lib"),
            Mount(program.resolve(), f"{_OURS}/python/bin/{name}"),
            Mount(library.parent / mounted, f"{_OURS}/python/{mounted}"),
            *_programs(),
        ),
    )


def _programs() -> tuple[Mount, ...]:
    return (
        Mount(Path(str(container_init.__file__)), f"{_OURS}/container_init.py"),
        Mount(Path(str(container_proxy.__file__)), f"{_OURS}/container_proxy.py"),
        Mount(Path(str(exec_env.__file__)), f"{_OURS}/exec_env.py"),
    )


def _loader(maps: str) -> Path:
    match = _LOADER.search(maps)
    if match is None:
        raise SandboxUnavailable(
            "The dynamic loader of this system was not found, so this node cannot run images.",
            "Run the provider with the system's own Python.",
        )
    return Path(match[1]).resolve()
