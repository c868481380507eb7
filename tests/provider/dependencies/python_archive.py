"""A Python to fetch: that of the tests, packed as uv expects it, which claims a later release."""

import hashlib
import io
import json
import platform
import sys
import sysconfig
import tarfile
from functools import cache
from pathlib import Path

MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"
RELEASE = f"{MINOR}.99"
_LEFT_OUT = ("-packages", "__pycache__", "/test", "/idlelib", "/tkinter", "/lib2to3", "/ensurepip")
_LATER = f"""
def python_version():
    return {RELEASE!r}
"""


def list_of(url: str, archive: bytes) -> bytes:
    """A list in uv's format with one Python, found at `url`."""
    major, minor, patch = map(int, RELEASE.split("."))
    entry = {
        "name": "cpython",
        "arch": {"family": platform.machine(), "variant": None},
        "os": "linux",
        "libc": "gnu",
        "major": major,
        "minor": minor,
        "patch": patch,
        "prerelease": "",
        "url": url,
        "sha256": hashlib.sha256(archive).hexdigest(),
        "variant": None,
        "build": "20260101",
    }
    key = f"cpython-{RELEASE}-linux-{platform.machine()}-gnu"
    return json.dumps({key: entry}).encode()


@cache
def pack_python(other_program: str = "") -> bytes:
    packed = io.BytesIO()
    prefix, name = Path(sys.base_prefix), f"python{MINOR}"
    library = Path(sysconfig.get_path("stdlib"))
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        program = Path(other_program or prefix / "bin" / name).resolve()
        archive.add(program, f"python/bin/{name}")
        for path in sorted(library.rglob("*")):
            relative = f"/{path.relative_to(library)}"
            if path.is_file() and not path.is_symlink() and not _is_left_out(relative):
                archive.add(path, f"python/lib/{name}{relative}", recursive=False)
        content = (library / "platform.py").read_bytes() + _LATER.encode()
        entry = tarfile.TarInfo(f"python/lib/{name}/platform.py")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _is_left_out(relative: str) -> bool:
    return relative == "/platform.py" or any(part in relative for part in _LEFT_OUT)
