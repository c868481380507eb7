"""Adopt: an attempt whose lease ran out is taken back, while nobody else has been given its work.

Silence is not death: the node may have worked on. Whatever it says next with its token (a
heartbeat, a poll, a report, a piece of its log) brings the attempt back to life, with its room, its
devices and its hold; or, if anything of that is gone, the lease is stale.
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
from potluck.server.flow.notify.notify import hurry, record_events
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
    """The same sentence for what has ended and for what never was the caller's."""
    return StaleLease(f"{attempt_id} is over, or not yours.")


async def find_or_readopt(
    services: Services,
    connection: Connection,
    attempt_id: AttemptId,
    node_id: NodeId,
    look: Callable[[], Awaitable[T | None]],
    *,
    is_over: bool = False,
) -> T:
    """What is found of an attempt, once it is taken back if it has to be; raises StaleLease."""
    found = await look()
    if found is None:
        # Whatever comes of it: another call of the node may have been quicker.
        await readopt(services, connection, attempt_id, node_id, is_over=is_over)
        found = await look()
    if found is None:
        raise stale_lease(attempt_id)
    return found


async def readopt(
    services: Services,
    connection: Connection,
    attempt_id: AttemptId,
    node_id: NodeId,
    *,
    is_over: bool = False,
) -> bool:
    """Whether it lives again. One that is over on its node may be late: it ends here and now."""
    await attempts.lock_task(connection, attempt_id)
    adopted = await leases.adopt(
        connection,
        attempt_id,
        node_id,
        lease_seconds=services.settings.lease_seconds,
        overrun_seconds=services.settings.overrun_seconds,
        is_over=is_over,
    )
    if adopted is None:
        return False
    assert attempt_may_become(AttemptState.LOST, adopted.state)
    held = hold_entries(adopted.consumer_id, adopted.hold_micro)
    await ledger.append_many(connection, [Movement(held, attempt_id, adopted.adoption)])
    await record_events(connection, *_events(attempt_id, node_id, adopted))
    return True


async def readopt_lost(
    services: Services, owner: Owner, node_id: NodeId, known: NodeLeases
) -> NodeLeases:
    """What the node holds once it has back what it may have; each in a transaction of its own.

    What can not be taken back may live all the same: another call of the node was quicker.
    """
    if not known.lost:
        return known
    if any([await _take_back(services, node_id, each) for each in known.lost]):
        await hurry(services)
    async with services.database.transaction() as connection:
        return await leases.look(connection, node_id, owner, held=())


async def _take_back(services: Services, node_id: NodeId, attempt_id: AttemptId) -> bool:
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
    about = {"attempt_id": attempt_id, "node_id": node_id}
    kind = _ATTEMPT_EVENTS[adopted.state]
    data = {"state": adopted.state, **about}
    happened = [Event(adopted.consumer_id, kind, adopted.task_id, node_id, data)]
    if adopted.task_state is not adopted.task_state_before:
        assert task_may_become(adopted.task_state_before, adopted.task_state)
        told = {"state": adopted.task_state, **about}
        kind = _TASK_EVENTS[adopted.task_state]
        happened.append(Event(adopted.consumer_id, kind, adopted.task_id, data=told))
    return happened
