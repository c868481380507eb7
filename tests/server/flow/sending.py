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
    begun = await upload.begin(pool.services, owner, ref(data))
    if begun.complete:
        return ref(data)
    for number, part in enumerate(_parts(data)):
        found = await upload.of_account(pool.services, owner, begun.upload_id)
        await upload.take_part(pool.services, found, number, _once(part))
    await finish(pool, begun.upload_id, owner)
    return ref(data)


async def finish(pool: Pool, upload_id: str, account_id: AccountId | None = None) -> None:
    """Asks until it is complete: on a busy machine it may take a while."""
    is_complete = False
    while not is_complete:
        found = await upload.of_account(pool.services, account_id or pool.alice, upload_id)
        is_complete = (await upload.finish(pool.services, found)).complete


async def send_from_node(pool: Pool, node_id: NodeId, grant: Grant, data: bytes) -> BlobRef:
    asked = BeginNodeUpload(lease_of(grant), ref(data))
    begun = await upload.begin_for_node(pool.services, pool.bobs, node_id, asked)
    if begun.complete:
        return ref(data)
    for number, part in enumerate(_parts(data)):
        found, _ = await upload.of_node(pool.services, pool.bobs, node_id, begun.upload_id)
        await upload.take_part(pool.services, found, number, _once(part))
    is_complete = False
    while not is_complete:
        found, sender = await upload.of_node(pool.services, pool.bobs, node_id, begun.upload_id)
        is_complete = (await upload.finish(pool.services, found, sender)).complete
    return ref(data)


def _parts(data: bytes) -> list[bytes]:
    return [data[start : start + PART_BYTES] for start in range(0, len(data), PART_BYTES)]


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
