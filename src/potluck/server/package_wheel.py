"""The package that this server runs, as a wheel for others to install: Potluck is on no index yet.

It is put together from the installed package, whether that came from a wheel or is a checkout, and
needs no build tools. The same code gives the same bytes on every machine: names are sorted, times
are fixed, and nothing is compressed, since compressors differ. The version ends with a mark of the
content, such as 0.1.0+h3f2a9c0b71d4: installers leave a package alone that is there in the same
version, and the code of a pool may change between two versions.
"""

import base64
import hashlib
import io
import os
import stat
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import structlog
from msgspec import Struct

import potluck
from potluck.wire.package import Package

log = structlog.get_logger()

_NAME: Final = "potluck"
_TAG: Final = "py3-none-any"
# What the package is made of. Whatever else lies about in a checkout is nobody's business.
_SUFFIXES: Final = frozenset(
    (".cl", ".css", ".html", ".js", ".mako", ".py", ".sql", ".svg", ".toml", ".typed")
)
_WHEEL: Final = f"Wheel-Version: 1.0\nGenerator: potluck\nRoot-Is-Purelib: true\nTag: {_TAG}\n"
_LONG_AGO: Final = (1980, 1, 1, 0, 0, 0)  # the first moment that a zip can name
_MODE: Final = (stat.S_IFREG | 0o644) << 16
_MARK_DIGITS: Final = 12


class OwnWheel(Struct, frozen=True):
    package: Package
    data: bytes


def own_wheel() -> OwnWheel | None:
    """None where the code was never installed, and so nobody knows what it depends on."""
    try:
        return assembled(distribution(_NAME), Path(potluck.__file__).parent)
    except (PackageNotFoundError, OSError, UnicodeDecodeError) as error:
        log.warning("this server has no package to hand out", error=str(error))
        return None


def assembled(installed: Distribution, folder: Path) -> OwnWheel:
    """Of the code in the folder, with what its installation says about it."""
    code = {f"{_NAME}/{name}": data for name, data in _code(folder)}
    said = dict(_said(installed))
    version = f"{potluck.__version__}+h{_mark({**code, **said})}"
    about = f"{_NAME}-{version}.dist-info"
    said["METADATA"] = _with_version(said["METADATA"], version)
    files = code | {f"{about}/{name}": data for name, data in said.items()}
    files[f"{about}/RECORD"] = _record(files, f"{about}/RECORD")
    data = _zipped(files)
    package = Package(
        name=_NAME,
        version=version,
        file=f"{_NAME}-{version}-{_TAG}.whl",
        sha256=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
        requires_python="".join(installed.metadata.get_all("Requires-Python") or ()),
    )
    return OwnWheel(package, data)


def _code(folder: Path) -> Iterator[tuple[str, bytes]]:
    """By their names in the folder. What is hidden is passed over, and so are links."""
    for place, below, names in os.walk(folder):
        below[:] = [name for name in below if name != "__pycache__" and name[0] != "."]
        inside = Path(place).relative_to(folder)
        for name in names:
            path = Path(place, name)
            if path.suffix in _SUFFIXES and name[0] != "." and not path.is_symlink():
                yield (inside / name).as_posix(), path.read_bytes()


def _said(installed: Distribution) -> Iterator[tuple[str, bytes]]:
    """What is said about the package. Who installed it here, and from where, stays here."""
    yield "WHEEL", _WHEEL.encode()
    licences = [f"licenses/{name}" for name in installed.metadata.get_all("License-File") or ()]
    for name in ("METADATA", "entry_points.txt", *licences):
        text = installed.read_text(name)
        if text is None:
            raise PackageNotFoundError(f"{_NAME} without its {name}")
        # One version before the mark is made: the mark is not to depend on itself.
        yield name, _with_version(text.encode(), "0") if name == "METADATA" else text.encode()


def _with_version(metadata: bytes, version: str) -> bytes:
    head, empty, description = metadata.partition(b"\n\n")
    lines = [
        f"Version: {version}".encode() if line.startswith(b"Version:") else line
        for line in head.splitlines()
    ]
    return b"\n".join(lines) + empty + description


def _mark(files: dict[str, bytes]) -> str:
    told = "".join(f"{name} {_digest(data)}\n" for name, data in sorted(files.items()))
    return hashlib.sha256(told.encode()).hexdigest()[:_MARK_DIGITS]


def _record(files: dict[str, bytes], own_name: str) -> bytes:
    """Every file with its hash and size; of itself it can not say them."""
    lines = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in sorted(files.items())]
    return "\n".join([*lines, f"{own_name},,", ""]).encode()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _zipped(files: dict[str, bytes]) -> bytes:
    """What is said about the package comes last, as wheels should have it."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as wheel:
        for name in sorted(files, key=lambda name: (".dist-info/" in name, name)):
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            entry.external_attr = _MODE
            entry.create_system = 3  # Unix, wherever it is made
            wheel.writestr(entry, files[name])
    return made.getvalue()
