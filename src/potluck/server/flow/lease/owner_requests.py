"""Terms: what an owner asks of a node from elsewhere. The node's own file stays the one truth.

A wish is kept until the node has carried it out, and told with every heartbeat until then. What
takes devices out of the pool holds at once, whether or not the node is there to hear of it.
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
from potluck.server.flow.notify.notify import hurry
from potluck.server.flow.settle.end_many import withdraw_unfetched
from potluck.server.services import Services
from potluck.store.attempts.leases import Beat
from potluck.store.database import Connection
from potluck.store.identity import audit
from potluck.store.identity.audit import Fact
from potluck.store.nodes import (
    availability,
    device_list,
    nodes,
    pending_requests,
)
from potluck.wire import codec
from potluck.wire.consumer import NodeView
from potluck.wire.owner_request import OwnerOrder, Wish
from potluck.wire.provider import RegisterNode

# For a node that is away for long; more than anybody means. All are told with each heartbeat.
_MOST_PENDING, _MOST_PENDING_BYTES = 100, 256 * 1024
_PAUSED = (Availability.PAUSED, "Its owner has paused it.")
_DRAINING = (Availability.DRAINING, "Its node finishes what runs, and ends.")


async def change(
    services: Services, caller: Caller, node_id: NodeId, wanted: TermsChange
) -> NodeView:
    """Terms change when the node has heard of it, if need be at its next start; a pause at once."""
    asked = check_change(wanted)
    async with services.database.transaction() as connection:
        uuids = await _of_node(connection, caller.id, node_id, asked.devices, also_left=True)
        if asked.is_paused is True:
            await availability.withdraw(connection, node_id, uuids, *_PAUSED)
        named = tuple(uuids) if asked.devices else ()
        await _wish(connection, node_id, Wish(0, change=replace(asked, devices=named)))
        fact = Fact(AuditKind.TERMS_CHANGED, caller.id, node_id, _told(caller, _said(asked)))
        await audit.append_all(connection, services.keys.audit, [fact])
    return await _asked(services, caller.id, node_id)


async def order(
    services: Services, caller: Caller, node_id: NodeId, wanted: OwnerOrder
) -> NodeView:
    """What runs is the node's to stop or to finish; nothing new comes from now on."""
    if wanted.order is Order.DRAIN and wanted.devices:
        raise InvalidInput(
            "A node drains as a whole.", "Pause single devices, or leave the devices out."
        )
    async with services.database.transaction() as connection:
        uuids = await _of_node(connection, caller.id, node_id, wanted.devices, also_left=False)
        state = _DRAINING if wanted.order is Order.DRAIN else _PAUSED
        await availability.withdraw(connection, node_id, uuids, *state)
        named = tuple(uuids) if wanted.devices else ()
        await _wish(connection, node_id, Wish(0, order=OwnerOrder(wanted.order, named)))
        fact = Fact(AuditKind.ORDER_GIVEN, caller.id, node_id, _told(caller, wanted.order))
        await audit.append_all(connection, services.keys.audit, [fact])
    return await _asked(services, caller.id, node_id)


async def list_pending(
    services: Services, node_id: NodeId, carried_out: int, found: Beat
) -> list[Wish]:
    """What a node is to be told, now that it has carried out all wishes up to this one.

    One that has forgotten a wish that it carried out hears its number, and is believed from then.
    """
    has_forgotten = carried_out < found.last_wish
    if not (found.held.has_wishes or has_forgotten):
        return []
    # Asked anew: a beat that waited for its node's row knows of the number and not of the wish.
    async with services.database.transaction() as connection:
        await pending_requests.carry_out(connection, node_id, carried_out)
        pending = (await pending_requests.pending(connection, [node_id])).get(node_id)
    return pending or ([Wish(found.last_wish)] if has_forgotten else [])


async def withdraw_pending(connection: Connection, node_id: NodeId, offer: RegisterNode) -> None:
    """What took devices out of the pool does so with those that the node shows only now."""
    uuids = [each.uuid for each in offer.description.devices]
    for wish in (await pending_requests.pending(connection, [node_id])).get(node_id, []):
        if wish.number > offer.wish and (closed := _closed(wish)) is not None:
            state, named = closed
            await availability.withdraw(connection, node_id, named or uuids, *state)


def _closed(wish: Wish) -> tuple[tuple[Availability, str], tuple[str, ...]] | None:
    """How it takes devices out of the pool, if it does, and which; none: all of the node."""
    if wish.order is not None:
        return _DRAINING if wish.order.order is Order.DRAIN else _PAUSED, wish.order.devices
    if wish.change is not None and wish.change.is_paused is True:
        return _PAUSED, wish.change.devices
    return None


async def show(
    services: Services, viewer_id: AccountId, node_id: NodeId, *, also_left: bool = False
) -> NodeView:
    async with services.database.transaction() as connection:
        found = await nodes.get(connection, node_id, viewer_id, also_left=also_left)
    return (await device_status.with_telemetry(services, [found]))[0]


async def _of_node(
    connection: Connection,
    account_id: AccountId,
    node_id: NodeId,
    named: Sequence[str],
    *,
    also_left: bool,
) -> list[str]:
    """The uuids of these devices of one's own node, or of all of them. The node is locked."""
    name = await nodes.lock_own(connection, node_id, account_id, also_left=also_left)
    known = await device_list.of_node(connection, node_id)
    if unknown := [each for each in named if each not in known]:
        raise NotFound(f"{name} has no device {unknown[0]!r}.", "Name devices by their uuid or id.")
    return sorted({known[each] for each in named or known})


async def _wish(connection: Connection, node_id: NodeId, wish: Wish) -> None:
    pending = (await pending_requests.pending(connection, [node_id])).get(node_id, [])
    size_bytes = len(codec.encode_json([*pending, wish]))
    if len(pending) >= _MOST_PENDING or size_bytes > _MOST_PENDING_BYTES:
        raise Conflict(
            f"{len(pending)} wishes wait for this node already, and no more are kept.",
            "Wait until it is back, or change its `provider.toml`.",
        )
    await pending_requests.add(connection, node_id, wish)


async def _asked(services: Services, account_id: AccountId, node_id: NodeId) -> NodeView:
    """Its open poll ends, so that it beats soon; and the scheduler plans without what was taken.

    What it was given and has not fetched is for others now.
    """
    await withdraw_unfetched(services, node_id)
    await services.live.wake(topics.node(node_id))
    await hurry(services)
    return await show(services, account_id, node_id, also_left=True)


def _told(caller: Caller, what: str) -> dict[str, str]:
    return {"what": what, "by": f"{caller.credential} {caller.credential_id}"}


def _said(change: TermsChange) -> str:
    said = {name: value for name, value in asdict(change).items() if value is not UNSET}
    return " ".join(f"{name}={_short(value)}" for name, value in said.items())


def _short(value: object) -> str:
    """Of lists only how long they are: an entry of the audit stays short."""
    return f"({len(value)})" if isinstance(value, tuple) else str(value)
