"""Volumes: their versions, what each is made of, and who may mount it.

The claims on the blobs of a version are pinned while the version exists. A removed version keeps
them until every task that mounts it has ended.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET, Struct

from potluck.model.blob import MOST_VERSIONS, MOST_VOLUMES, BlobRef, VolumeMount
from potluck.model.error import Conflict, NotFound, QuotaExceeded
from potluck.model.ids import AccountId, AttemptId, NodeId, TaskId
from potluck.store.database import Connection
from potluck.store.files.blobs import Stored
from potluck.store.new_ids import new_volume_id
from potluck.store.sql_files import load
from potluck.wire.consumer import MountedVolume
from potluck.wire.volumes import ChangeVolume, VolumeVersion, VolumeView

_sql = load("volumes")

_MOST_MOUNTS = 10_000  # of a removed version, that are looked at together

# Byte ranges of a blob, as start and end.
Spans = tuple[tuple[int, int], ...]


class NewVersion(Struct, frozen=True):
    """A version that is to be stored, with the bytes of each pack that it uses; None: all."""

    version: bytes
    manifest: bytes
    manifest_bytes: int
    size_bytes: int
    files: int
    spans: dict[str, Spans | None]  # by sha256


class MountableVersion(Struct, frozen=True):
    name: str
    owner: str
    is_own: bool
    version: str
    manifest: BlobRef
    size_bytes: int


class RemovedVersion(Struct, frozen=True):
    account_id: AccountId
    volume_id: str
    version: bytes


async def page(
    connection: Connection, account_id: AccountId, after: str | None, limit: int
) -> list[VolumeView]:
    """Volumes of the account, and those that are shared with it."""
    query = _sql.list(account_id=account_id, after_id=after or "", volume_id=None, limit=limit)
    return [_view(row) for row in await connection.fetch(*query)]


async def get(connection: Connection, account_id: AccountId, volume_id: str) -> VolumeView:
    query = _sql.list(account_id=account_id, after_id="", volume_id=volume_id, limit=1)
    row = await connection.fetchrow(*query)
    if row is None:
        raise no_such_volume(volume_id)
    return _view(row)


async def list_versions(connection: Connection, volume_id: str) -> list[VolumeVersion]:
    rows = await connection.fetch(*_sql.versions(volume_id=volume_id))
    return [_version(row) for row in rows]


def no_such_volume(volume_id: str) -> NotFound:
    return NotFound(f"You have no volume {volume_id[:64]}.", "`potluck volume ls` lists them.")


async def make(connection: Connection, account_id: AccountId, name: str) -> str:
    """The account's volume of this name, as an id; the caller has locked the account's use."""
    row = await connection.fetchrow(
        *_sql.make(volume_id=new_volume_id(), account_id=account_id, name=name)
    )
    if row["volumes"] > MOST_VOLUMES:
        raise QuotaExceeded(
            f"An account can have {MOST_VOLUMES:,} volumes.", "Remove some of them first."
        )
    volume_id: str = row["id"]
    return volume_id


async def check_newest(
    connection: Connection, volume_id: str, version: bytes, after: str | None
) -> None:
    """Raises if another version became the newest meanwhile, or if there are too many; not if this
    version is the newest, so that putting it is safe to repeat."""
    row = await connection.fetchrow(*_sql.newest(volume_id=volume_id))
    newest = None if row is None else row["version"].hex()
    if newest == version.hex():
        return
    if after is not None and newest != after:
        raise Conflict("The volume has another version now.", "Read it again, then repeat this.")
    if row is not None and row["versions"] >= MOST_VERSIONS:
        raise QuotaExceeded(
            f"A volume can have {MOST_VERSIONS:,} versions.",
            "Remove some, or let `potluck volume keep` do so.",
        )


async def put(
    connection: Connection, account_id: AccountId, volume_id: str, new: NewVersion
) -> VolumeVersion:
    """Makes this content the newest version. The account has the blobs, and its use is locked."""
    row = await connection.fetchrow(*_sql.put_again(volume_id=volume_id, version=new.version))
    if row is not None:
        return _version(row)
    row = await connection.fetchrow(*_sql.put(volume_id=volume_id, new=new))
    hashes = [new.manifest, *(bytes.fromhex(sha256) for sha256 in new.spans)]
    spans = ["", *(_encode(each) for each in new.spans.values())]
    await connection.execute(
        *_sql.add_blobs(
            volume_id=volume_id,
            version=new.version,
            account_id=account_id,
            hashes=hashes,
            spans=spans,
        )
    )
    await connection.execute(*_sql.pin(account_id=account_id, hashes=hashes))
    return _version(row)


def _encode(spans: Spans | None) -> str:
    return ",".join(f"{start},{end}" for start, end in spans or ())


async def lock_own(connection: Connection, account_id: AccountId, volume_id: str) -> None:
    query = _sql.lock_own(volume_id=volume_id, account_id=account_id)
    if await connection.fetchval(*query) is None:
        raise no_such_volume(volume_id)


async def remove(connection: Connection, volume_id: str, version: bytes | None) -> None:
    """Hides one version, or all; `drop` deletes them. The caller has locked the volume."""
    gone = await connection.fetch(*_sql.remove(volume_id=volume_id, version=version))
    if not gone:
        raise NotFound("The volume has no such version.", "`potluck volume show` lists them.")
    if await connection.fetchrow(*_sql.newest(volume_id=volume_id)) is None:
        await connection.execute(*_sql.forget_settings(volume_id=volume_id))


async def find_removable(
    connection: Connection, account_id: AccountId | None, most: int
) -> list[RemovedVersion]:
    """Of one account or of all; forgets which ended tasks mounted them, some at a time."""
    await connection.execute(*_sql.forget_ended_mounts(account_id=account_id, most=_MOST_MOUNTS))
    rows = await connection.fetch(*_sql.removable(account_id=account_id, limit=most))
    return [RemovedVersion(row["account_id"], row["volume_id"], row["version"]) for row in rows]


async def drop(connection: Connection, gone: RemovedVersion) -> None:
    """Deletes a removed version, unless it was put again or a task mounts it.

    The caller has locked the account's use. Its claims become due for garbage collection.
    """
    if await connection.fetchval(*_sql.lock_removable(gone=gone)) is None:
        return
    if await connection.fetchval(*_sql.is_mounted(gone=gone)):
        return
    hashes = [row["sha256"] for row in await connection.fetch(*_sql.drop_blobs(gone=gone))]
    await connection.execute(*_sql.unpin(gone=gone, hashes=hashes))
    await connection.execute(*_sql.drop_version(gone=gone))
    await connection.execute(*_sql.drop_empty(gone=gone))


async def expire(connection: Connection) -> None:
    """Removes versions that their owners' rules do not keep."""
    await connection.execute(*_sql.expire())


async def change(connection: Connection, volume_id: str, wanted: ChangeVolume) -> None:
    """The wallets are in their checksummed spelling; the caller has locked the volume."""
    if wanted.shared_with is not UNSET:
        wallets = list(dict.fromkeys(wanted.shared_with))
        await connection.execute(*_sql.share(volume_id=volume_id, wallets=wallets))
    sets_versions, sets_seconds = (
        wanted.keep_versions is not UNSET,
        wanted.keep_seconds is not UNSET,
    )
    await connection.execute(
        *_sql.change(
            volume_id=volume_id,
            sets_versions=sets_versions,
            keep_versions=wanted.keep_versions if sets_versions else None,
            sets_seconds=sets_seconds,
            keep_seconds=wanted.keep_seconds if sets_seconds else None,
        )
    )


async def list_mountable(
    connection: Connection, account_id: AccountId, names: Sequence[str]
) -> list[MountableVersion]:
    """Versions of volumes with these names, own and shared, newest first."""
    rows = await connection.fetch(*_sql.mountable(account_id=account_id, names=names))
    return [
        MountableVersion(
            row["name"],
            row["owner"],
            row["is_own"],
            row["version"].hex(),
            BlobRef(row["manifest"].hex(), row["manifest_bytes"]),
            row["size_bytes"],
        )
        for row in rows
    ]


async def mount(connection: Connection, mounted: Mapping[TaskId, Sequence[VolumeMount]]) -> None:
    """Records the versions of new tasks, all in one call; raises if one was removed meanwhile."""
    rows = [(task_id, each) for task_id, mounts in mounted.items() for each in mounts]
    if not rows:
        return
    held = await connection.fetchval(
        *_sql.mount(
            task_ids=[task_id for task_id, _ in rows],
            owners=[each.owner for _, each in rows],
            names=[each.name for _, each in rows],
            versions=[bytes.fromhex(each.version or "") for _, each in rows],
        )
    )
    if held < len(rows):
        raise Conflict("A volume that the task mounts was just removed.", "Submit it again.")


async def of_attempt(
    connection: Connection, attempt_id: AttemptId, node_id: NodeId, sha256: str
) -> Stored | None:
    """A blob of a version that the task of a live attempt mounts, for its node."""
    query = _sql.of_attempt(attempt_id=attempt_id, node_id=node_id, sha256=bytes.fromhex(sha256))
    return _stored(sha256, await connection.fetch(*query))


async def of_reader(connection: Connection, account_id: AccountId, sha256: str) -> Stored | None:
    """A blob of a volume that is shared with the account."""
    query = _sql.of_reader(account_id=account_id, sha256=bytes.fromhex(sha256))
    return _stored(sha256, await connection.fetch(*query))


async def list_holders(
    connection: Connection, mounts: Sequence[VolumeMount]
) -> list[MountedVolume]:
    """Which nodes hold these volumes of a task."""
    keys = [mount.held_key for mount in mounts]
    rows = await connection.fetch(*_sql.holders(keys=keys))
    return [
        MountedVolume(mount.name, mount.version or "", row["nodes"], row["node_names"])
        for mount, row in zip(mounts, rows, strict=True)
    ]


def _stored(sha256: str, rows: Sequence[Any]) -> Stored | None:
    """Several versions may have different bytes of the same pack."""
    if not rows:
        return None
    blob = BlobRef(sha256, rows[0]["size_bytes"])
    if any(row["spans"] is None for row in rows):
        return Stored(blob, rows[0]["object_key"])
    flat = [list(row["spans"]) for row in rows]
    spans = [pair for each in flat for pair in zip(each[::2], each[1::2], strict=True)]
    return Stored(blob, rows[0]["object_key"], tuple(sorted(set(spans))))


def _view(row: Any) -> VolumeView:
    return VolumeView(
        row["id"],
        row["name"],
        row["owner"],
        row["is_own"],
        _version(row),
        row["versions"],
        row["stored_bytes"],
        row["shared_with"],
        row["keep_versions"],
        row["keep_seconds"],
    )


def _version(row: Any) -> VolumeVersion:
    return VolumeVersion(
        row["version"].hex(),
        BlobRef(row["manifest"].hex(), row["manifest_bytes"]),
        row["size_bytes"],
        row["files"],
        row["put_at"],
        row["used_at"],
    )
