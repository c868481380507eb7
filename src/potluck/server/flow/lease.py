"""Lease: a node registers, fetches what it was granted, and keeps its leases alive by beating."""

from collections.abc import Sequence

from potluck.model.event import EventKind
from potluck.model.ids import AccountId, AttemptId, NodeId
from potluck.model.lease import Lease
from potluck.model.node import NodeState
from potluck.server import topics
from potluck.server.auth.tokens import is_lease_token, lease_token
from potluck.server.flow.notify import tell
from potluck.server.parts import Parts
from potluck.store import attempts, nodes
from potluck.store.database import Connection
from potluck.store.events import Event
from potluck.wire.provider import (
    AcquireLeases,
    Grant,
    Heartbeat,
    HeartbeatAnswer,
    LeasesGranted,
    NodeRegistered,
    RegisterNode,
)


async def register(parts: Parts, account_id: AccountId, offer: RegisterNode) -> NodeRegistered:
    async with parts.database.transaction() as connection:
        node_id, device_ids = await nodes.register(connection, account_id, offer)
        await tell(connection, Event(account_id, EventKind.NODE_ONLINE, node_id=node_id))
    await parts.live.wake(topics.SCHEDULE)
    settings = parts.settings
    return NodeRegistered(
        node_id,
        device_ids,
        settings.lease_seconds,
        settings.heartbeat_seconds,
        settings.poll_seconds,
    )


async def acquire(
    parts: Parts, account_id: AccountId, node_id: NodeId, request: AcquireLeases
) -> LeasesGranted:
    """Waits, without a database connection, until there is something to say."""
    held = _true_leases(parts, request.held)
    async with parts.live.listen(topics.node(node_id), topics.SHUTDOWN) as listener:
        await _hear(parts, account_id, node_id)
        answer = await _look(parts, account_id, node_id, request.held, held)
        if answer.grants or answer.stop or request.wait_seconds <= 0:
            return answer
        await listener.wait(min(request.wait_seconds, parts.settings.poll_seconds))
    return await _look(parts, account_id, node_id, request.held, held)


async def heartbeat(
    parts: Parts, account_id: AccountId, node_id: NodeId, beat: Heartbeat
) -> HeartbeatAnswer:
    held = _true_leases(parts, beat.held)
    async with parts.database.transaction() as connection:
        before = await nodes.beat(connection, node_id, account_id)
        await attempts.renew(connection, node_id, held, parts.settings.lease_seconds)
        live = await attempts.live_of_node(connection, node_id, account_id)
        if before is NodeState.SILENT:
            await tell(connection, Event(account_id, EventKind.NODE_ONLINE, node_id=node_id))
    if before is NodeState.SILENT:
        await parts.live.wake(topics.SCHEDULE)
    return HeartbeatAnswer(_gone(beat.held, live))


def _true_leases(parts: Parts, held: Sequence[Lease]) -> list[AttemptId]:
    return [
        lease.attempt_id
        for lease in held
        if is_lease_token(parts.secret, lease.attempt_id, lease.token)
    ]


async def _hear(parts: Parts, account_id: AccountId, node_id: NodeId) -> None:
    """When the call comes in, and not when its answer goes out: the node may be gone by then."""
    async with parts.database.transaction() as connection:
        await nodes.beat(connection, node_id, account_id)


async def _look(
    parts: Parts,
    account_id: AccountId,
    node_id: NodeId,
    claimed: Sequence[Lease],
    held: list[AttemptId],
) -> LeasesGranted:
    lease_seconds = parts.settings.lease_seconds
    async with parts.database.transaction() as connection:
        live = await attempts.live_of_node(connection, node_id, account_id)
        grants = await _grants(parts, connection, account_id, node_id, held) if live else []
    return LeasesGranted(grants, _gone(claimed, live), lease_seconds)


async def _grants(
    parts: Parts,
    connection: Connection,
    account_id: AccountId,
    node_id: NodeId,
    held: list[AttemptId],
) -> list[Grant]:
    seconds = parts.settings.lease_seconds
    fetched = await attempts.fetch(connection, node_id, account_id, held, seconds)
    return [_grant(parts, attempt) for attempt in fetched]


def _grant(parts: Parts, attempt: attempts.FetchedAttempt) -> Grant:
    request = attempt.request
    return Grant(
        attempt_id=attempt.id,
        token=lease_token(parts.secret, attempt.id),
        task_id=attempt.task_id,
        account_id=attempt.consumer_id,
        spec=request.spec,
        requirements=request.requirements,
        limits=request.limits,
        devices=attempt.devices,
    )


def _gone(claimed: Sequence[Lease], live: set[AttemptId]) -> list[AttemptId]:
    """What the node believes to hold and does not hold any more."""
    return [lease.attempt_id for lease in claimed if lease.attempt_id not in live]
