"""Upload: receives bytes in parts, assembles them, and gives them to an account if the hash
matches.

A part is stored before it is counted, and never counted twice. The assembled object has a name that
is never reused; one transaction gives it to the account and ends the upload. So an upload resumes
after a crash at any point.
"""

import secrets
from collections.abc import AsyncIterator
from datetime import timedelta

from potluck.blobs.interface import Assembled
from potluck.model.blob import BlobRef
from potluck.model.error import (
    Conflict,
    InvalidInput,
    NotFound,
    PotluckError,
    QuotaExceeded,
    Unavailable,
)
from potluck.model.ids import AccountId, AttemptId, NodeId
from potluck.server.flow.execute.fence import authenticate_sender, lock_sender
from potluck.server.flow.lease.lease import mark_node_seen
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.files import blobs, uploads
from potluck.store.files.blobs import SendingAttempt, StorageUse, Stored
from potluck.store.files.uploads import StoredUpload
from potluck.store.nodes.nodes import Owner
from potluck.wire import files as wire
from potluck.wire.files import MOST_PARTS, PART_BYTES, BeginNodeUpload

_COMPLETE = wire.Upload("", PART_BYTES, 0, complete=True)
_NOW = timedelta(0)


async def begin(services: Services, account_id: AccountId, blob: BlobRef) -> wire.Upload:
    """Bytes that the account already has are not sent again, and their pin is extended."""
    _check_size(blob)
    pin = timedelta(seconds=services.settings.pin_seconds)
    async with services.database.transaction() as connection:
        if await blobs.extend_pin(connection, account_id, blob, pin):
            return _COMPLETE
        return _to_wire(await _begin(services, connection, account_id, None, blob))


async def begin_for_node(
    services: Services, owner: Owner, node_id: NodeId, request: BeginNodeUpload
) -> wire.Upload:
    """Does not reveal whether the account already has the bytes.

    Only bytes that the attempt itself has sent, or may read, are not sent again.
    """
    _check_size(request.blob)
    sender = await authenticate_sender(services, owner, node_id, request.lease)
    async with services.database.transaction() as connection:
        await lock_sender(connection, sender)
        if not await blobs.find_unsent(connection, sender.attempt_id, [request.blob]):
            return _COMPLETE
        stored = await blobs.of_attempt(connection, sender.attempt_id, node_id, request.blob.sha256)
        if stored is not None and stored.blob == request.blob:
            await blobs.hold_sent(connection, sender, [request.blob])
            return _COMPLETE
        upload = await _begin(
            services, connection, sender.account_id, sender.attempt_id, request.blob
        )
    return _to_wire(upload)


def _check_size(blob: BlobRef) -> None:
    if blob.size_bytes > MOST_PARTS * PART_BYTES:
        raise InvalidInput(
            f"A blob can have at most {MOST_PARTS * PART_BYTES} bytes.",
            "Split it into several files.",
        )


async def _begin(
    services: Services,
    connection: Connection,
    account_id: AccountId,
    attempt_id: AttemptId | None,
    blob: BlobRef,
) -> StoredUpload:
    use = await blobs.lock_use(connection, account_id, [blob.size_bytes])
    if await uploads.find_active(connection, account_id, attempt_id, blob.sha256) is None:
        check_quota(services, use)
    upload = await uploads.begin(connection, account_id, attempt_id, blob, PART_BYTES)
    if upload.blob != blob:
        raise Conflict(
            f"An upload with this hash and a size of {upload.blob.size_bytes} is in progress.",
            "One of the two sizes is wrong.",
        )
    return upload


def check_quota(services: Services, use: StorageUse) -> None:
    """Raises if the account may not store this much more; adding nothing is always allowed."""
    most = services.settings.quota_blob_bytes if use.max_blob_bytes is None else use.max_blob_bytes
    if use.added_bytes and most is not None and use.used_bytes + use.added_bytes > most:
        raise QuotaExceeded(
            f"The account uses {use.used_bytes} of its {most} bytes of storage;"
            f" {use.added_bytes} more do not fit.",
            "Old results are deleted after a while; ask the operator for more storage.",
        )


async def of_account(services: Services, account_id: AccountId, upload_id: str) -> StoredUpload:
    async with services.database.transaction() as connection:
        upload = await uploads.of_account(connection, upload_id, account_id)
    if upload is None:
        raise no_such_upload(upload_id)
    return upload


async def of_node(
    services: Services, owner: Owner, node_id: NodeId, upload_id: str
) -> tuple[StoredUpload, SendingAttempt]:
    await mark_node_seen(services, owner, node_id)
    async with services.database.transaction() as connection:
        upload = await uploads.of_node(connection, upload_id, node_id)
        if upload is None or upload.attempt_id is None:
            raise no_such_upload(upload_id)
        sender = await blobs.find_sender(connection, upload.attempt_id, node_id)
    if sender is None:
        raise no_such_upload(upload_id)
    return upload, sender


def no_such_upload(upload_id: str) -> NotFound:
    return NotFound(
        f"You have no upload {upload_id[:64]!r} in progress.",
        "Start it again; the response says if the bytes are already there.",
    )


async def take_part(
    services: Services, upload: StoredUpload, number: int, pieces: AsyncIterator[bytes]
) -> wire.Upload:
    """The part is stored when this returns. A known part is not read at all."""
    if number < upload.parts_done:
        return _to_wire(upload)
    if number >= upload.parts or number > upload.parts_done:
        raise Conflict(
            f"{upload.parts_done} of {upload.parts} parts have arrived; this is number {number}.",
            "Send the parts in order, counted from 0.",
        )
    await services.blobs.put_stream(
        _part_key(upload, number), _exactly(pieces, upload.bytes_of(number))
    )
    async with services.database.transaction() as connection:
        counted = await uploads.count_part(connection, upload.id, number)
    # Otherwise the same part arrived twice, and the other copy was counted.
    return _to_wire(counted or await _again(services, upload))


async def _again(services: Services, upload: StoredUpload) -> StoredUpload:
    async with services.database.transaction() as connection:
        current = await uploads.find_active(
            connection, upload.account_id, upload.attempt_id, upload.blob.sha256
        )
    if current is None or current.id != upload.id:
        raise no_such_upload(upload.id)
    return current


async def _exactly(pieces: AsyncIterator[bytes], size_bytes: int) -> AsyncIterator[bytes]:
    seen = 0
    async for piece in pieces:
        seen += len(piece)
        if seen > size_bytes:
            break
        yield piece
    if seen != size_bytes:
        raise InvalidInput(
            f"This part has {size_bytes} bytes; {'more' if seen > size_bytes else seen} arrived.",
            "Send complete parts; only the last one is shorter.",
        )


async def finish(
    services: Services, upload: StoredUpload, sender: SendingAttempt | None = None
) -> wire.Upload:
    """Assembles the parts. If the result is not complete yet, ask again."""
    if upload.is_wrong:
        raise _wrong_bytes(upload)
    if upload.is_finished:
        return _to_wire(upload)
    if upload.parts_done < upload.parts:
        raise Conflict(
            f"{upload.parts_done} of {upload.parts} parts have arrived.", "Send the others first."
        )

    async def work() -> None:
        try:
            await _assemble(services, upload, sender)
        except NotFound:
            await _check_finished(services, upload)

    is_done = await services.assemblies.join(upload.id, work, services.settings.poll_seconds)
    return wire.Upload(upload.id, upload.part_bytes, upload.parts_done, complete=is_done)


async def _check_finished(services: Services, upload: StoredUpload) -> None:
    """Passes if another call has finished the upload since this one read it."""
    async with services.database.statement() as connection:
        finished = await uploads.find_finished(connection, upload.id)
    if finished is None:
        raise no_such_upload(upload.id)
    if finished.is_wrong:
        raise _wrong_bytes(upload)


async def _assemble(
    services: Services, upload: StoredUpload, sender: SendingAttempt | None
) -> None:
    keys = [_part_key(upload, number) for number in range(upload.parts)]
    key = new_object_key(upload.id)
    try:
        assembled = await services.blobs.assemble(keys, key)
    except NotFound:  # finished by another instance, or its parts are on another instance's disk
        await _give_up(services, upload)
        raise no_such_upload(upload.id) from None
    try:
        unneeded = await _hand_over(services, upload, Stored(_ref(assembled), key), sender)
    except Unavailable:
        raise  # the commit may have succeeded; if not, the object is swept up
    except PotluckError:
        await services.blobs.delete([key])
        raise
    await services.blobs.delete(unneeded)
    await drop_parts(services, upload.id)
    if _ref(assembled) != upload.blob:
        raise _wrong_bytes(upload)


def _ref(assembled: Assembled) -> BlobRef:
    return BlobRef(assembled.sha256, assembled.size_bytes)


def _wrong_bytes(upload: StoredUpload) -> InvalidInput:
    return InvalidInput(
        f"The uploaded bytes do not have the hash {upload.blob.sha256}.",
        "They changed in transit or while they were read; upload them again.",
    )


async def _hand_over(
    services: Services, upload: StoredUpload, stored: Stored, sender: SendingAttempt | None
) -> list[str]:
    """Gives correct bytes to the account. Returns the objects that are not needed."""
    pin = timedelta(seconds=services.settings.pin_seconds) if sender is None else _NOW
    is_wrong = stored.blob != upload.blob
    async with services.database.transaction() as connection:
        if sender is not None:
            await lock_sender(connection, sender)
        await blobs.lock_use(connection, upload.account_id)
        if not await uploads.finish(connection, upload.id, is_wrong=is_wrong):
            raise no_such_upload(upload.id)
        if is_wrong:
            return [stored.object_key]
        unneeded = await blobs.add(connection, upload.account_id, [stored], pin)
        if sender is not None:
            await blobs.hold_sent(connection, sender, [upload.blob])
    return unneeded


async def _give_up(services: Services, upload: StoredUpload) -> None:
    async with services.database.transaction() as connection:
        await blobs.lock_use(connection, upload.account_id)
        await uploads.abandon(connection, upload.id)
    await drop_parts(services, upload.id)


async def drop_parts(services: Services, upload_id: str) -> None:
    await services.blobs.delete(await services.blobs.list(parts_prefix(upload_id)))


def new_object_key(upload_id: str) -> str:
    """Never reused: removing an old object cannot hit a new one.

    Sharded by the last character, so that no directory grows too large.
    """
    return f"{object_prefix(upload_id[-1])}{upload_id}.{secrets.token_hex(4)}"


def object_prefix(shard: str) -> str:
    return f"objects/{shard}/"


def upload_id_of(object_key: str) -> str:
    """The upload id, or its substitute for small files, in an object key."""
    return object_key.rpartition("/")[2].partition(".")[0]


def parts_prefix(upload_id: str) -> str:
    return f"uploads/{upload_id}/"


def _part_key(upload: StoredUpload, number: int) -> str:
    return f"{parts_prefix(upload.id)}{number:07d}"


def _to_wire(upload: StoredUpload) -> wire.Upload:
    return wire.Upload(upload.id, upload.part_bytes, upload.parts_done, complete=upload.is_finished)
