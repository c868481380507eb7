"""Restores a backup into an empty database and an empty data directory.

The blobs come first, then the rows in one transaction: a restore that is interrupted leaves an
empty database, and the next one uses the blobs that are there.
"""

import zlib
from collections.abc import AsyncIterator

from msgspec import Struct

from potluck.blobs.interface import Blobs
from potluck.model.error import BadSettings, Conflict, NotFound
from potluck.server.backup.announcement import connected
from potluck.server.backup.encryption import damaged
from potluck.server.backup.manifest import (
    BLOB_LIST,
    KEYS,
    MANIFEST,
    BackupManifest,
    BlobEntry,
    TableEntry,
    blob_member,
    decode_blob_list,
    decode_manifest,
)
from potluck.server.backup.pieces import Digest, join
from potluck.server.backup.place import BackupReader
from potluck.server.backup.run import Progress, verify_member
from potluck.server.encryption.key_sources import KeyFile, parse
from potluck.store import backups, schema, table_copy
from potluck.store.database import Connection
from potluck.store.nodes import nodes
from potluck.store.sealing.vault import KeyPlace


class RestoreReport(Struct, frozen=True):
    name: str
    manifest: BackupManifest
    restored_keys: bool  # whether the key file was written
    lacks_keys: bool  # whether the server still needs its keys
    set_aside: str | None  # the schema that has the tables that were there before


async def restore_backup(
    url: str,
    blobs: Blobs,
    keys: KeyPlace,
    reader: BackupReader,
    is_encrypted: bool,
    force: bool,
    progress: Progress,
) -> RestoreReport:
    manifest = decode_manifest(await join(reader.read(MANIFEST)))
    _check_version(manifest)
    async with connected(url) as connection:
        if not force and not await schema.is_empty(connection):
            raise _not_empty()
        restored_keys = await _restore_keys(reader, manifest, keys)
        await _restore_blobs(reader, manifest, blobs, progress)
        for table in manifest.tables:
            progress("verifying tables", 0, 0)
            await verify_member(reader, table.member, table.sha256, table.size_bytes)
        async with connection.transaction():
            aside = await _restore_rows(connection, reader, manifest, progress)
            await backups.add_restored(
                connection, manifest.id, is_encrypted, manifest.started_at, manifest.finished_at
            )
    lacks_keys = bool(manifest.sealed_by) and _missing_keys(keys, manifest)
    return RestoreReport(reader.name, manifest, restored_keys, lacks_keys, aside)


async def _restore_rows(
    connection: Connection, reader: BackupReader, manifest: BackupManifest, progress: Progress
) -> str | None:
    await table_copy.lift_timeout(connection)
    now = await backups.read_time(connection)
    aside = await schema.set_aside(connection, f"replaced_{now:%Y%m%d_%H%M%S}")
    await schema.install(connection, manifest.migrations)
    await table_copy.begin_restore(connection)
    for number, table in enumerate(manifest.tables):
        progress("tables", number, len(manifest.tables))
        columns = table_copy.TableColumns(table.name, table.columns)
        data = _decompressed(table, reader.read(table.member))
        rows = await table_copy.copy_in(connection, columns, data)
        if rows != table.rows:
            raise damaged(table.member, f"it has {rows} rows instead of {table.rows}")
    await table_copy.finish_restore(connection)
    await nodes.mark_all_silent(connection)
    if await table_copy.ledger_sum(connection):
        raise damaged("ledger_entries", "its sum is not zero")
    return aside


async def _decompressed(table: TableEntry, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    decompressor = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        async for piece in pieces:
            if data := decompressor.decompress(piece):
                yield data
    except zlib.error as error:
        raise damaged(table.member, str(error)) from error
    if not decompressor.eof:
        raise damaged(table.member, "it was cut off")
    if data := decompressor.flush():
        yield data


async def _restore_blobs(
    reader: BackupReader, manifest: BackupManifest, blobs: Blobs, progress: Progress
) -> None:
    data = await join(reader.read(BLOB_LIST))
    entries = decode_blob_list(data)
    total_bytes = sum(entry.size_bytes for entry in entries)
    if (len(entries), total_bytes) != (manifest.blobs, manifest.blob_bytes):
        raise damaged(BLOB_LIST, "it does not belong to this backup")
    await verify_member(reader, BLOB_LIST, manifest.blob_list_sha256, len(data))
    there = set(await blobs.list("objects/")) | set(await blobs.list("logs/"))
    for number, entry in enumerate(entries):
        progress("files and logs", number, len(entries))
        if entry.key not in there or not await _is_same(blobs, entry):
            await blobs.put_stream(entry.key, _checked(reader, entry))


async def _checked(reader: BackupReader, entry: BlobEntry) -> AsyncIterator[bytes]:
    """Nothing is stored if the content differs: the iteration fails at its end."""
    digest = Digest()
    async for piece in digest.over(reader.read(blob_member(entry.key))):
        yield piece
    if digest.sha256 != entry.sha256:
        raise damaged(entry.key, "its content differs from what was written")


async def _is_same(blobs: Blobs, entry: BlobEntry) -> bool:
    digest = Digest()
    try:
        await digest.drain(blobs.stream(entry.key, 0, entry.size_bytes))
    except NotFound:
        return False
    return digest.sha256 == entry.sha256


async def _restore_keys(reader: BackupReader, manifest: BackupManifest, keys: KeyPlace) -> bool:
    """Writes the key file, if the backup has the keys and there is none."""
    if isinstance(keys, KeyFile) and not keys.exists():
        if manifest.has_keys:
            ring = parse((await join(reader.read(KEYS))).decode("ascii"), "the backup")
            keys.put(ring.keys)
        return manifest.has_keys
    if _missing_keys(keys, manifest):
        raise BadSettings(
            f"The keys in {keys.name} do not open this backup.",
            "Remove them, or use the keys of the server that made it:"
            f" {', '.join(manifest.sealed_by)}.",
        )
    return False


def _missing_keys(keys: KeyPlace, manifest: BackupManifest) -> bool:
    if isinstance(keys, KeyFile) and not keys.exists():
        return True
    ids = {key_id.hex() for key_id in keys.read().ids}
    return not ids.issuperset(manifest.sealed_by)


def _check_version(manifest: BackupManifest) -> None:
    checksums = {
        migration.number: migration.checksum.hex() for migration in schema.read_migrations()
    }
    if any(checksums.get(number) != checksum for number, checksum in manifest.migrations.items()):
        raise Conflict(
            f"The backup is of Potluck {manifest.version}, and this version does not know its"
            " tables.",
            "Install that version or a newer one, and restore with it.",
        )


def _not_empty() -> Conflict:
    return Conflict(
        "The database is not empty.",
        "Restore into an empty database and a new data directory (--data-dir); or set the tables"
        " that are there aside with --force.",
    )
