"""Makes a backup, also while the server works.

One transaction reads all tables, so the rows are of one moment. Then the blobs that these rows name
are copied: the backup has announced itself before, so none of them is removed meanwhile. At last
everything that was written is read again, and only then it becomes a backup.
"""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from potluck import __version__
from potluck.blobs.interface import Blobs
from potluck.model.error import BackupDamaged, NotFound
from potluck.server.backup.announcement import announced, connected
from potluck.server.backup.encryption import damaged
from potluck.server.backup.manifest import (
    BLOB_LIST,
    KEYS,
    MANIFEST,
    BackupManifest,
    BlobEntry,
    TableEntry,
    blob_member,
    encode_blob_list,
)
from potluck.server.backup.pieces import Digest, join, pieces_of, pieces_of_path
from potluck.server.backup.place import BackupPlace, BackupReader, BackupWriter
from potluck.server.flow.execute.attempt_log import LOGS, attempt_of, counted_chunks
from potluck.store import backups, table_copy
from potluck.store.backups import BackupResult
from potluck.store.database import Connection
from potluck.store.new_ids import new_backup_id
from potluck.store.sealing import sealed_values

# An object store answers slowly, but many at a time.
_WORKERS: Final = 8

Progress = Callable[[str, int, int], None]  # what is done, how many of them, of how many


class BackupOptions(Struct, frozen=True):
    keys: bytes | None = None  # the encryption keys, if they are to be part of it
    keep: int | None = None  # how many backups stay; None: all
    is_thorough: bool = False  # reads also blobs again that earlier backups have written


class BackupReport(Struct, frozen=True):
    name: str
    manifest: BackupManifest
    new_bytes: int
    read_blobs: int  # how many of the blobs were read again
    replaced_blobs: int  # which an earlier backup had written, and which were damaged since
    removed: int  # older backups
    is_encrypted: bool


class _SnapshotRows(Struct, frozen=True):
    """What the transaction has read."""

    tables: tuple[TableEntry, ...]
    migrations: Mapping[str, bytes]
    sealed_by: tuple[str, ...]
    objects: list[table_copy.StoredObject]
    log_pieces: dict[str, int]


class _NeededBlob(Struct, frozen=True):
    """A blob that the rows of a backup name."""

    key: str
    size_bytes: int | None = None  # None: a part of a log, which is small
    sha256: str | None = None  # None: not known
    attempt_id: str | None = None  # whose log it is a part of


async def make_backup(
    url: str, blobs: Blobs, place: BackupPlace, options: BackupOptions, progress: Progress
) -> BackupReport:
    backup_id = new_backup_id()
    async with announced(url, backup_id, place.is_encrypted) as announcement:
        at = announcement.started_at
        name = f"{at:%Y-%m-%dT%H-%M-%SZ}-{backup_id.removeprefix('backup_')}"
        with place.write(name) as writer:
            job = _BackupJob(url, blobs, writer, options, progress)
            rows = await job.write_tables()
            entries, missing = await job.write_blobs(rows)
            manifest = BackupManifest(
                id=backup_id,
                version=__version__,
                started_at=at,
                finished_at=await job.read_time(),
                migrations={number: checksum.hex() for number, checksum in rows.migrations.items()},
                tables=rows.tables,
                blobs=len(entries),
                blob_bytes=sum(entry.size_bytes for entry in entries),
                blob_list_sha256=await job.write_blob_list(entries),
                missing_blobs=missing,
                sealed_by=rows.sealed_by,
                has_keys=await job.write_keys(),
            )
            await job.verify(manifest)
            announcement.check()
            await job.commit(manifest)
            result = BackupResult(manifest.size_bytes, job.new_bytes, len(entries), missing)
            await job.record(backup_id, result)
            removed = 0 if options.keep is None else await writer.remove_older(options.keep)
    return BackupReport(
        name=name,
        manifest=manifest,
        new_bytes=job.new_bytes,
        read_blobs=len(entries) if options.is_thorough else job.new_blobs,
        replaced_blobs=job.replaced_blobs,
        removed=removed,
        is_encrypted=place.is_encrypted,
    )


class _BackupJob:
    def __init__(
        self,
        url: str,
        blobs: Blobs,
        writer: BackupWriter,
        options: BackupOptions,
        progress: Progress,
    ) -> None:
        self._url = url
        self._blobs = blobs
        self._writer = writer
        self._options = options
        self._progress = progress
        self._written: dict[str, Digest] = {}
        self.new_bytes = 0
        self.new_blobs = 0
        self.replaced_blobs = 0

    async def read_time(self) -> datetime:
        async with connected(self._url) as connection:
            return await backups.read_time(connection)

    async def record(self, backup_id: str, result: BackupResult) -> None:
        async with connected(self._url) as connection:
            await backups.finish(connection, backup_id, result)

    async def write_tables(self) -> _SnapshotRows:
        async with (
            connected(self._url) as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            await table_copy.lift_timeout(connection)
            listed = await table_copy.list_tables(connection)
            tables = []
            for number, table in enumerate(listed):
                self._progress("tables", number, len(listed))
                tables.append(await self._write_table(connection, table))
            sealed = await sealed_values.keys_in_use(connection)
            return _SnapshotRows(
                tuple(tables),
                await table_copy.applied_migrations(connection),
                tuple(sorted(key.hex() for key in sealed)),
                await table_copy.list_objects(connection),
                await table_copy.count_log_pieces(connection),
            )

    async def _write_table(
        self, connection: Connection, table: table_copy.TableColumns
    ) -> TableEntry:
        spooled = self._writer.scratch / table.name
        with gzip.open(spooled, "wb", compresslevel=1) as file:

            async def write(data: bytes) -> None:
                file.write(data)

            rows = await table_copy.copy_out(connection, table, write)
        entry = TableEntry(table.name, table.columns, rows, spooled.stat().st_size, "")
        digest = await self._write(entry.member, entry.size_bytes, pieces_of_path(spooled))
        spooled.unlink()
        return msgspec.structs.replace(entry, sha256=digest.sha256)

    async def write_blobs(self, rows: _SnapshotRows) -> tuple[list[BlobEntry], int]:
        """Returns those that are part of the backup, and how many are missing."""
        needed, short = await _list_needed(self._blobs, rows.objects, rows.log_pieces)
        blobs = await self._writer.known_blobs()
        entries: list[BlobEntry] = []
        lost: list[_NeededBlob] = []
        work = iter(needed)

        async def copy_some() -> None:
            for blob in work:
                entry = await self._kept(blob, blobs.get(blob.key)) or await self._copy(blob)
                entries.append(entry) if entry else lost.append(blob)
                self._progress("files and logs", len(entries), len(needed))

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(_WORKERS):
                    group.create_task(copy_some())
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from failed
        logs = short | {blob.attempt_id for blob in lost if blob.attempt_id is not None}
        # Cleared just when the backup began; the restored server clears them too.
        async with connected(self._url) as connection:
            missing_logs = await table_copy.with_counted_logs(connection, sorted(logs))
        missing = sum(blob.attempt_id is None for blob in lost) + len(missing_logs)
        return sorted(entries, key=lambda entry: entry.key), missing

    async def _kept(self, blob: _NeededBlob, entry: BlobEntry | None) -> BlobEntry | None:
        """What an earlier backup has written; copied again if that is damaged. None: nothing."""
        if entry is None or not self._options.is_thorough:
            return entry
        try:
            with self._writer.reopen() as reader:
                await verify_member(reader, blob_member(entry.key), entry.sha256, entry.size_bytes)
        except BackupDamaged:
            copied = await self._copy(blob)
            if copied is None:
                raise  # there is no other copy
            self.replaced_blobs += 1
            return copied
        return entry

    async def _copy(self, blob: _NeededBlob) -> BlobEntry | None:
        """None if the store does not have it."""
        try:
            if blob.size_bytes is None:
                data = await self._blobs.get(blob.key)
                size_bytes, pieces = len(data), pieces_of(data)
            else:
                size_bytes = blob.size_bytes
                pieces = self._blobs.stream(blob.key, 0, size_bytes)
            digest = await self._write(blob_member(blob.key), size_bytes, pieces)
        except NotFound:
            return None
        if blob.sha256 not in (None, digest.sha256):
            raise damaged(blob.key, "the stored bytes differ from those that were uploaded")
        self.new_blobs += 1
        return BlobEntry(blob.key, size_bytes, digest.sha256)

    async def write_keys(self) -> bool:
        if self._options.keys is None:
            return False
        await self._write(KEYS, len(self._options.keys), pieces_of(self._options.keys))
        return True

    async def write_blob_list(self, entries: list[BlobEntry]) -> str:
        data = encode_blob_list(entries)
        return (await self._write(BLOB_LIST, len(data), pieces_of(data))).sha256

    async def _write(self, name: str, size_bytes: int, pieces: AsyncIterator[bytes]) -> Digest:
        digest = Digest()
        await self._writer.write(name, size_bytes, digest.over(pieces))
        self._written[name] = digest
        self.new_bytes += digest.size_bytes
        return digest

    async def verify(self, manifest: BackupManifest) -> None:
        """Reads again what was written, and compares hashes, sizes and the numbers of rows."""
        with self._writer.reopen() as reader:
            for table in manifest.tables:
                await _verify_rows(reader, table, self._writer.scratch)
            for name, digest in self._written.items():
                self._progress("verifying", 0, 0)
                await verify_member(reader, name, digest.sha256, digest.size_bytes)

    async def commit(self, manifest: BackupManifest) -> None:
        data = msgspec.json.encode(manifest)
        await self._writer.write(MANIFEST, len(data), pieces_of(data))
        with self._writer.reopen() as reader:
            if await join(reader.read(MANIFEST)) != data:
                raise damaged(MANIFEST, "it was read differently from what was written")
        self._writer.commit()


async def _list_needed(
    blobs: Blobs, objects: list[table_copy.StoredObject], log_pieces: dict[str, int]
) -> tuple[list[_NeededBlob], set[str]]:
    """The blobs, and the attempts whose log is not all there."""
    needed = [_NeededBlob(stored.key, stored.size_bytes, stored.sha256) for stored in objects]
    keys: dict[str, list[str]] = {attempt_id: [] for attempt_id in log_pieces}
    for key in await blobs.list(LOGS):
        keys.get(attempt_of(key), []).append(key)
    short: set[str] = set()
    for attempt_id, pieces in log_pieces.items():
        chunks, is_complete = counted_chunks(keys[attempt_id], pieces)
        needed.extend(_NeededBlob(key, attempt_id=attempt_id) for key in chunks)
        if not is_complete:
            short.add(attempt_id)
    return needed, short


async def verify_member(reader: BackupReader, name: str, sha256: str, size_bytes: int) -> None:
    digest = Digest()
    await digest.drain(reader.read(name))
    if (digest.sha256, digest.size_bytes) != (sha256, size_bytes):
        raise damaged(name, "its content differs from what was written")


async def _verify_rows(reader: BackupReader, table: TableEntry, scratch: Path) -> None:
    """A row is a line: line breaks in values are escaped."""
    spooled = scratch / table.name
    with spooled.open("wb") as file:
        async for piece in reader.read(table.member):
            file.write(piece)
    with gzip.open(spooled, "rb") as lines:
        rows = sum(chunk.count(b"\n") for chunk in iter(lambda: lines.read(2**20), b""))
    spooled.unlink()
    if rows != table.rows:
        raise damaged(table.member, f"it has {rows} rows instead of {table.rows}")
