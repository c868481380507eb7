"""What a backup consists of: a manifest, the rows of each table, and the blobs that these name."""

import gzip
from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct

from potluck.server.backup.encryption import damaged

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
BLOB_LIST: Final = "blobs.json.gz"
KEYS: Final = "encryption-keys"


class BlobEntry(Struct, frozen=True, array_like=True):
    key: str
    size_bytes: int
    sha256: str


class TableEntry(Struct, frozen=True):
    """The rows of a table as PostgreSQL's COPY writes them, compressed."""

    name: str
    columns: tuple[str, ...]
    rows: int
    size_bytes: int  # compressed
    sha256: str  # of the compressed bytes

    @property
    def member(self) -> str:
        return f"database/{self.name}.copy.gz"


class BackupManifest(Struct, frozen=True):
    id: str
    version: str  # of Potluck
    started_at: datetime
    finished_at: datetime
    migrations: dict[str, str]  # that the database had, with their checksums
    tables: tuple[TableEntry, ...]  # in an order in which they can be loaded
    blobs: int
    blob_bytes: int
    blob_list_sha256: str
    missing_blobs: int  # that the database names and the store did not have
    sealed_by: tuple[str, ...]  # the ids of the encryption keys that the database needs
    has_keys: bool  # whether the backup has these keys
    format: int = FORMAT

    @property
    def size_bytes(self) -> int:
        return self.blob_bytes + sum(table.size_bytes for table in self.tables)


def decode_manifest(data: bytes) -> BackupManifest:
    try:
        manifest = msgspec.json.decode(data, type=BackupManifest)
    except msgspec.DecodeError as error:
        raise damaged(MANIFEST, str(error)) from error
    if manifest.format != FORMAT:
        raise damaged(MANIFEST, f"its format {manifest.format} is of another version of Potluck")
    return manifest


def encode_blob_list(blobs: Iterable[BlobEntry]) -> bytes:
    return gzip.compress(msgspec.json.Encoder().encode_lines(list(blobs)), 6, mtime=0)


def decode_blob_list(data: bytes) -> list[BlobEntry]:
    try:
        return msgspec.json.Decoder(BlobEntry).decode_lines(gzip.decompress(data))
    except (OSError, EOFError, msgspec.DecodeError) as error:
        raise damaged(BLOB_LIST, str(error)) from error


def blob_member(key: str) -> str:
    return f"blobs/{key}"
