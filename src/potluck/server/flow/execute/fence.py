"""Who sends something for a task: a live attempt, held to its lease.

Like every call of a node it is a sign of life, and brings an attempt back whose lease ran out.
"""

from potluck.model.ids import NodeId
from potluck.model.lease import Lease
from potluck.server.flow.lease.adopt import readopt
from potluck.server.flow.lease.lease import check_token, hear, stale
from potluck.server.services import Parts
from potluck.store.database import Connection
from potluck.store.files import blobs
from potluck.store.files.blobs import Sender
from potluck.store.nodes.nodes import Owner


async def sender_of(parts: Parts, owner: Owner, node_id: NodeId, lease: Lease) -> Sender:
    check_token(parts, lease)
    await hear(parts, owner, node_id)
    async with parts.database.transaction() as connection:
        found = await blobs.sender(connection, lease.attempt_id, node_id)
        if found is None:
            # Whatever comes of it: another call of the node may have been quicker.
            await readopt(parts, connection, lease.attempt_id, node_id)
            found = await blobs.sender(connection, lease.attempt_id, node_id)
    if found is None:
        raise stale(lease.attempt_id)
    return found


async def hold_sender(connection: Connection, sender: Sender) -> None:
    """The attempt does not end before this transaction does."""
    if not await blobs.lock_sender(connection, sender):
        raise stale(sender.attempt_id)
