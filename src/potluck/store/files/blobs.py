"""Blobs: which bytes there are, who has a claim on them, and what tasks name them for.

A hash is no key. An account may name what it has a claim on, an attempt what it has sent itself,
and a node reads what the task of a live attempt names for it.
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


class BlobSource(Struct, frozen=True):
    """An attempt, and whose task it is about."""

    attempt_id: AttemptId
    task_id: TaskId
    account_id: AccountId


class SendingAttempt(BlobSource, frozen=True):
    """A live one that sends something, and from where."""

    node_id: NodeId


class StorageUse(Struct, frozen=True):
    """How much an account has, and the most that an admin lets it have, if one said so."""

    used_bytes: int
    max_blob_bytes: int | None
    added_bytes: int  # how much more it would be


class LeftFiles(Struct, frozen=True):
    attempt_id: AttemptId
    number: int


class End(Struct, frozen=True):
    """Of a task, and of what it left."""

    at: datetime | None  # None as long as it is not over
    is_cleared: bool


async def lock_use(
    connection: Connection, account_id: AccountId, new_sizes: Sequence[int] = ()
) -> StorageUse:
    """Nobody else adds to what the account has before this transaction ends."""
    row = await connection.fetchrow(*_sql.lock_use(account_id=account_id, new_sizes=new_sizes))
    return StorageUse(row["used_bytes"], row["max_blob_bytes"], row["added_bytes"])


async def used_bytes(connection: Connection, account_id: AccountId) -> int:
    used: int | None = await connection.fetchval(*_sql.used_bytes(account_id=account_id))
    return used or 0


async def renew(
    connection: Connection, account_id: AccountId, blob: BlobRef, pin: timedelta
) -> bool:
    """Whether the account has these bytes; if so, they stay for a while longer."""
    found = await connection.fetchval(
        *_sql.renew(
            account_id=account_id,
            sha256=bytes.fromhex(blob.sha256),
            size_bytes=blob.size_bytes,
            pin_duration=pin,
        )
    )
    return found is not None


async def hold(
    connection: Connection, account_id: AccountId, hashes: Iterable[str]
) -> dict[str, int]:
    """Sizes of those of these that the account has; they stay until this transaction ends."""
    wanted = [bytes.fromhex(each) for each in set(hashes)]
    rows = await connection.fetch(*_sql.hold(account_id=account_id, hashes=wanted))
    return {row["sha256"].hex(): row["size_bytes"] for row in rows}


async def add(
    connection: Connection, account_id: AccountId, new: Sequence[Stored], pin: timedelta
) -> list[str]:
    """The account has these from now on. Returns the keys of objects that nobody needs.

    Each is there once; the caller has the account's use locked.
    """
    hashes = [bytes.fromhex(each.blob.sha256) for each in new]
    sizes = [each.blob.size_bytes for each in new]
    keys = [each.object_key for each in new]
    rows = await connection.fetch(*_sql.register(hashes=hashes, sizes=sizes, object_keys=keys))
    await connection.execute(
        *_sql.claim(account_id=account_id, hashes=hashes, sizes=sizes, pin_duration=pin)
    )
    return sorted(set(keys) - {row["object_key"] for row in rows})


async def claim_inputs(
    connection: Connection, account_id: AccountId, named: Mapping[TaskId, Sequence[BlobRef]]
) -> None:
    """New tasks name these; their account must have each of them, in that size.

    All at once: whoever held them task by task would lock claims in any order.
    """
    wanted = {(task_id, blob): blob.sha256 for task_id, refs in named.items() for blob in refs}
    if not wanted:
        return
    for blob in await missing(connection, account_id, [blob for _, blob in wanted]):
        raise not_yours(blob)
    await connection.execute(
        *_sql.name_input(
            account_id=account_id,
            task_ids=[task_id for task_id, _ in wanted],
            hashes=[bytes.fromhex(sha256) for sha256 in wanted.values()],
            sizes=[blob.size_bytes for _, blob in wanted],
        )
    )


async def missing(
    connection: Connection, account_id: AccountId, wanted: Sequence[BlobRef]
) -> list[BlobRef]:
    """Those of these that the account has not, in that size; it keeps the others for this long."""
    have = await hold(connection, account_id, [blob.sha256 for blob in wanted]) if wanted else {}
    return [blob for blob in wanted if have.get(blob.sha256) != blob.size_bytes]


def not_yours(blob: BlobRef) -> InvalidInput:
    """The same for what nobody has and for what somebody else has."""
    return InvalidInput(
        f"There is no blob {blob.sha256} of {blob.size_bytes} bytes in this account.",
        "Upload it first; what is not used goes away after a while.",
    )


async def sender(
    connection: Connection, attempt_id: AttemptId, node_id: NodeId
) -> SendingAttempt | None:
    row = await connection.fetchrow(*_sql.sender(attempt_id=attempt_id, node_id=node_id))
    if row is None:
        return None
    return SendingAttempt(attempt_id, row["task_id"], row["account_id"], node_id)


async def lock_sender(connection: Connection, sender: SendingAttempt) -> bool:
    """Whether the attempt is live; it is until this transaction ends."""
    await connection.execute(*_sql.lock_task_of_sender(attempt_id=sender.attempt_id))
    found = await connection.fetchval(*_sql.lock_sender(sender=sender))
    return found is not None


async def hold_for(
    connection: Connection, sender: SendingAttempt, blobs: Sequence[BlobRef]
) -> None:
    """The attempt has sent these, and may say what they are."""
    files = [NamedFile(each.sha256, each) for each in blobs]
    await _name(connection, sender, "held", files)


async def not_yet_sent(
    connection: Connection, attempt_id: AttemptId, blobs: Sequence[BlobRef]
) -> list[BlobRef]:
    """Those of these that this attempt has not sent."""
    hashes = [bytes.fromhex(each.sha256) for each in blobs]
    rows = await connection.fetch(*_sql.sent(attempt_id=attempt_id, hashes=hashes))
    sent = {BlobRef(row["sha256"].hex(), row["size_bytes"]) for row in rows}
    return [each for each in blobs if each not in sent]


async def check_sent(
    connection: Connection, attempt_id: AttemptId, blobs: Sequence[BlobRef]
) -> None:
    for missing in await not_yet_sent(connection, attempt_id, blobs):
        raise InvalidInput(
            f"This attempt has not sent a blob {missing.sha256} of {missing.size_bytes} bytes.",
            "Upload it under the same lease first.",
        )


async def leave_files(
    connection: Connection, sender: SendingAttempt, files: Sequence[NamedFile]
) -> int:
    """What the attempt has left, all of it sent before. Returns how many files it has left now."""
    await _name(connection, sender, "output", files)
    await _let_go(connection, sender.attempt_id, [each.blob for each in files])
    left: int = await connection.fetchval(*_sql.files_left(attempt_id=sender.attempt_id))
    return left


async def keep_values(
    connection: Connection,
    account_id: AccountId,
    task_id: TaskId,
    attempt_id: AttemptId,
    values: Sequence[tuple[int, BlobRef]],
) -> None:
    """Results that are blobs, by the first item that each is of; the attempt has sent them."""
    if not values:
        return
    blobs = [blob for _, blob in values]
    await check_sent(connection, attempt_id, blobs)
    files = [NamedFile(str(item), blob) for item, blob in values]
    await _name(connection, BlobSource(attempt_id, task_id, account_id), "result", files)
    await _let_go(connection, attempt_id, blobs)


async def keep_checkpoint(connection: Connection, sender: SendingAttempt, blob: BlobRef) -> None:
    """In the place of any other; the attempt has sent it, perhaps with this very call before.

    The caller has the account's use locked: of two at once, the later one is kept.
    """
    sha256 = bytes.fromhex(blob.sha256)
    found = await connection.fetchrow(*_sql.checkpoint(task_id=sender.task_id, sha256=sha256))
    if found["is_array"]:
        raise InvalidInput("An array has no checkpoint: what is done of it is known by its items.")
    if found["is_kept"]:
        return
    await check_sent(connection, sender.attempt_id, [blob])
    await connection.execute(*_sql.replace_checkpoint(task_id=sender.task_id))
    await connection.execute(
        *_sql.keep_checkpoint(sender=sender, sha256=sha256, size_bytes=blob.size_bytes)
    )
    await _let_go(connection, sender.attempt_id, [blob])


async def of_account(connection: Connection, account_id: AccountId, sha256: str) -> Stored:
    row = await connection.fetchrow(
        *_sql.of_account(account_id=account_id, sha256=bytes.fromhex(sha256))
    )
    if row is None:
        raise no_such_blob(sha256)
    return Stored(BlobRef(sha256, row["size_bytes"]), row["object_key"])


async def of_attempt(
    connection: Connection, attempt_id: AttemptId, node_id: NodeId, sha256: str
) -> Stored | None:
    """What the task of a live attempt names for its node to read."""
    row = await connection.fetchrow(
        *_sql.of_attempt(attempt_id=attempt_id, node_id=node_id, sha256=bytes.fromhex(sha256))
    )
    return None if row is None else Stored(BlobRef(sha256, row["size_bytes"]), row["object_key"])


def no_such_blob(sha256: str) -> NotFound:
    return NotFound(f"There is no blob {sha256[:64]} of yours.", "`potluck files` lists a task's.")


async def attempt_with_files(
    connection: Connection, task_id: TaskId, number: int | None
) -> LeftFiles | None:
    row = await connection.fetchrow(*_sql.attempt_with_files(task_id=task_id, number=number))
    return None if row is None else LeftFiles(row["id"], row["number"])


async def files(
    connection: Connection, task_id: TaskId, attempt_id: AttemptId, after: str, limit: int
) -> list[NamedFile]:
    rows = await connection.fetch(
        *_sql.files(task_id=task_id, attempt_id=attempt_id, after_path=after, limit=limit)
    )
    return _files(rows)


async def files_of_all(
    connection: Connection, task_id: TaskId, after: str, limit: int
) -> list[NamedFile]:
    """Of all attempts at an array, whose ranges leave files of their own."""
    query = _sql.files_of_all(task_id=task_id, after_path=after, limit=limit)
    return _files(await connection.fetch(*query))


def _files(rows: Sequence[Any]) -> list[NamedFile]:
    return [NamedFile(row["path"], BlobRef(row["sha256"].hex(), row["size_bytes"])) for row in rows]


async def end_of(connection: Connection, task_id: TaskId, account_id: AccountId) -> End:
    row = await connection.fetchrow(*_sql.end(task_id=task_id, account_id=account_id))
    return End(row["finished_at"], row["is_cleared"])


async def _name(
    connection: Connection, source: BlobSource, role: str, files: Sequence[NamedFile]
) -> None:
    """Of two with the same path the last counts."""
    last = {each.path: each.blob for each in files}
    await connection.execute(
        *_sql.name_for_attempt(
            source=source,
            role=role,
            paths=list(last),
            hashes=[bytes.fromhex(each.sha256) for each in last.values()],
            sizes=[each.size_bytes for each in last.values()],
        )
    )


async def _let_go(connection: Connection, attempt_id: AttemptId, blobs: Sequence[BlobRef]) -> None:
    """They are called something now, and that holds them."""
    hashes = [bytes.fromhex(each.sha256) for each in blobs]
    await connection.execute(*_sql.let_go(attempt_id=attempt_id, hashes=hashes))
