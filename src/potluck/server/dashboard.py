"""The dashboard that this server serves: a build, kept in memory, that can be replaced.

A build is a folder with a manifest that names each file and its hash. It is taken over as a whole
or not at all: while another build is written, the files do not match the manifest, and the build in
memory stays. A request never becomes a path; it is looked up among the names of the manifest.
"""

import hashlib
import re
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

MANIFEST: Final = "manifest.json"
INDEX: Final = "index.html"
ASSETS: Final = "assets/"
BUILT_FOLDER: Final = Path(__file__).parent / "pages" / "dashboard"
# The suffix of a compressed copy, by its content coding; the smaller one first.
CODINGS: Final = {"br": ".br", "gzip": ".gz"}
IDENTITY: Final = "identity"
MEDIA_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
# The index, and files whose names contain a hash of their content: these may be cached for good.
_NAME: Final = re.compile(
    rf"{re.escape(INDEX)}|{ASSETS}[A-Za-z0-9][A-Za-z0-9_.-]*-[A-Za-z0-9_-]{{8,}}\.[a-z0-9]+"
)
_MOST_FILES: Final = 2_000
_MOST_BYTES: Final = 64 * 2**20
_ETAG_DIGITS: Final = 32


class Manifest(Struct, frozen=True):
    """What a build consists of, and the hash of the sources that it was built from."""

    source: str
    files: Annotated[dict[str, str], Meta(max_length=_MOST_FILES)]  # SHA-256 by name


class EncodedFile(Struct, frozen=True):
    data: bytes
    etag: str


class DashboardFile(Struct, frozen=True):
    """A file and its compressed copies, by content coding."""

    media_type: str
    copies: dict[str, EncodedFile]


class DashboardBuild(Struct, frozen=True):
    source: str
    files: dict[str, DashboardFile]
    stored: dict[str, bytes]  # as they are on disk, with the manifest

    @property
    def index(self) -> DashboardFile:
        return self.files[INDEX]


class DashboardUnreadable(Exception):
    """The folder contains no complete build."""


class Dashboard:
    """The current build, if there is one. The assets of the one before it are still served, because
    pages that were loaded before may need them."""

    def __init__(self) -> None:
        self.current: DashboardBuild | None = None
        self._previous: DashboardBuild | None = None

    def replace(self, build: DashboardBuild) -> None:
        self._previous, self.current = self.current, build

    def asset(self, name: str) -> DashboardFile | None:
        for build in (self.current, self._previous):
            if build is not None and (file := build.files.get(ASSETS + name)) is not None:
                return file
        return None


def read_build(folder: Path) -> DashboardBuild:
    """Reads a whole build. Raises DashboardUnreadable if a file is missing or has changed."""
    try:
        manifest_bytes = _read(folder / MANIFEST)
        manifest = msgspec.json.decode(manifest_bytes, type=Manifest)
        stored = {name: _verified(folder, name, digest) for name, digest in manifest.files.items()}
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DashboardUnreadable(str(error)) from error
    if INDEX not in stored:
        raise DashboardUnreadable(f"{INDEX} is missing")
    files = {name: _with_copies(name, stored) for name in stored if not is_copy(name)}
    return DashboardBuild(manifest.source, files, {**stored, MANIFEST: manifest_bytes})


def is_name(name: str) -> bool:
    """Whether a build may contain a file of this name, apart from its manifest."""
    plain = name.removesuffix(".br").removesuffix(".gz") if is_copy(name) else name
    return bool(_NAME.fullmatch(plain)) and Path(plain).suffix in MEDIA_TYPES


def is_copy(name: str) -> bool:
    return name.endswith(tuple(CODINGS.values()))


def _verified(folder: Path, name: str, digest: str) -> bytes:
    if not is_name(name):
        raise DashboardUnreadable(f"{name!r} is not a name of a dashboard file")
    data = _read(folder / name)
    if hashlib.sha256(data).hexdigest() != digest:
        raise DashboardUnreadable(f"{name} has changed")
    return data


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise DashboardUnreadable(f"{path.name} is too large")
    return data


def _with_copies(name: str, stored: dict[str, bytes]) -> DashboardFile:
    names = {IDENTITY: name, **{coding: name + suffix for coding, suffix in CODINGS.items()}}
    copies = {
        coding: EncodedFile(stored[file_name], _etag(stored[file_name]))
        for coding, file_name in names.items()
        if file_name in stored
    }
    return DashboardFile(MEDIA_TYPES[Path(name).suffix], copies)


def _etag(data: bytes) -> str:
    return f'"{hashlib.sha256(data).hexdigest()[:_ETAG_DIGITS]}"'
