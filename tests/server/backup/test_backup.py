"""What a backup has is what the database and the store had at one moment, wherever it goes."""

import asyncio
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace

from potluck.blobs.directory import DirectoryBlobs
from potluck.live.in_process import InProcessLive
from potluck.model.error import BackupDamaged, BadSettings, Conflict, DataDirectoryInUse, NotFound
from potluck.model.task import TaskState
from potluck.server.backup.archive import FileBackup
from potluck.server.backup.directory import DirectoryBackups
from potluck.server.backup.encryption import BackupSecret
from potluck.server.backup.place import BackupPlace
from potluck.server.backup.restore import RestoreReport, restore_backup
from potluck.server.backup.run import BackupOptions, BackupReport, make_backup
from potluck.server.encryption.key_sources import KeyFile
from potluck.server.flow.housekeeping import garbage
from potluck.server.flow.housekeeping.expire import expire_once
from potluck.store import backups
from potluck.store.database import Database
from potluck.store.scheduler import leader
from potluck.store.schema import migrate
from potluck.wire.provider import Started
from tests.databases import Databases
from tests.server.flow.blob_uploads import send
from tests.server.flow.housekeeping.test_garbage import hurried
from tests.server.flow.pool import Pool, done, lease_of

SECRET = BackupSecret(b"a key of a key file of 32 bytes.", is_passphrase=False)
KEYS = bytes(32).hex().encode()


BackUp = Callable[..., Awaitable[BackupReport]]


@pytest.fixture
def back_up(pool: Pool, any_database_url: str) -> BackUp:
    async def back_up(place: BackupPlace, **options: Any) -> BackupReport:
        backup_options = BackupOptions(**options)
        return await make_backup(
            any_database_url, pool.services.blobs, place, backup_options, lambda *_: None
        )

    return back_up


@pytest.fixture
def other(databases: Databases) -> Iterator[str]:
    """An empty database."""
    with databases.empty() as url:
        yield url


async def restore(
    place: BackupPlace, url: str, directory: Path, name: str | None = None, force: bool = False
) -> RestoreReport:
    keys = KeyFile(directory / "encryption-key")
    directory.mkdir(exist_ok=True)
    with place.read(name) as reader:
        blobs = DirectoryBlobs(directory / "blobs")
        return await restore_backup(
            url, blobs, keys, reader, place.is_encrypted, force, lambda *_: None
        )


async def table(url: str, statement: str) -> Any:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


@pytest.mark.every_postgres
@pytest.mark.parametrize("kind", ["directory", "encrypted file"])
async def test_a_restored_pool_equals_the_original(
    kind: str, pool: Pool, back_up: BackUp, other: str, tmp_path: Path
) -> None:
    """Also from another version of PostgreSQL."""
    await pool.submit()
    blob = await send(pool, b"weights" * 30_000)
    place: BackupPlace = DirectoryBackups.create(tmp_path / "to", None)
    if kind == "encrypted file":
        place = FileBackup(tmp_path / "to.potluck", SECRET)
    report = await back_up(place, keys=KEYS if place.is_encrypted else None)
    assert report.manifest.blobs == 1 and report.manifest.missing_blobs == 0
    assert await pool.sql("SELECT count(*) FROM backups WHERE finished_at IS NOT NULL") == 1
    restored = await restore(place, other, tmp_path / "restored")
    assert restored.restored_keys is place.is_encrypted is not restored.lacks_keys
    for name in ("accounts", "tasks", "blobs", "ledger_entries", "events", "audit"):
        count = f"SELECT count(*) FROM {name}"
        assert await table(other, count) == await pool.sql(count), name
    assert await table(other, "SELECT id FROM backups") == report.manifest.id
    # Numbers go on beyond all that were given, and changes are those of this database.
    assert await table(other, "SELECT nextval(pg_get_serial_sequence('events', 'id'))") > 10**6
    newest = "SELECT max(changed::text::bigint) <= pg_current_xact_id()::text::bigint FROM tasks"
    assert await table(other, newest)
    assert await table(other, "SELECT count(*) FROM pg_trigger WHERE tgenabled = 'D'") == 0
    stored = DirectoryBlobs(tmp_path / "restored" / "blobs")
    (key,) = await stored.list("objects/")
    assert await stored.get(key) == b"weights" * 30_000
    assert blob.size_bytes == 210_000


async def test_files_are_copied_once_and_old_backups_go(
    pool: Pool, back_up: BackUp, tmp_path: Path
) -> None:
    place = DirectoryBackups.create(tmp_path / "to", SECRET)
    await send(pool, b"first" * 10_000)
    first = await back_up(place)
    await send(pool, b"second" * 10_000)
    second = await back_up(DirectoryBackups.open(tmp_path / "to", SECRET), is_thorough=True)
    assert second.manifest.blobs == 2 and second.new_bytes < first.new_bytes + 10_000 + 60_000
    assert second.new_bytes < second.manifest.size_bytes
    assert place.names() == [first.name, second.name]
    await pool.sql("UPDATE blob_claims SET pinned_until = now(), look_at = now()")
    for _ in range(2):
        await garbage.release_unused_claims(hurried(pool))
        await asyncio.sleep(0.005)
        await garbage.remove_marked(hurried(pool))
    third = await back_up(place, keep=1)
    assert third.removed == 2 and place.names() == [third.name]
    assert list((tmp_path / "to" / "blobs").rglob("*.*")) == [] and third.manifest.blobs == 0


async def test_a_backup_needs_its_secret_and_one_at_a_time(
    pool: Pool, back_up: BackUp, tmp_path: Path
) -> None:
    DirectoryBackups.create(tmp_path / "to", SECRET)
    for secret in (None, BackupSecret(bytes(32), is_passphrase=False)):
        with pytest.raises(BadSettings):
            DirectoryBackups.create(tmp_path / "to", secret)
    place = DirectoryBackups.open(tmp_path / "to", SECRET)
    with place.write("one"), pytest.raises(DataDirectoryInUse):
        await back_up(place)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    with pytest.raises(BadSettings):
        DirectoryBackups.create(tmp_path / "other", None)


def test_an_invalid_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("text")
    for path in (tmp_path / "thesis.tex", tmp_path / "thesis.tex" / "to", Path("/proc/to")):
        with pytest.raises(BadSettings, match=f"{path} cannot be made or read"):
            DirectoryBackups.create(path, None)
    assert (tmp_path / "thesis.tex").read_text() == "text"


async def test_an_existing_database_is_replaced_only_with_force(
    back_up: BackUp, other: str, tmp_path: Path
) -> None:
    place = DirectoryBackups.create(tmp_path / "to", None)
    await back_up(place)
    await migrate(other)
    with pytest.raises(Conflict):
        await restore(place, other, tmp_path / "restored")
    report = await restore(place, other, tmp_path / "restored", force=True)
    assert report.set_aside is not None
    assert await table(other, f"SELECT count(*) FROM {report.set_aside}.accounts") == 0
    assert await table(other, "SELECT count(*) FROM accounts") > 0


async def test_a_damaged_backup_changes_nothing(
    pool: Pool, back_up: BackUp, other: str, tmp_path: Path
) -> None:
    await send(pool, b"weights" * 1_000)
    place = DirectoryBackups.create(tmp_path / "to", None)
    report = await back_up(place)
    folder = tmp_path / "to" / "backups" / report.name
    (blob,) = (path for path in (tmp_path / "to" / "blobs").rglob("*") if path.is_file())
    for part in (blob, folder / "database" / "tasks.copy.gz", folder / "blobs.json.gz"):
        original = part.read_bytes()
        part.write_bytes(original[:-1])
        with pytest.raises(BackupDamaged):
            await restore(place, other, tmp_path / "restored")
        part.unlink()
        with pytest.raises(BackupDamaged):
            await restore(place, other, tmp_path / "restored")
        part.write_bytes(original)
    assert await table(other, "SELECT to_regclass('accounts')") is None
    assert (await restore(place, other, tmp_path / "restored")).manifest.blobs == 1


@pytest.mark.parametrize("secret", [None, SECRET], ids=["plain", "encrypted"])
async def test_damaged_copies_are_replaced_if_all_is_read(
    secret: BackupSecret | None, pool: Pool, back_up: BackUp, tmp_path: Path
) -> None:
    await send(pool, b"weights" * 1_000)
    place = DirectoryBackups.create(tmp_path / "to", secret)
    assert (await back_up(place)).read_blobs == 1
    (blob,) = (path for path in (tmp_path / "to" / "blobs").rglob("*") if path.is_file())
    original = blob.read_bytes()
    blob.write_bytes(original[:-1] + bytes([original[-1] ^ 1]))
    quick = await back_up(place)
    assert (quick.read_blobs, quick.replaced_blobs) == (0, 0), "only new files are read"
    thorough = await back_up(place, is_thorough=True)
    assert (thorough.read_blobs, thorough.replaced_blobs) == (1, 1)
    second_backup = await back_up(place, is_thorough=True)
    assert (second_backup.read_blobs, second_backup.replaced_blobs) == (1, 0)
    blob.write_bytes(bytes(len(original)))
    await pool.services.blobs.delete(await pool.services.blobs.list("objects/"))
    with pytest.raises(BackupDamaged):
        await back_up(place, is_thorough=True)


@pytest.mark.parametrize("kind", ["directory", "file", "encrypted file"])
async def test_blobs_missing_in_the_store_are_counted(
    kind: str, pool: Pool, back_up: BackUp, other: str, tmp_path: Path
) -> None:
    """The rest is restored."""
    await send(pool, b"weights")
    missing = await pool.services.blobs.list("objects/")
    await pool.services.blobs.delete(missing)
    await send(pool, b"others")
    place: BackupPlace = DirectoryBackups.create(tmp_path / "to", None)
    if kind != "directory":
        place = FileBackup(tmp_path / "to.potluck", SECRET if kind == "encrypted file" else None)
    report = await back_up(place)
    assert report.manifest.missing_blobs == report.manifest.blobs == 1
    async with pool.services.database.transaction() as connection:
        assert await backups.latest_finished_at(connection) is not None
    await restore(place, other, tmp_path / "restored")
    assert len(await DirectoryBlobs(tmp_path / "restored" / "blobs").list("objects/")) == 1


async def test_a_member_that_fails_leaves_nothing_in_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does writing one need `addfile` without a file, which Python 3.13 refuses."""
    monkeypatch.setattr(tarfile.TarFile, "addfile", _add_as_python_3_13(tarfile.TarFile.addfile))

    async def pieces(*parts: bytes | Exception) -> AsyncIterator[bytes]:
        for part in parts:
            if isinstance(part, Exception):
                raise part
            yield part

    place = FileBackup(tmp_path / "to.potluck", None)
    with place.write("one") as writer:
        await writer.write("first", 5, pieces(b"first"))
        with pytest.raises(NotFound):
            await writer.write("lost", 2000, pieces(b"lost" * 200, NotFound("It is gone.", "")))
        with pytest.raises(BackupDamaged):
            await writer.write("short", 9, pieces(b"short"))
        await writer.write("second", 6, pieces(b"second"))
        writer.commit()
    with tarfile.open(tmp_path / "to.potluck") as archive:
        assert archive.getnames()[1:] == ["first", "second"]
    with place.read(None) as reader:
        assert [piece async for piece in reader.read("second")] == [b"second"]


def _add_as_python_3_13(add: Callable[..., None]) -> Callable[..., None]:
    def add_file(archive: tarfile.TarFile, info: tarfile.TarInfo, file: Any = None) -> None:
        if file is None and info.size:
            raise ValueError("fileobj not provided for non zero-size regular file")
        add(archive, info, file)

    return add_file


async def test_a_failed_backup_no_longer_guards(
    pool: Pool, back_up: BackUp, tmp_path: Path
) -> None:
    await send(pool, b"weights")
    (key,) = await pool.services.blobs.list("objects/")
    await pool.services.blobs.put(key, b"weightz")
    place = DirectoryBackups.create(tmp_path / "to", None)
    with pytest.raises(BackupDamaged):
        await back_up(place)
    assert place.names() == [] and await pool.sql("SELECT count(*) FROM backups") == 0


async def test_nodes_that_know_more_than_the_restored_server_go_on(
    pool: Pool, back_up: BackUp, other: str, tmp_path: Path
) -> None:
    """One attempt runs at the backup and goes on, one has ended since, and one began after it."""
    await pool.give(pool.alice, 1_000_000_000)
    node_id, running = await pool.started(price_micro_per_hour=3_600_000)
    await pool.say(node_id, lease_of(running), 0, "begun")
    ended_node, ended_grant = await pool.started(price_micro_per_hour=3_600_000)
    place = DirectoryBackups.create(tmp_path / "to", None)
    await back_up(place)
    assert await pool.report(ended_node, done(ended_grant)) == ["accepted"]
    await pool.beat(ended_node)
    await pool.submit()
    await pool.plan()
    late_grants = [*await pool.fetch(node_id, lease_of(running)), *await pool.fetch(ended_node)]
    assert len(late_grants) == 1

    await restore(place, other, tmp_path / "restored")
    assert await table(other, "SELECT DISTINCT state FROM nodes") == "silent", "until they return"
    database = await Database.connect(other, 8)
    try:
        restored_pool = await lead_again(
            pool, database, DirectoryBlobs(tmp_path / "restored" / "blobs")
        )
        await restored_pool.check()
        held_leases = lease_of(running), lease_of(late_grants[0])
        assert await restored_pool.beat(node_id, *held_leases) == [late_grants[0].attempt_id], (
            "that one is unknown"
        )
        assert await restored_pool.say(node_id, lease_of(running), 1, "more") == 2
        assert await restored_pool.report(node_id, done(running)) == ["accepted"]
        assert (await restored_pool.task(running.task_id)).state is TaskState.SUCCEEDED
        assert await restored_pool.report(ended_node, done(late_grants[0])) == ["stale_lease"]
        # Nobody has it any more, so its lease ends, and it runs again.
        await restored_pool.sql(
            "UPDATE attempts SET lease_expires_at = now() WHERE finished_at IS NULL"
        )
        await restored_pool.beat(ended_node)
        await expire_once(restored_pool.services, restored_pool.leads)
        await restored_pool.plan()
        (grant,) = await restored_pool.fetch(node_id)  # where it was not lost
        assert grant.task_id == ended_grant.task_id
        reports = Started(lease_of(grant)), done(grant)
        assert await restored_pool.report(node_id, *reports) == ["accepted", "accepted"]
        await restored_pool.check()
        assert await restored_pool.sql("SELECT sum(amount_micro)::bigint FROM ledger_entries") == 0
    finally:
        await database.close()


async def lead_again(pool: Pool, database: Database, blobs: DirectoryBlobs) -> Pool:
    """The restored server, with the keys of the first one."""
    services = replace(pool.services, database=database, blobs=blobs, live=InProcessLive())
    async with database.transaction() as connection:
        leadership = await leader.acquire_or_renew(connection, "restored", 3600)
    assert leadership is not None and leadership.term > pool.leads.term, "no instance leads"
    return Pool(services, pool.alice, pool.bob, leadership)
