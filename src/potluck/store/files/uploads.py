"""Uploads in progress: which parts are stored, and for which account."""

from datetime import timedelta
from typing import Any

from msgspec import Struct

from potluck.model.blob import BlobRef
from potluck.model.ids import AccountId, AttemptId, NodeId
from potluck.store.database import Connection
from potluck.store.new_ids import new_upload_id
from potluck.store.sql_files import load

_sql = load("uploads")


class StoredUpload(Struct, frozen=True):
    id: str
    account_id: AccountId
    attempt_id: AttemptId | None  # that sends it; None for the account itself
    blob: BlobRef
    part_bytes: int
    parts_done: int
    is_finished: bool  # kept for repeated requests: the account has the bytes,
    is_wrong: bool  # or their hash was wrong

    @property
    def parts(self) -> int:
        return -(-self.blob.size_bytes // self.part_bytes)

    def bytes_of(self, number: int) -> int:
        """The size of this part; the last one may be shorter."""
        return min(self.part_bytes, self.blob.size_bytes - number * self.part_bytes)


async def begin(
    connection: Connection,
    account_id: AccountId,
    attempt_id: AttemptId | None,
    blob: BlobRef,
    part_bytes: int,
) -> StoredUpload:
    """The upload in progress, or a new one; the caller has locked the account's use."""
    row = await connection.fetchrow(
        *_sql.begin(
            upload_id=new_upload_id(),
            account_id=account_id,
            attempt_id=attempt_id,
            sha256=bytes.fromhex(blob.sha256),
            size_bytes=blob.size_bytes,
            part_bytes=part_bytes,
        )
    )
    return _upload(row)


async def find_active(
    connection: Connection, account_id: AccountId, attempt_id: AttemptId | None, sha256: str
) -> StoredUpload | None:
    row = await connection.fetchrow(
        *_sql.under_way(account_id=account_id, attempt_id=attempt_id, sha256=bytes.fromhex(sha256))
    )
    return None if row is None else _upload(row)


async def of_account(
    connection: Connection, upload_id: str, account_id: AccountId
) -> StoredUpload | None:
    row = await connection.fetchrow(*_sql.of_account(upload_id=upload_id, account_id=account_id))
    return None if row is None else _upload(row)


async def of_node(connection: Connection, upload_id: str, node_id: NodeId) -> StoredUpload | None:
    row = await connection.fetchrow(*_sql.of_node(upload_id=upload_id, node_id=node_id))
    return None if row is None else _upload(row)


async def count_part(connection: Connection, upload_id: str, number: int) -> StoredUpload | None:
    """None if it was counted before, or the upload no longer exists."""
    row = await connection.fetchrow(*_sql.count_part(upload_id=upload_id, number=number))
    return None if row is None else _upload(row)


async def finish(connection: Connection, upload_id: str, *, is_wrong: bool) -> bool:
    """False if it is not in progress: it was finished by another call, or abandoned."""
    finished_id = await connection.fetchval(*_sql.finish(upload_id=upload_id, is_wrong=is_wrong))
    return finished_id is not None


async def find_finished(connection: Connection, upload_id: str) -> StoredUpload | None:
    row = await connection.fetchrow(*_sql.finished(upload_id=upload_id))
    return None if row is None else _upload(row)


async def abandon(connection: Connection, upload_id: str) -> None:
    await connection.execute(*_sql.give_up(upload_id=upload_id))


async def delete_finished(connection: Connection, retention: timedelta) -> None:
    await connection.execute(*_sql.forget_finished(older_than=retention))


async def list_idle(
    connection: Connection, retention: timedelta, most: int
) -> list[tuple[str, AccountId]]:
    rows = await connection.fetch(*_sql.idle(older_than=retention, limit=most))
    return [(row["id"], row["account_id"]) for row in rows]


async def drop_idle(connection: Connection, upload_id: str, retention: timedelta) -> bool:
    """False if another part arrived; the caller has locked the account's use."""
    dropped_id = await connection.fetchval(
        *_sql.drop_idle(upload_id=upload_id, older_than=retention)
    )
    return dropped_id is not None


async def find_active_ids(connection: Connection, upload_ids: list[str]) -> set[str]:
    """Those that are in progress."""
    return {row["id"] for row in await connection.fetch(*_sql.known(upload_ids=upload_ids))}


def _upload(row: Any) -> StoredUpload:
    blob = BlobRef(row["sha256"].hex(), row["size_bytes"])
    return StoredUpload(
        row["id"],
        row["account_id"],
        row["attempt_id"],
        blob,
        row["part_bytes"],
        row["parts_done"],
        row["is_finished"],
        row["is_wrong"],
    )
