"""Blobs: which bytes are stored, which accounts claim them, and which tasks name them.

A hash is no capability. An account may name blobs it has a claim on, an attempt those it has sent
itself, and a node reads those that the task of its live attempt names.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from potluck.model.blob import BlobRef, NamedFile
from potluck.model.error import InvalidInput, NotFound
from potluck.model.ids import AccountId, AttemptId, NodeId, TaskId
from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("blobs")


class Stored(Struct, frozen=True):
    """Bytes, and the object that holds them."""

    blob: BlobRef
    object_key: str
    # What may be read of it, as start and end; None: all. Of a pack that a volume shares with
    # another one, the chunks of that volume only.
    spans: tuple[tuple[int, int], ...] | None = None

    def may_read(self, start: int, end: int) -> bool:
        spans = self.spans
        return spans is None or any(first <= start and end <= last for first, last in spans)


class BlobSource(Struct, frozen=True):
    """An attempt, with its task and account."""

    attempt_id: AttemptId
    task_id: TaskId
    account_id: AccountId


class SendingAttempt(BlobSource, frozen=True):
    """A live attempt that sends data, and its node."""

    node_id: NodeId


class StorageUse(Struct, frozen=True):
    """An account's storage use, and its own limit, if it has one."""

    used_bytes: int
    max_blob_bytes: int | None
    added_bytes: int  # by the new bytes


class LeftFiles(Struct, frozen=True):
    attempt_id: AttemptId
    number: int


class TaskEnd(Struct, frozen=True):
    """When a task ended, and whether its data was deleted."""

    at: datetime | None  # None while it has not ended
    is_cleared: bool


async def lock_use(
    connection: Connection, account_id: AccountId, new_sizes: Sequence[int] = ()
) -> StorageUse:
    """Locks the account's storage use."""
    row = await connection.fetchrow(*_sql.lock_use(account_id=account_id, new_sizes=new_sizes))
    return StorageUse(row["used_bytes"], row["max_blob_bytes"], row["added_bytes"])


async def extend_pin(
    connection: Connection, account_id: AccountId, blob: BlobRef, pin: timedelta
) -> bool:
    """Whether the account has these bytes; if so, they are kept longer."""
    renewed_hash = await connection.fetchval(
        *_sql.renew(
            account_id=account_id,
            sha256=bytes.fromhex(blob.sha256),
            size_bytes=blob.size_bytes,
            pin_duration=pin,
        )
    )
    return renewed_hash is not None


async def lock_claims(
    connection: Connection, account_id: AccountId, hashes: Iterable[str]
) -> dict[str, int]:
    """Sizes of those the account has; their claims are locked."""
    digests = [bytes.fromhex(sha256) for sha256 in set(hashes)]
    rows = await connection.fetch(*_sql.hold(account_id=account_id, hashes=digests))
    return {row["sha256"].hex(): row["size_bytes"] for row in rows}


async def add(
    connection: Connection, account_id: AccountId, new: Sequence[Stored], pin: timedelta
) -> list[str]:
    """Gives the bytes to the account. Returns the keys of objects that are not needed.

    Each blob occurs once; the caller has locked the account's use.
    """
    hashes = [bytes.fromhex(stored.blob.sha256) for stored in new]
    sizes = [stored.blob.size_bytes for stored in new]
    keys = [stored.object_key for stored in new]
    rows = await connection.fetch(*_sql.register(hashes=hashes, sizes=sizes, object_keys=keys))
    await connection.execute(
        *_sql.claim(account_id=account_id, hashes=hashes, sizes=sizes, pin_duration=pin)
    )
    return sorted(set(keys) - {row["object_key"] for row in rows})


async def claim_inputs(
    connection: Connection, account_id: AccountId, named: Mapping[TaskId, Sequence[BlobRef]]
) -> None:
    """Records the inputs of new tasks; the account must have each of them, in that size.

    All in one call: task by task, claims would be locked in arbitrary order.
    """
    inputs = {(task_id, blob): blob.sha256 for task_id, refs in named.items() for blob in refs}
    if not inputs:
        return
    for blob in await find_missing(connection, account_id, [blob for _, blob in inputs]):
        raise blob_not_claimed(blob)
    await connection.execute(
        *_sql.name_input(
            account_id=account_id,
            task_ids=[task_id for task_id, _ in inputs],
            hashes=[bytes.fromhex(sha256) for sha256 in inputs.values()],
            sizes=[blob.size_bytes for _, blob in inputs],
        )
    )


async def find_missing(
    connection: Connection, account_id: AccountId, refs: Sequence[BlobRef]
) -> list[BlobRef]:
    """Those the account does not have in that size; locks the claims on the others."""
    sizes = (
        await lock_claims(connection, account_id, [blob.sha256 for blob in refs]) if refs else {}
    )
    return [blob for blob in refs if sizes.get(blob.sha256) != blob.size_bytes]


def blob_not_claimed(blob: BlobRef) -> InvalidInput:
    """The same for a blob that does not exist and one of another account."""
    return InvalidInput(
        f"This account has no blob {blob.sha256} of {blob.size_bytes} bytes.",
        "Upload it first; unused uploads are deleted after a while.",
    )


async def find_sender(
    connection: Connection, attempt_id: AttemptId, node_id: NodeId
) -> SendingAttempt | None:
    row = await connection.fetchrow(*_sql.sender(attempt_id=attempt_id, node_id=node_id))
    if row is None:
        return None
    return SendingAttempt(attempt_id, row["task_id"], row["account_id"], node_id)


async def lock_sender(connection: Connection, sender: SendingAttempt) -> bool:
    """Whether the attempt is live; locks it."""
    await connection.execute(*_sql.lock_task_of_sender(attempt_id=sender.attempt_id))
    locked_sender = await connection.fetchval(*_sql.lock_sender(sender=sender))
    return locked_sender is not None


async def hold_sent(
    connection: Connection, sender: SendingAttempt, blobs: Sequence[BlobRef]
) -> None:
    """Keeps blobs that the attempt has sent until it names their purpose."""
    files = [NamedFile(blob.sha256, blob) for blob in blobs]
    await _name(connection, sender, "held", files)


async def find_unsent(
    connection: Connection, attempt_id: AttemptId, blobs: Sequence[BlobRef]
) -> list[BlobRef]:
    """Those that this attempt has not sent."""
    hashes = [bytes.fromhex(blob.sha256) for blob in blobs]
    rows = await connection.fetch(*_sql.sent(attempt_id=attempt_id, hashes=hashes))
    sent = {BlobRef(row["sha256"].hex(), row["size_bytes"]) for row in rows}
    return [blob for blob in blobs if blob not in sent]


async def check_sent(
    connection: Connection, attempt_id: AttemptId, blobs: Sequence[BlobRef]
) -> None:
    for missing in await find_unsent(connection, attempt_id, blobs):
        raise InvalidInput(
            f"This attempt has not sent a blob {missing.sha256} of {missing.size_bytes} bytes.",
            "Upload it under the same lease first.",
        )


async def leave_files(
    connection: Connection, sender: SendingAttempt, files: Sequence[NamedFile]
) -> int:
    """Records output files, all sent before. Returns the number of the attempt's files."""
    await _name(connection, sender, "output", files)
    await _let_go(connection, sender.attempt_id, [file.blob for file in files])
    left: int = await connection.fetchval(*_sql.files_left(attempt_id=sender.attempt_id))
    return left


async def keep_values(
    connection: Connection,
    account_id: AccountId,
    task_id: TaskId,
    attempt_id: AttemptId,
    values: Sequence[tuple[int, BlobRef]],
) -> None:
    """Records results that are blobs, by their first item; the attempt has sent them."""
    if not values:
        return
    blobs = [blob for _, blob in values]
    await check_sent(connection, attempt_id, blobs)
    files = [NamedFile(str(item), blob) for item, blob in values]
    await _name(connection, BlobSource(attempt_id, task_id, account_id), "result", files)
    await _let_go(connection, attempt_id, blobs)


async def keep_checkpoint(connection: Connection, sender: SendingAttempt, blob: BlobRef) -> None:
    """Replaces the checkpoint; the attempt has sent it, perhaps with an earlier try of this call.

    The caller has locked the account's use: of two concurrent calls, the later one wins.
    """
    sha256 = bytes.fromhex(blob.sha256)
    row = await connection.fetchrow(*_sql.checkpoint(task_id=sender.task_id, sha256=sha256))
    if row["is_array"]:
        raise InvalidInput("An array has no checkpoint: its progress is tracked per item.")
    if row["is_kept"]:
        return
    await check_sent(connection, sender.attempt_id, [blob])
    await connection.execute(*_sql.replace_checkpoint(task_id=sender.task_id))
    await connection.execute(
        *_sql.keep_checkpoint(sender=sender, sha256=sha256, size_bytes=blob.size_bytes)
    )
    await _let_go(connection, sender.attempt_id, [blob])


async def of_account(connection: Connection, account_id: AccountId, sha256: str) -> Stored | None:
    row = await connection.fetchrow(
        *_sql.of_account(account_id=account_id, sha256=bytes.fromhex(sha256))
    )
    return None if row is None else Stored(BlobRef(sha256, row["size_bytes"]), row["object_key"])


async def of_attempt(
    connection: Connection, attempt_id: AttemptId, node_id: NodeId, sha256: str
) -> Stored | None:
    """A blob that the task of a live attempt names for its node."""
    row = await connection.fetchrow(
        *_sql.of_attempt(attempt_id=attempt_id, node_id=node_id, sha256=bytes.fromhex(sha256))
    )
    return None if row is None else Stored(BlobRef(sha256, row["size_bytes"]), row["object_key"])


def no_such_blob(sha256: str) -> NotFound:
    return NotFound(
        f"You have no blob {sha256[:64]}.", "`potluck files` lists the files of a task."
    )


async def attempt_with_files(
    connection: Connection, task_id: TaskId, number: int | None
) -> LeftFiles | None:
    row = await connection.fetchrow(*_sql.attempt_with_files(task_id=task_id, number=number))
    return None if row is None else LeftFiles(row["id"], row["number"])


async def list_files(
    connection: Connection, task_id: TaskId, attempt_id: AttemptId, after: str, limit: int
) -> list[NamedFile]:
    rows = await connection.fetch(
        *_sql.files(task_id=task_id, attempt_id=attempt_id, after_path=after, limit=limit)
    )
    return _files(rows)


async def list_array_files(
    connection: Connection, task_id: TaskId, after: str, limit: int
) -> list[NamedFile]:
    """The files of all attempts of an array."""
    query = _sql.files_of_all(task_id=task_id, after_path=after, limit=limit)
    return _files(await connection.fetch(*query))


def _files(rows: Sequence[Any]) -> list[NamedFile]:
    return [NamedFile(row["path"], BlobRef(row["sha256"].hex(), row["size_bytes"])) for row in rows]


async def read_task_end(connection: Connection, task_id: TaskId, account_id: AccountId) -> TaskEnd:
    row = await connection.fetchrow(*_sql.end(task_id=task_id, account_id=account_id))
    return TaskEnd(row["finished_at"], row["is_cleared"])


async def _name(
    connection: Connection, source: BlobSource, role: str, files: Sequence[NamedFile]
) -> None:
    """Of two with the same path, the last counts."""
    last = {file.path: file.blob for file in files}
    await connection.execute(
        *_sql.name_for_attempt(
            source=source,
            role=role,
            paths=list(last),
            hashes=[bytes.fromhex(blob.sha256) for blob in last.values()],
            sizes=[blob.size_bytes for blob in last.values()],
        )
    )


async def _let_go(connection: Connection, attempt_id: AttemptId, blobs: Sequence[BlobRef]) -> None:
    """Drops the temporary hold: the blobs now have a purpose."""
    hashes = [bytes.fromhex(blob.sha256) for blob in blobs]
    await connection.execute(*_sql.let_go(attempt_id=attempt_id, hashes=hashes))
