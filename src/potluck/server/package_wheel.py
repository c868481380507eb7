"""Builds a wheel of the package that this server runs, for clients to install.

It is assembled from the installed package (a wheel or a checkout) and needs no build tools. The
same code gives the same bytes on every machine: names are sorted, times are fixed, and nothing is
compressed, since compressors differ. The version ends with a hash of the content, such as
0.2.0+h3f2a9c0b71d4: installers skip a package that is present in the same version, and a pool's
code may change between releases. The dashboard in it is the one that this server serves.
"""

import base64
import hashlib
import io
import os
import stat
import zipfile
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import structlog
from msgspec import Struct

import potluck
from potluck.server.dashboard import BUILT_FOLDER
from potluck.wire.package import Package

log = structlog.get_logger()

_NAME: Final = "potluck"
_TAG: Final = "py3-none-any"
# Only these file types belong to the package; other files of a checkout stay out.
_SUFFIXES: Final = frozenset(
    (
        ".cl",
        ".css",
        ".html",
        ".js",
        ".json",
        ".mako",
        ".py",
        ".sql",
        ".svg",
        ".toml",
        ".typed",
        ".vy",
    )
)
_WHEEL: Final = f"Wheel-Version: 1.0\nGenerator: potluck\nRoot-Is-Purelib: true\nTag: {_TAG}\n"
_ZIP_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can store
_MODE: Final = (stat.S_IFREG | 0o644) << 16
_MARK_DIGITS: Final = 12
_DASHBOARD: Final = BUILT_FOLDER.relative_to(Path(potluck.__file__).parent)
# Join commands name a wheel. Those that were shown before the dashboard was built still work.
_MOST_WHEELS: Final = 3


class OwnWheel(Struct, frozen=True):
    package: Package
    data: bytes


class OfferedWheels:
    """The wheel that join commands name now, and earlier ones, which are still served."""

    def __init__(self) -> None:
        self._wheels: list[OwnWheel] = []
        self._without_dashboard: OwnWheel | None = None

    @property
    def current(self) -> OwnWheel | None:
        return self._wheels[-1] if self._wheels else None

    def offer(self, wheel: OwnWheel) -> None:
        """Earlier wheels are kept, the first one among them: the server printed its name."""
        others = [each for each in self._wheels if each.package.file != wheel.package.file]
        self._wheels = [*others[:1], *others[1:][2 - _MOST_WHEELS :], wheel]

    def keep_without_dashboard(self, wheel: OwnWheel) -> None:
        """Serves this wheel too: an earlier start named it, if it came before the first build."""
        self._without_dashboard = wheel

    def find(self, file: str) -> OwnWheel | None:
        wheels = (*self._wheels, self._without_dashboard)
        return next((w for w in wheels if w is not None and w.package.file == file), None)


def build_own_wheel(dashboard: Mapping[str, bytes]) -> OwnWheel | None:
    """With the files of the dashboard, by their names in its folder.

    None if the code was never installed: then its dependencies are unknown.
    """
    try:
        return assemble_wheel(distribution(_NAME), Path(potluck.__file__).parent, dashboard)
    except (PackageNotFoundError, OSError, UnicodeDecodeError) as error:
        log.warning("no package to offer to clients", error=str(error))
        return None


def assemble_wheel(
    installation: Distribution, folder: Path, dashboard: Mapping[str, bytes]
) -> OwnWheel:
    """Builds the wheel from the code in the folder and the metadata of its installation."""
    built = {(_DASHBOARD / name).as_posix(): data for name, data in dashboard.items()}
    code = {f"{_NAME}/{name}": data for name, data in (*_code(folder), *built.items())}
    metadata = dict(_metadata(installation))
    version = f"{potluck.__version__}+h{_mark({**code, **metadata})}"
    info = f"{_NAME}-{version}.dist-info"
    metadata["METADATA"] = _with_version(metadata["METADATA"], version)
    files = code | {f"{info}/{name}": data for name, data in metadata.items()}
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD")
    data = _zipped(files)
    package = Package(
        name=_NAME,
        version=version,
        file=f"{_NAME}-{version}-{_TAG}.whl",
        sha256=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
        requires_python="".join(installation.metadata.get_all("Requires-Python") or ()),
    )
    return OwnWheel(package, data)


def _code(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yields file names relative to the folder; skips hidden files, links and the dashboard."""
    for directory, subfolders, names in os.walk(folder):
        relative = Path(directory).relative_to(folder)
        subfolders[:] = [name for name in subfolders if _is_code(relative / name)]
        for name in names:
            path = Path(directory, name)
            if path.suffix in _SUFFIXES and name[0] != "." and not path.is_symlink():
                yield (relative / name).as_posix(), path.read_bytes()


def _is_code(folder: Path) -> bool:
    return folder.name != "__pycache__" and folder.name[0] != "." and folder != _DASHBOARD


def _metadata(installed: Distribution) -> Iterator[tuple[str, bytes]]:
    """The package metadata, without the record of who installed it here and from where."""
    yield "WHEEL", _WHEEL.encode()
    licences = [f"licenses/{name}" for name in installed.metadata.get_all("License-File") or ()]
    for name in ("METADATA", "entry_points.txt", *licences):
        text = installed.read_text(name)
        if text is None:
            raise PackageNotFoundError(f"{_NAME} without its {name}")
        # A fixed version, so that the hash does not depend on itself.
        yield name, _with_version(text.encode(), "0") if name == "METADATA" else text.encode()


def _with_version(metadata: bytes, version: str) -> bytes:
    head, empty, description = metadata.partition(b"\n\n")
    lines = [
        f"Version: {version}".encode() if line.startswith(b"Version:") else line
        for line in head.splitlines()
    ]
    return b"\n".join(lines) + empty + description


def _mark(files: dict[str, bytes]) -> str:
    listing = "".join(f"{name} {_digest(data)}\n" for name, data in sorted(files.items()))
    return hashlib.sha256(listing.encode()).hexdigest()[:_MARK_DIGITS]


def _record(files: dict[str, bytes], own_name: str) -> bytes:
    """Every file with its hash and size, except for the record itself."""
    lines = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in sorted(files.items())]
    return "\n".join([*lines, f"{own_name},,", ""]).encode()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _zipped(files: dict[str, bytes]) -> bytes:
    """Puts the metadata last, as the wheel format recommends."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as wheel:
        for name in sorted(files, key=lambda name: (".dist-info/" in name, name)):
            entry = zipfile.ZipInfo(name, _ZIP_EPOCH)
            entry.external_attr = _MODE
            entry.create_system = 3  # Unix, on every platform
            wheel.writestr(entry, files[name])
    return buffer.getvalue()
