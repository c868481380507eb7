"""Idle nodes: their polls wait together, and their calls are recorded together."""

from collections.abc import Sequence
from enum import Enum, auto
from functools import partial

from potluck.live.interface import Listener
from potluck.model.ids import AttemptId, NodeId
from potluck.server.flow.lease import device_status
from potluck.server.flow.notify.notify import wake_leader
from potluck.server.services import Services
from potluck.server.waiting_polls import WaitingPoll
from potluck.store.attempts import leases
from potluck.store.attempts.leases import HeartbeatResult, IdleCall, NodeLeases
from potluck.store.nodes.nodes import Owner
from potluck.wire.provider import Heartbeat


class PollEnd(Enum):
    """Why a poll no longer waits."""

    WOKEN = auto()
    CHANGED = auto()  # a check of all waiting polls found other live attempts of its node
    OVER = auto()  # its time is over


async def wait_in_shared_check(
    services: Services, node_id: NodeId, leases_now: NodeLeases, listener: Listener, seconds: float
) -> PollEnd:
    """Waits for a wake-up, without a database connection."""
    poll = WaitingPoll(node_id, leases_now.live, listener)
    interval_seconds = services.settings.lease_poll_seconds
    with services.waiting_polls.waiting(poll, interval_seconds, partial(_read_live, services)):
        is_woken = await listener.wait(seconds)
    if poll.has_changed:
        return PollEnd.CHANGED
    return PollEnd.WOKEN if is_woken else PollEnd.OVER


async def _read_live(
    services: Services, node_ids: Sequence[NodeId]
) -> dict[NodeId, frozenset[AttemptId]]:
    async with services.database.statement() as connection:
        return await leases.live_of_nodes(connection, node_ids)


async def record_idle(
    services: Services,
    owner: Owner,
    node_id: NodeId,
    beat: Heartbeat | None,
    *,
    is_poll: bool = False,
) -> HeartbeatResult | None:
    """Records the call of a node that lists no leases, with those of others.

    None if the node is not plainly idle: it is then unchanged.
    """
    volumes = None if beat is None else tuple(sorted(beat.volumes))
    call = IdleCall(node_id, owner, is_poll, volumes)
    state = await services.idle_calls.record(services.database, call)
    if state is not None:
        services.recently_seen.note(node_id, owner)
    return state


async def take_beat(
    services: Services, owner: Owner, node_id: NodeId, beat: Heartbeat, state: HeartbeatResult
) -> bool:
    """Whether the heartbeat in a poll is recorded: not if it needs an answer of its own."""
    if beat.receipts or state.has_concerns or beat.wish < state.last_wish:
        return False
    if state.holds_other_volumes:
        await wake_leader(services)
    await device_status.record_heartbeat(services, owner.account_id, node_id, beat, state)
    return True
