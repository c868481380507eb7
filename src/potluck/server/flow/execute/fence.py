"""Fences what a node sends for a task: it must come from a live attempt with a valid lease.

Like every call of a node, it marks the node as seen and may revive an attempt whose lease expired.
"""

from functools import partial

from potluck.model.ids import NodeId
from potluck.model.lease import Lease
from potluck.server.flow.lease.adopt import find_or_readopt, stale_lease
from potluck.server.flow.lease.lease import check_token, mark_node_seen
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.files import blobs
from potluck.store.files.blobs import SendingAttempt
from potluck.store.nodes.nodes import Owner


async def authenticate_sender(
    services: Services, owner: Owner, node_id: NodeId, lease: Lease
) -> SendingAttempt:
    check_token(services, lease)
    await mark_node_seen(services, owner, node_id)
    async with services.database.transaction() as connection:
        lookup = partial(blobs.find_sender, connection, lease.attempt_id, node_id)
        return await find_or_readopt(services, connection, lease.attempt_id, node_id, lookup)


async def lock_sender(connection: Connection, sender: SendingAttempt) -> None:
    """Keeps the attempt from ending before this transaction does."""
    if not await blobs.lock_sender(connection, sender):
        raise stale_lease(sender.attempt_id)
