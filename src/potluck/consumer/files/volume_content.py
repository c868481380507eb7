"""The content of a volume on this machine: files cut into chunks, and chunks collected in packs.

Chunks end where the content says so, so that an inserted byte changes one or two of them. Packs end
likewise: after an interruption, or with a few changed files, the same packs are made again, and the
server has most of them already.
"""

import hashlib
import io
import mmap
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from potluck.consumer.files.folder import describe_mistake
from potluck.model.blob import BlobRef, is_path
from potluck.model.error import InvalidInput
from potluck.wire.volumes import (
    MOST_CHUNK_BYTES,
    MOST_FILES,
    VolumeChunk,
    VolumeFile,
    VolumeManifest,
    version_of,
)

# A version consists of these chunks: other sizes would make other versions of the same files.
_AVERAGE_CHUNK_BYTES = 2**20
_LEAST_CHUNK_BYTES = 2**18
_LEAST_PACK_BYTES = 8 * 2**20
_LARGE_PACK_BYTES = 32 * 2**20
_PACK_ENDS = 16  # of 256 chunks
# A pack of which a version needs less is not used again: it would keep the rest of it stored.
_LEAST_PACK_USE = 0.25
_MOST_REPORTED = 10


class LocalFile(NamedTuple):
    """A file here, and its path in the volume."""

    path: str
    source: Path


class LocalChunk(NamedTuple):
    source: Path
    offset: int
    size_bytes: int
    sha256: bytes


class ChunkedFile(Struct, frozen=True):
    path: str
    is_executable: bool
    chunks: tuple[LocalChunk, ...]


class StoredChunk(NamedTuple):
    """Where a chunk is that the server has already."""

    pack: BlobRef
    offset: int


class PackedChunks(Struct, frozen=True):
    """Where each chunk is: in packs that are stored, or in new ones that are to be sent."""

    stored: dict[bytes, StoredChunk]
    new_packs: tuple[tuple[LocalChunk, ...], ...]

    @property
    def new_bytes(self) -> int:
        return sum(chunk.size_bytes for pack in self.new_packs for chunk in pack)


def list_sources(sources: Sequence[Path]) -> list[LocalFile]:
    """The files of one folder by their paths in it; several files and folders by their names."""
    is_folder = len(sources) == 1 and sources[0].is_dir()
    found: list[LocalFile] = []
    mistakes: list[str] = []
    for source in sources:
        if source.is_dir():
            prefix = "" if is_folder else f"{source.resolve().name}/"
            for path in _walk(source):
                if mistake := describe_mistake(path, source):
                    mistakes.append(f"{str(path)!r} {mistake}")
                elif not path.is_dir():
                    found.append(LocalFile(prefix + path.relative_to(source).as_posix(), path))
        elif source.is_file() and is_path(source.name):
            found.append(LocalFile(source.name, source))
        elif not source.exists():
            raise InvalidInput(
                f"{str(source)!r} is neither a folder nor a file: it does not exist.",
                "Check the path.",
            )
        else:
            mistakes.append(f"{str(source)!r} is neither a folder nor a file with a valid name")
    _check(found, mistakes)
    return sorted(found)


def _walk(directory: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(directory):
        for name in (*files, *(name for name in folders if (Path(folder) / name).is_symlink())):
            yield Path(folder) / name


def _check(found: list[LocalFile], mistakes: list[str]) -> None:
    if mistakes:
        more = len(mistakes) - _MOST_REPORTED
        rest = f"; and {more} more" if more > 0 else ""
        raise InvalidInput(
            f"This cannot be put into a volume: {'; '.join(mistakes[:_MOST_REPORTED])}{rest}.",
            "Replace links by copies, or rename the files.",
        )
    if not found:
        raise InvalidInput("There are no files to put.", "Name a folder with files, or files.")
    if len(found) > MOST_FILES:
        raise InvalidInput(
            f"{len(found):,} files are too many: a volume has at most {MOST_FILES:,}.",
            "Pack many small files into one, such as a tar or Parquet file, or use several.",
        )
    names = [file.path for file in found]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"Two files would be {twice!r} in the volume.", "Rename one of them.")


def chunk_file(file: LocalFile) -> ChunkedFile:
    try:
        with file.source.open("rb") as source:
            status = os.fstat(source.fileno())
            chunks = tuple(_chunks(file.source, source, status.st_size))
    except OSError as error:
        raise InvalidInput(
            f"{file.source} cannot be read: {error.strerror}.", "Check its permissions."
        ) from error
    return ChunkedFile(file.path, bool(status.st_mode & 0o100), chunks)


def _chunks(path: Path, source: io.BufferedReader, size_bytes: int) -> Iterator[LocalChunk]:
    if size_bytes <= _LEAST_CHUNK_BYTES:
        data = source.read(size_bytes)
        if data:
            yield LocalChunk(path, 0, len(data), hashlib.sha256(data).digest())
        return
    from pyfastcdc import FastCDC  # imported by the few commands that need it

    cutter = FastCDC(_AVERAGE_CHUNK_BYTES, min_size=_LEAST_CHUNK_BYTES, max_size=MOST_CHUNK_BYTES)
    with mmap.mmap(source.fileno(), size_bytes, access=mmap.ACCESS_READ) as content:
        view = memoryview(content)
        try:
            for cut in cutter.cut_buf(view):
                digest = hashlib.sha256(cut.data).digest()
                yield LocalChunk(path, cut.offset, cut.length, digest)
                del cut  # it refers to the map, which is closed at the end
        finally:
            view.release()


def index_chunks(manifests: Iterable[VolumeManifest]) -> dict[bytes, StoredChunk]:
    """All chunks of versions that the server has; of several places, the first."""
    stored: dict[bytes, StoredChunk] = {}
    for manifest in manifests:
        for file in manifest.files:
            for chunk in file.chunks:
                place = StoredChunk(manifest.packs[chunk.pack], chunk.offset)
                stored.setdefault(chunk.sha256, place)
    return stored


def pack_chunks(files: Iterable[ChunkedFile], known: Mapping[bytes, StoredChunk]) -> PackedChunks:
    """Assigns chunks that are not stored to new packs."""
    needed = {chunk.sha256: chunk for file in files for chunk in file.chunks}
    stored = _well_used(needed, known)
    packs: list[tuple[LocalChunk, ...]] = []
    pack: list[LocalChunk] = []
    size_bytes = 0
    for digest, chunk in needed.items():
        if digest in stored:
            continue
        pack.append(chunk)
        size_bytes += chunk.size_bytes
        is_end = digest[0] < _PACK_ENDS and size_bytes >= _LEAST_PACK_BYTES
        if is_end or size_bytes >= _LARGE_PACK_BYTES:
            packs.append(tuple(pack))
            pack, size_bytes = [], 0
    if pack:
        packs.append(tuple(pack))
    return PackedChunks(stored, tuple(packs))


def _well_used(
    needed: Mapping[bytes, LocalChunk], known: Mapping[bytes, StoredChunk]
) -> dict[bytes, StoredChunk]:
    stored = {digest: known[digest] for digest in needed if digest in known}
    used: dict[BlobRef, int] = {}
    for digest, place in stored.items():
        used[place.pack] = used.get(place.pack, 0) + needed[digest].size_bytes
    return {
        digest: place
        for digest, place in stored.items()
        if used[place.pack] >= _LEAST_PACK_USE * place.pack.size_bytes
    }


def read_pack(chunks: Sequence[LocalChunk]) -> bytes:
    """The bytes of a new pack, checked again: a file may have changed since it was cut."""
    pieces = []
    for chunk in chunks:
        try:
            with chunk.source.open("rb") as file:
                file.seek(chunk.offset)
                piece = file.read(chunk.size_bytes)
        except OSError as error:
            raise _changed(chunk.source) from error
        if hashlib.sha256(piece).digest() != chunk.sha256:
            raise _changed(chunk.source)
        pieces.append(piece)
    return b"".join(pieces)


def _changed(source: Path) -> InvalidInput:
    return InvalidInput(
        f"{source} changed while it was put into the volume.",
        "Try again when nothing writes to it; what was sent is not sent again.",
    )


def make_manifest(
    files: Iterable[ChunkedFile],
    packed: PackedChunks,
    sent: Sequence[BlobRef],
    kept: Sequence[tuple[VolumeFile, VolumeManifest]] = (),
) -> VolumeManifest:
    """`sent` are the new packs, in order; `kept` are files of an earlier version that stay."""
    places = dict(packed.stored)
    for pack, chunks in zip(sent, packed.new_packs, strict=True):
        offset = 0
        for chunk in chunks:
            places[chunk.sha256] = StoredChunk(pack, offset)
            offset += chunk.size_bytes
    numbers: dict[BlobRef, int] = {}

    def place(digest: bytes, size_bytes: int, at: StoredChunk) -> VolumeChunk:
        number = numbers.setdefault(at.pack, len(numbers))
        return VolumeChunk(number, at.offset, size_bytes, digest)

    entries = [
        VolumeFile(
            file.path,
            file.is_executable,
            tuple(place(each.sha256, each.size_bytes, places[each.sha256]) for each in file.chunks),
        )
        for file in files
    ]
    for old, manifest in kept:
        at = [StoredChunk(manifest.packs[each.pack], each.offset) for each in old.chunks]
        moved = tuple(
            place(each.sha256, each.size_bytes, where)
            for each, where in zip(old.chunks, at, strict=True)
        )
        entries.append(VolumeFile(old.path, old.is_executable, moved))
    entries.sort(key=lambda file: file.path)
    return VolumeManifest(tuple(numbers), tuple(entries))


def version_of_files(files: Iterable[ChunkedFile]) -> str:
    """The version that these files would be, wherever their chunks are."""
    return version_of(
        VolumeFile(
            file.path,
            file.is_executable,
            tuple(VolumeChunk(0, 0, each.size_bytes, each.sha256) for each in file.chunks),
        )
        for file in files
    )
