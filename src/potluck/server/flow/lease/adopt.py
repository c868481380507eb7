"""Adopt: restores an attempt whose lease expired, while no other node has been given its work.

A silent node may have kept working. Its next call with the token (heartbeat, poll, report, log)
revives the attempt with its room, devices and hold; if any of these is gone, the lease is stale.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from potluck.decide.charges import hold_entries
from potluck.decide.lifecycle import attempt_may_become, task_may_become
from potluck.model.error import StaleLease
from potluck.model.event import EventKind
from potluck.model.ids import AttemptId, NodeId
from potluck.model.lease import AttemptState
from potluck.model.task import TaskState
from potluck.server.flow.notify.notify import record_events, wake_leader
from potluck.server.services import Services
from potluck.store.attempts import attempts, leases
from potluck.store.attempts.leases import Adopted, NodeLeases
from potluck.store.database import Connection
from potluck.store.events.outbox import Event
from potluck.store.ledger import ledger
from potluck.store.ledger.ledger import Movement
from potluck.store.nodes.nodes import Owner

T = TypeVar("T")


def stale_lease(attempt_id: AttemptId) -> StaleLease:
    """The same message for an ended attempt and for one that was never the caller's."""
    return StaleLease(f"{attempt_id} has ended, or is not yours.")


async def find_or_readopt(
    services: Services,
    connection: Connection,
    attempt_id: AttemptId,
    node_id: NodeId,
    lookup: Callable[[], Awaitable[T | None]],
    *,
    is_over: bool = False,
) -> T:
    """Runs the lookup, and once more after re-adopting the attempt; raises StaleLease."""
    result = await lookup()
    if result is None:
        # Ignore the outcome: another call of the node may have been faster.
        await readopt(services, connection, attempt_id, node_id, is_over=is_over)
        result = await lookup()
    if result is None:
        raise stale_lease(attempt_id)
    return result


async def readopt(
    services: Services,
    connection: Connection,
    attempt_id: AttemptId,
    node_id: NodeId,
    *,
    is_over: bool = False,
) -> bool:
    """Whether it is live again. With `is_over`, a late attempt may be revived just to end."""
    await attempts.lock_task(connection, attempt_id)
    adopted = await leases.adopt(
        connection,
        attempt_id,
        node_id,
        lease_seconds=services.settings.lease_seconds,
        overrun_seconds=services.settings.overrun_seconds,
        slice_seconds=services.settings.settle_seconds,
        is_over=is_over,
    )
    if adopted is None:
        return False
    assert attempt_may_become(AttemptState.LOST, adopted.state)
    entries = hold_entries(adopted.consumer_id, adopted.hold_micro)
    await ledger.append_many(connection, [Movement(entries, attempt_id, adopted.adoption)])
    await record_events(connection, *_events(attempt_id, node_id, adopted))
    return True


async def readopt_lost(
    services: Services, owner: Owner, node_id: NodeId, reported: NodeLeases
) -> NodeLeases:
    """Re-adopts lost attempts, each in its own transaction; returns what the node holds then.

    An attempt that cannot be re-adopted may be live all the same: another call of the node was
    faster.
    """
    if not reported.lost:
        return reported
    if any([await _readopt(services, node_id, attempt_id) for attempt_id in reported.lost]):
        await wake_leader(services)
    async with services.database.transaction() as connection:
        return await leases.load_leases(connection, node_id, owner, held=())


async def _readopt(services: Services, node_id: NodeId, attempt_id: AttemptId) -> bool:
    async with services.database.transaction() as connection:
        return await readopt(services, connection, attempt_id, node_id)


_ATTEMPT_EVENTS = {
    AttemptState.GRANTED: EventKind.ATTEMPT_GRANTED,
    AttemptState.RUNNING: EventKind.ATTEMPT_RUNNING,
}
_TASK_EVENTS = {
    TaskState.ASSIGNED: EventKind.TASK_ASSIGNED,
    TaskState.RUNNING: EventKind.TASK_RUNNING,
}


def _events(attempt_id: AttemptId, node_id: NodeId, adopted: Adopted) -> list[Event]:
    subject = {"attempt_id": attempt_id, "node_id": node_id}
    kind = _ATTEMPT_EVENTS[adopted.state]
    data = {"state": adopted.state, **subject}
    events = [Event(adopted.consumer_id, kind, adopted.task_id, node_id, data)]
    if adopted.task_state is not adopted.task_state_before:
        assert task_may_become(adopted.task_state_before, adopted.task_state)
        task_data = {"state": adopted.task_state, **subject}
        kind = _TASK_EVENTS[adopted.task_state]
        events.append(Event(adopted.consumer_id, kind, adopted.task_id, data=task_data))
    return events
