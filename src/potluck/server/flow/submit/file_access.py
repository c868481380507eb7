"""Input and output files of tasks, and who may read them.

A small file comes in the message itself, a large one was uploaded before. Either becomes a blob of
the task's account, and counts towards its quota.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from datetime import timedelta

from msgspec.structs import replace

from potluck.model.blob import MOST_OUTPUT_FILES, BlobRef, NamedFile
from potluck.model.error import PotluckError, TooLarge, Unavailable
from potluck.model.ids import AccountId, NodeId, TaskId
from potluck.model.lease import Lease
from potluck.server.flow.execute.fence import authenticate_sender, lock_sender
from potluck.server.flow.submit.upload import check_quota, new_object_key
from potluck.server.services import Services
from potluck.store.files import blobs, volumes
from potluck.store.files.blobs import SendingAttempt, Stored
from potluck.store.new_ids import new_upload_id
from potluck.store.nodes.nodes import Owner
from potluck.store.tasks import tasks
from potluck.wire.files import AddedFile, AddFiles, KeepCheckpoint, TaskFiles

_NOW = timedelta(0)
_MAX_CONCURRENT_PUTS = 8


async def of_account(services: Services, account_id: AccountId, sha256: str) -> Stored:
    """A blob of the account, or of a volume that is shared with it."""
    async with services.database.transaction() as connection:
        stored = await blobs.of_account(connection, account_id, sha256)
        stored = stored or await volumes.of_reader(connection, account_id, sha256)
    if stored is None:
        raise blobs.no_such_blob(sha256)
    return stored


async def of_attempt(
    services: Services, owner: Owner, node_id: NodeId, lease: Lease, sha256: str
) -> Stored:
    """An input of the task, a part of a volume that it mounts, or its checkpoint."""
    sender = await authenticate_sender(services, owner, node_id, lease)
    async with services.database.transaction() as connection:
        stored = await blobs.of_attempt(connection, sender.attempt_id, node_id, sha256)
        if stored is None:
            stored = await volumes.of_attempt(connection, sender.attempt_id, node_id, sha256)
    if stored is None:
        raise blobs.no_such_blob(sha256)
    return stored


async def of_task(
    services: Services,
    account_id: AccountId,
    task_id: TaskId,
    number: int | None,
    cursor: str | None,
    limit: int,
    item: int | None = None,
) -> TaskFiles:
    """Files of the newest attempt that left any, or of the numbered one; of an array, all or those
    of one item."""
    if item is not None:
        return await _of_item(services, account_id, task_id, item, cursor, limit)
    after, attempt, listed = cursor or "", None, list[NamedFile]()
    async with services.database.transaction() as connection:
        task = (await tasks.get(connection, services.vault, task_id, account_id)).view
        end = await blobs.read_task_end(connection, task_id, account_id)
        if task.items is not None and number is None:
            listed = await blobs.list_array_files(connection, task_id, after, limit)
        else:
            attempt = await blobs.attempt_with_files(connection, task_id, number)
            if attempt is not None:
                listed = await blobs.list_files(
                    connection, task_id, attempt.attempt_id, after, limit
                )
    kept = timedelta(seconds=services.settings.keep_results_seconds)
    return TaskFiles(
        None if attempt is None else attempt.number,
        listed,
        kept_until=None if end.at is None else end.at + kept,
        cleared=end.is_cleared,
        next_cursor=listed[-1].path if len(listed) == limit else None,
    )


async def _of_item(
    services: Services,
    account_id: AccountId,
    task_id: TaskId,
    item: int,
    cursor: str | None,
    limit: int,
) -> TaskFiles:
    """As if the item were a task: without the directory that its files are in."""
    own = f"{item}/"
    page = await of_task(services, account_id, task_id, None, cursor or own, limit)
    files = [
        replace(file, path=file.path.removeprefix(own))
        for file in page.files
        if file.path.startswith(own)
    ]
    is_over = len(files) < len(page.files)
    return replace(page, files=files, next_cursor=None if is_over else page.next_cursor)


async def add(services: Services, owner: Owner, node_id: NodeId, request: AddFiles) -> None:
    """Idempotent; a repeated path replaces the first file."""
    sender = await authenticate_sender(services, owner, node_id, request.lease)
    small = {_ref(file.data): file.data for file in request.files if file.blob is None}
    stored = await _put(services, await _new_to(services, sender, small))
    try:
        unneeded = await _leave(services, sender, stored, request.files)
    except Unavailable:
        raise  # the commit may have succeeded; if not, the objects are swept up
    except PotluckError:
        await services.blobs.delete([file.object_key for file in stored])
        raise
    await services.blobs.delete(unneeded)


def _ref(data: bytes) -> BlobRef:
    return BlobRef(hashlib.sha256(data).hexdigest(), len(data))


async def _new_to(
    services: Services, sender: SendingAttempt, small: dict[BlobRef, bytes]
) -> dict[BlobRef, bytes]:
    """Data that this attempt has not stored before."""
    async with services.database.transaction() as connection:
        missing = await blobs.find_unsent(connection, sender.attempt_id, list(small))
    return {blob: small[blob] for blob in missing}


async def _put(services: Services, small: dict[BlobRef, bytes]) -> list[Stored]:
    slots = asyncio.Semaphore(_MAX_CONCURRENT_PUTS)

    async def put(blob: BlobRef, data: bytes) -> Stored:
        stored = Stored(blob, new_object_key(new_upload_id()))
        async with slots:
            await services.blobs.put(stored.object_key, data)
        return stored

    return list(await asyncio.gather(*(put(blob, data) for blob, data in small.items())))


async def _leave(
    services: Services, sender: SendingAttempt, stored: Sequence[Stored], files: Sequence[AddedFile]
) -> list[str]:
    """Returns the objects that are not needed."""
    named = [NamedFile(file.path, file.blob or _ref(file.data)) for file in files]
    async with services.database.transaction() as connection:
        await lock_sender(connection, sender)
        sizes = [file.blob.size_bytes for file in stored]
        check_quota(services, await blobs.lock_use(connection, sender.account_id, sizes))
        unneeded = await blobs.add(connection, sender.account_id, stored, _NOW)
        await blobs.hold_sent(connection, sender, [file.blob for file in stored])
        await blobs.check_sent(connection, sender.attempt_id, [file.blob for file in named])
        if await blobs.leave_files(connection, sender, named) > MOST_OUTPUT_FILES:
            raise TooLarge(
                f"An attempt can leave at most {MOST_OUTPUT_FILES} files.",
                "Pack many small files into one.",
            )
    return unneeded


async def keep_checkpoint(
    services: Services, owner: Owner, node_id: NodeId, request: KeepCheckpoint
) -> None:
    sender = await authenticate_sender(services, owner, node_id, request.lease)
    async with services.database.transaction() as connection:
        await lock_sender(connection, sender)
        await blobs.lock_use(connection, sender.account_id)
        await blobs.keep_checkpoint(connection, sender, request.blob)
