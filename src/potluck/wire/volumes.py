"""Messages about volumes, and the manifest of a version: where each chunk of each file is.

A version is named by its content: by paths, modes and the hashes of its chunks. The chunks of many
files lie one after the other in packs, which are blobs. So a volume of any size needs few blobs,
and a new version needs only the chunks that are new.

To put a version, a client uploads its packs and its manifest like any other file, then names the
manifest here. Until then nothing of it is visible.
"""

import hashlib
from collections.abc import Iterable
from datetime import datetime
from itertools import pairwise
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from potluck.model.blob import (
    LONGEST_PATH,
    MOST_VERSIONS,
    BlobRef,
    VersionText,
    VolumeName,
    find_nested,
    is_path,
)
from potluck.model.error import InvalidInput
from potluck.model.terms import WalletText

MOST_SHARES = 100
SharedWith = Annotated[tuple[WalletText, ...], Meta(max_length=MOST_SHARES)]
KeepVersions = Annotated[int, Meta(ge=1, le=MOST_VERSIONS)]
KeepSeconds = Annotated[float, Meta(ge=60, le=3_660 * 86_400)]


class PutVolume(Struct, frozen=True, forbid_unknown_fields=True):
    """A new version of a volume, which is made if it does not exist.

    With `after` only if that version is still the newest, so that no change is lost.
    """

    name: VolumeName
    manifest: BlobRef
    after: VersionText | None = None


class ChangeVolume(Struct, frozen=True, forbid_unknown_fields=True):
    """Omitted fields stay; `null` removes a limit."""

    shared_with: SharedWith | UnsetType = UNSET  # wallets that may mount and read it
    keep_versions: KeepVersions | UnsetType | None = UNSET  # older versions are removed
    # Versions that were neither put nor mounted for this time are removed.
    keep_seconds: KeepSeconds | UnsetType | None = UNSET


class VolumeVersion(Struct, frozen=True):
    version: VersionText
    manifest: BlobRef
    size_bytes: int
    files: int
    put_at: datetime
    used_at: datetime  # when it was last put, or named by a new task


class VolumeView(Struct, frozen=True):
    id: str
    name: str
    owner: str  # the wallet
    is_own: bool
    newest: VolumeVersion
    versions: int
    stored_bytes: int  # of all versions; what several have in common counts once
    shared_with: list[str] = []  # shown to its owner
    keep_versions: int | None = None
    keep_seconds: float | None = None


class VolumeList(Struct, frozen=True):
    volumes: list[VolumeView]
    next_cursor: str | None = None


class VolumeDetails(Struct, frozen=True):
    """A volume with all its versions, newest first."""

    volume: VolumeView
    versions: list[VolumeVersion]


MOST_FILES = 200_000
MOST_PACKS = 100_000
MOST_MANIFEST_BYTES = 32 * 2**20
# A chunk is read into memory, and so is a pack while it is sent.
MOST_CHUNK_BYTES = 4 * 2**20
MOST_PACK_BYTES = 40 * 2**20


class VolumeChunk(Struct, frozen=True, array_like=True, gc=False):
    """A piece of a file: `size_bytes` of a pack, from `offset` on, with this SHA-256."""

    pack: Annotated[int, Meta(ge=0, lt=MOST_PACKS)]
    offset: Annotated[int, Meta(ge=0, lt=MOST_PACK_BYTES)]
    size_bytes: Annotated[int, Meta(ge=1, le=MOST_CHUNK_BYTES)]
    sha256: Annotated[bytes, Meta(min_length=32, max_length=32)]


class VolumeFile(Struct, frozen=True, array_like=True, gc=False):
    path: Annotated[str, Meta(min_length=1, max_length=LONGEST_PATH)]
    is_executable: bool
    chunks: tuple[VolumeChunk, ...]

    @property
    def size_bytes(self) -> int:
        return sum(chunk.size_bytes for chunk in self.chunks)


class VolumeManifest(Struct, frozen=True, array_like=True):
    """All files of a version, in the order of their paths."""

    packs: Annotated[tuple[BlobRef, ...], Meta(max_length=MOST_PACKS)]
    files: Annotated[tuple[VolumeFile, ...], Meta(min_length=1, max_length=MOST_FILES)]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)


_DECODER = msgspec.msgpack.Decoder(VolumeManifest)


def decode_manifest(data: bytes) -> VolumeManifest:
    """Raises InvalidInput for a manifest that cannot be used."""
    try:
        manifest = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _invalid(f"it cannot be read: {error}") from None
    _check_packs(manifest)
    _check_paths([file.path for file in manifest.files])
    return manifest


def _check_packs(manifest: VolumeManifest) -> None:
    if len({pack.sha256 for pack in manifest.packs}) < len(manifest.packs):
        raise _invalid("it names a pack twice")
    sizes = [pack.size_bytes for pack in manifest.packs]
    if any(size > MOST_PACK_BYTES for size in sizes):
        raise _invalid("a pack is too large")
    used = set()
    for file in manifest.files:
        for chunk in file.chunks:
            if chunk.pack >= len(sizes) or chunk.offset + chunk.size_bytes > sizes[chunk.pack]:
                raise _invalid(f"a chunk of {file.path!r} is not in its pack")
            used.add(chunk.pack)
    if len(used) < len(sizes):
        raise _invalid("it names a pack that it does not use")


def _check_paths(paths: list[str]) -> None:
    """Path by path where it can be: a single step for all of them holds up other requests."""
    for path in paths:
        if not is_path(path):
            raise _invalid(f"{path!r} is not a name that every system supports")
    if any(before >= path for before, path in pairwise(paths)):
        raise _invalid("its paths are not in order, or one occurs twice")
    if (nested := find_nested(paths)) is not None:
        raise _invalid(f"{nested[1]!r} is below a file")


def _invalid(why: str) -> InvalidInput:
    return InvalidInput(
        f"This is not the manifest of a volume: {why}.",
        "`potluck cp` and Python write a valid one.",
    )


def version_of(files: Iterable[VolumeFile]) -> VersionText:
    """The name of the content: the same for equal files, wherever their chunks lie."""
    digest = hashlib.sha256(b"potluck volume 1\n")
    for file in files:
        path = file.path.encode()
        digest.update(len(path).to_bytes(4) + path + bytes([file.is_executable]))
        digest.update(len(file.chunks).to_bytes(8))
        for chunk in file.chunks:
            digest.update(chunk.sha256)
    return digest.hexdigest()
