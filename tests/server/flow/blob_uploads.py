"""Bytes on their way, as a consumer and as a node send them."""

import hashlib
from collections.abc import AsyncIterator

from potluck.model.blob import BlobRef
from potluck.model.ids import AccountId, NodeId
from potluck.server.flow.submit import upload
from potluck.wire.files import PART_BYTES, BeginNodeUpload
from potluck.wire.provider import Grant
from tests.server.flow.pool import Pool, lease_of


def ref(data: bytes) -> BlobRef:
    return BlobRef(hashlib.sha256(data).hexdigest(), len(data))


async def send(pool: Pool, data: bytes, account_id: AccountId | None = None) -> BlobRef:
    owner = account_id or pool.alice
    new_upload = await upload.begin(pool.services, owner, ref(data))
    if new_upload.complete:
        return ref(data)
    for number, part in enumerate(_parts(data)):
        open_upload = await upload.of_account(pool.services, owner, new_upload.upload_id)
        await upload.take_part(pool.services, open_upload, number, _once(part))
    await finish(pool, new_upload.upload_id, owner)
    return ref(data)


async def finish(pool: Pool, upload_id: str, account_id: AccountId | None = None) -> None:
    """Asks until it is complete: on a busy machine it may take a while."""
    is_complete = False
    while not is_complete:
        open_upload = await upload.of_account(pool.services, account_id or pool.alice, upload_id)
        is_complete = (await upload.finish(pool.services, open_upload)).complete


async def send_from_node(pool: Pool, node_id: NodeId, grant: Grant, data: bytes) -> BlobRef:
    request = BeginNodeUpload(lease_of(grant), ref(data))
    new_upload = await upload.begin_for_node(pool.services, pool.bobs, node_id, request)
    if new_upload.complete:
        return ref(data)
    for number, part in enumerate(_parts(data)):
        open_upload, _ = await upload.of_node(
            pool.services, pool.bobs, node_id, new_upload.upload_id
        )
        await upload.take_part(pool.services, open_upload, number, _once(part))
    is_complete = False
    while not is_complete:
        open_upload, sender = await upload.of_node(
            pool.services, pool.bobs, node_id, new_upload.upload_id
        )
        is_complete = (await upload.finish(pool.services, open_upload, sender)).complete
    return ref(data)


def _parts(data: bytes) -> list[bytes]:
    return [data[start : start + PART_BYTES] for start in range(0, len(data), PART_BYTES)]


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
