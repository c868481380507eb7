"""Remote requests of an owner to a node. The node's own file stays the source of truth.

A request is stored until the node has carried it out, and sent with every heartbeat until then. A
request that withdraws devices from the pool takes effect immediately, even while the node is away.
"""

from collections.abc import Sequence

from msgspec import UNSET
from msgspec.structs import asdict, replace

from potluck.model.audit import AuditKind
from potluck.model.device import Availability
from potluck.model.error import Conflict, InvalidInput, NotFound
from potluck.model.ids import AccountId, NodeId
from potluck.model.terms import Order, TermsChange
from potluck.server import topics
from potluck.server.auth.caller import Caller
from potluck.server.flow.lease import device_status
from potluck.server.flow.lease.check_offer import check_change
from potluck.server.flow.notify.notify import wake_leader
from potluck.server.flow.settle.end_many import withdraw_unfetched
from potluck.server.services import Services
from potluck.store.attempts.leases import HeartbeatResult
from potluck.store.database import Connection
from potluck.store.identity import audit
from potluck.store.identity.audit import Fact
from potluck.store.nodes import availability, device_list, nodes, pending_requests
from potluck.wire import codec
from potluck.wire.consumer import NodeView
from potluck.wire.owner_request import OwnerOrder, Wish
from potluck.wire.provider import RegisterNode

# Limits for a node that is away; all requests are sent with each heartbeat.
_MAX_PENDING, _MAX_PENDING_BYTES = 100, 256 * 1024
_PAUSED = (Availability.PAUSED, "Its owner has paused it.")
_DRAINING = (Availability.DRAINING, "Its node finishes its running tasks, then stops.")


async def change(
    services: Services, caller: Caller, node_id: NodeId, requested: TermsChange
) -> NodeView:
    """Terms change when the node applies them, perhaps at its next start; a pause is immediate."""
    request = check_change(requested)
    async with services.database.transaction() as connection:
        uuids = await _lock_devices(connection, caller.id, node_id, request.devices, also_left=True)
        if request.is_paused is True:
            await availability.withdraw(connection, node_id, uuids, *_PAUSED)
        named = tuple(uuids) if request.devices else ()
        await _add_request(connection, node_id, Wish(0, change=replace(request, devices=named)))
        data = _audit_data(caller, _changes_text(request))
        fact = Fact(AuditKind.TERMS_CHANGED, caller.id, node_id, data)
        await audit.append_all(connection, services.keys.audit, [fact])
    return await _notify_node(services, caller.id, node_id)


async def order(
    services: Services, caller: Caller, node_id: NodeId, request: OwnerOrder
) -> NodeView:
    """Stops new work now; the node stops or finishes what is running."""
    if request.order is Order.DRAIN and request.devices:
        raise InvalidInput(
            "Only a whole node can drain.", "Pause single devices, or omit the devices."
        )
    async with services.database.transaction() as connection:
        uuids = await _lock_devices(
            connection, caller.id, node_id, request.devices, also_left=False
        )
        state = _DRAINING if request.order is Order.DRAIN else _PAUSED
        await availability.withdraw(connection, node_id, uuids, *state)
        named = tuple(uuids) if request.devices else ()
        await _add_request(connection, node_id, Wish(0, order=OwnerOrder(request.order, named)))
        fact = Fact(AuditKind.ORDER_GIVEN, caller.id, node_id, _audit_data(caller, request.order))
        await audit.append_all(connection, services.keys.audit, [fact])
    return await _notify_node(services, caller.id, node_id)


async def list_pending(
    services: Services, node_id: NodeId, carried_out: int, beat: HeartbeatResult
) -> list[Wish]:
    """Requests after `carried_out`, or the last number for a node that has lost track of it."""
    has_forgotten = carried_out < beat.last_wish
    if not (beat.held.has_wishes or has_forgotten):
        return []
    # Read again: a heartbeat that waited for its node's row knows the number but not the request.
    async with services.database.transaction() as connection:
        await pending_requests.complete(connection, node_id, carried_out)
        pending = (await pending_requests.list_pending(connection, [node_id])).get(node_id)
    return pending or ([Wish(beat.last_wish)] if has_forgotten else [])


async def withdraw_pending(connection: Connection, node_id: NodeId, offer: RegisterNode) -> None:
    """Applies pending withdrawals to devices that the node shows only now."""
    uuids = [device.uuid for device in offer.description.devices]
    for wish in (await pending_requests.list_pending(connection, [node_id])).get(node_id, []):
        if wish.number > offer.wish and (withdrawal := _withdrawal(wish)) is not None:
            state, device_uuids = withdrawal
            await availability.withdraw(connection, node_id, device_uuids or uuids, *state)


def _withdrawal(wish: Wish) -> tuple[tuple[Availability, str], tuple[str, ...]] | None:
    """The availability and the devices a request withdraws, if any; no devices means all."""
    if wish.order is not None:
        return _DRAINING if wish.order.order is Order.DRAIN else _PAUSED, wish.order.devices
    if wish.change is not None and wish.change.is_paused is True:
        return _PAUSED, wish.change.devices
    return None


async def show(
    services: Services, viewer_id: AccountId, node_id: NodeId, *, also_left: bool = False
) -> NodeView:
    async with services.database.transaction() as connection:
        node = await nodes.get(connection, node_id, viewer_id, also_left=also_left)
    return (await device_status.with_telemetry(services, [node]))[0]


async def _lock_devices(
    connection: Connection,
    account_id: AccountId,
    node_id: NodeId,
    named: Sequence[str],
    *,
    also_left: bool,
) -> list[str]:
    """Locks the caller's node; returns the uuids of the named devices, or of all."""
    name = await nodes.lock_own(connection, node_id, account_id, also_left=also_left)
    uuids = await device_list.uuids_by_name(connection, node_id)
    if unknown := [device for device in named if device not in uuids]:
        raise NotFound(f"{name} has no device {unknown[0]!r}.", "Name devices by uuid or id.")
    return sorted({uuids[device] for device in named or uuids})


async def _add_request(connection: Connection, node_id: NodeId, wish: Wish) -> None:
    pending = (await pending_requests.list_pending(connection, [node_id])).get(node_id, [])
    size_bytes = len(codec.encode_json([*pending, wish]))
    if len(pending) >= _MAX_PENDING or size_bytes > _MAX_PENDING_BYTES:
        raise Conflict(
            f"{len(pending)} requests are already pending for this node, which is the limit.",
            "Wait until it is back, or edit its `provider.toml`.",
        )
    await pending_requests.add(connection, node_id, wish)


async def _notify_node(services: Services, account_id: AccountId, node_id: NodeId) -> NodeView:
    """Ends the node's open poll, so that it sends a heartbeat soon, and wakes the scheduler.

    Unfetched assignments on withdrawn devices go back to the queue.
    """
    await withdraw_unfetched(services, node_id)
    await services.live.wake(topics.node(node_id))
    await wake_leader(services)
    return await show(services, account_id, node_id, also_left=True)


def _audit_data(caller: Caller, action: str) -> dict[str, str]:
    return {"what": action, "by": f"{caller.credential} {caller.credential_id}"}


def _changes_text(change: TermsChange) -> str:
    changes = {name: value for name, value in asdict(change).items() if value is not UNSET}
    return " ".join(f"{name}={_short(value)}" for name, value in changes.items())


def _short(value: object) -> str:
    """Only the length of a list, to keep audit entries short."""
    return f"({len(value)})" if isinstance(value, tuple) else str(value)
