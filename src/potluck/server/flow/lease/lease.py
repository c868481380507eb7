"""Lease: a node registers, fetches what it was granted, and keeps its leases alive by beating."""

import asyncio
from collections.abc import Sequence

import potluck
from potluck.model.audit import AuditKind
from potluck.model.event import EventKind
from potluck.model.ids import AttemptId, NodeId
from potluck.model.lease import Lease
from potluck.model.node import NodeState
from potluck.model.task import EndReason
from potluck.server import topics
from potluck.server.auth.caller import not_signed_in
from potluck.server.auth.tokens import is_lease_token, lease_token
from potluck.server.flow.lease import binding, device_status, owner_requests
from potluck.server.flow.lease.adopt import stale_lease, readopt_lost
from potluck.server.flow.lease.binding import BindingNews
from potluck.server.flow.lease.check_offer import check_offer
from potluck.server.flow.notify.notify import hurry, record_events
from potluck.server.flow.settle.end_many import withdraw_unfetched, end_many
from potluck.server.services import Services
from potluck.store.attempts import attempts, leases
from potluck.store.attempts.leases import NodeLeases, PollState
from potluck.store.database import Connection
from potluck.store.events.outbox import Event
from potluck.store.identity import node_keys
from potluck.store.identity.audit import Fact
from potluck.store.nodes import bindings, nodes, pending_requests
from potluck.store.nodes.nodes import Owner
from potluck.wire.device_challenge import ChallengeAnswers, ChallengesAnswered
from potluck.wire.provider import (
    AcquireLeases,
    Grant,
    Heartbeat,
    HeartbeatAnswer,
    LeasesGranted,
    NodeRegistered,
    RegisterNode,
)

# The key's name and place are for the operator, in the log.
_UNREADABLE = "The server can not open what the task is made of; submit it again."


async def register(services: Services, owner: Owner, said: RegisterNode) -> NodeRegistered:
    """At each start, and whenever its terms have changed: what runs is not touched by it."""
    offer = check_offer(said)
    uuids = [device.uuid for device in offer.description.devices]
    most = services.settings.nodes_per_account
    async with services.database.transaction() as connection:
        await _hold_key(connection, owner)
        facts = await binding.claim_devices(
            services, connection, owner.account_id, uuids, contest=offer.contest
        )
        known = await nodes.known(connection, owner, offer.node_id)
        await bindings.lock_nodes(connection, uuids, known)
        node = await nodes.register(connection, owner, known, offer, most)
        await bindings.restand(connection, uuids)
        concerns = await bindings.of_node(connection, node.node_id, binding.lapse_after(services))
        if not node.was_online:
            event = Event(owner.account_id, EventKind.NODE_ONLINE, node_id=node.node_id)
            await record_events(connection, event)
        await owner_requests.withdraw_pending(connection, node.node_id, offer)
        is_closed = await device_status.record_registration(
            services, connection, owner.account_id, node.node_id, offer
        )
        await binding.record_facts(services, connection, facts)
    if is_closed:
        await withdraw_unfetched(services, node.node_id)
    await hurry(services)
    settings = services.settings
    return NodeRegistered(
        node.node_id,
        node.device_ids,
        settings.lease_seconds,
        settings.heartbeat_seconds,
        settings.poll_seconds,
        binding.list_unbound(concerns),
        potluck.__version__,
    )


async def _hold_key(connection: Connection, owner: Owner) -> None:
    """One registration of a key at a time, and none of a key that was revoked at this moment."""
    if owner.node_key_id and not await node_keys.hold(connection, owner.node_key_id):
        raise not_signed_in()


async def mark_node_seen(services: Services, owner: Owner, node_id: NodeId) -> None:
    """Every call of a node is a sign of life.

    Counted when the call comes in, and not when its answer goes out: the node may be gone by then.
    One that had been silent comes back with a call that names all that it holds, and no other. If
    this instance has just heard it, nothing is asked: what it says is fenced by what it is about.
    """
    seconds = _moment_seconds(services)
    if services.recently_seen.was_just_seen(node_id, owner, seconds):
        return
    async with services.database.statement() as connection:
        await nodes.hear(connection, node_id, owner, seconds)
    services.recently_seen.note(node_id, owner)


def _moment_seconds(services: Services) -> float:
    """Nothing goes by how long ago a node was heard that a part of its interval would change."""
    return services.settings.heartbeat_seconds / 20


async def _come_back(
    services: Services, owner: Owner, node_id: NodeId, known: NodeLeases
) -> NodeLeases:
    """It gets work again when it has back what it had: else it would be given its own anew."""
    held = await readopt_lost(services, owner, node_id, known)
    async with services.database.transaction() as connection:
        if await nodes.come_back(connection, node_id, owner):
            event = Event(owner.account_id, EventKind.NODE_ONLINE, node_id=node_id)
            await record_events(connection, event)
    await hurry(services)
    return held


async def acquire(
    services: Services, owner: Owner, node_id: NodeId, request: AcquireLeases
) -> LeasesGranted:
    """Waits, without a database connection, until there is something to say.

    Looks again now and then while it waits: the wake-up may have been lost.
    """
    settings = services.settings
    clock = asyncio.get_running_loop()
    deadline = clock.time() + min(request.wait_seconds, settings.poll_seconds)
    stopped = topics.shutdown(services.instance)
    async with services.live.listen(topics.node(node_id), stopped) as listener:
        is_woken = False
        held = _true_leases(services, request.held)
        known = await _ask(services, owner, node_id, held)
        # All that it has is what it lists: there is nothing to fetch before it is woken.
        grants: list[Grant] | None = [] if known.live <= set(held) else None
        while True:
            if grants is None:
                known, grants = await _fetch(services, owner, node_id, held, request)
            gone = _gone(request.held, known)
            rest_seconds = deadline - clock.time()
            if grants or gone or is_woken or rest_seconds <= 0:
                return LeasesGranted(grants, gone, settings.lease_seconds, known.has_wishes)
            is_woken = await listener.wait(min(rest_seconds, settings.lease_poll_seconds))
            grants = None


async def _ask(
    services: Services, owner: Owner, node_id: NodeId, held: Sequence[AttemptId]
) -> NodeLeases:
    """What it has from before comes before what it asks for: that is taken back first.

    One that had let an assignment lie is planned with again.
    """
    asked = await _ask_once(services, owner, node_id, held)
    known = asked.held
    if known.lost:
        known = await readopt_lost(services, owner, node_id, known)
        asked = await _ask_once(services, owner, node_id, ())
    services.recently_seen.note(node_id, owner)
    if asked.is_news:
        await hurry(services)
    if asked.state is NodeState.SILENT:
        known = await _come_back(services, owner, node_id, known)
    return known


async def _ask_once(
    services: Services, owner: Owner, node_id: NodeId, held: Sequence[AttemptId]
) -> PollState:
    async with services.database.statement() as connection:
        return await leases.ask(connection, node_id, owner, held, _moment_seconds(services))


async def heartbeat(
    services: Services, owner: Owner, node_id: NodeId, beat: Heartbeat
) -> HeartbeatAnswer:
    settings = services.settings
    async with services.database.transaction() as connection:
        found = await leases.beat(
            connection,
            node_id,
            owner,
            _true_leases(services, beat.held),
            settings.lease_seconds,
            settings.overrun_seconds,
        )
    if found.node_state is NodeState.SILENT:
        held = await _come_back(services, owner, node_id, found.held)
    else:
        held = await readopt_lost(services, owner, node_id, found.held)
    told = (
        await binding.collect_news(services, owner.account_id, node_id)
        if found.has_concerns
        else BindingNews()
    )
    left = await owner_requests.list_pending(services, node_id, beat.wish, found)
    await device_status.record_heartbeat(services, owner.account_id, node_id, beat, found)
    return HeartbeatAnswer(_gone(beat.held, held), told.challenges, told.unbound, left)


async def answer_challenges(
    services: Services, owner: Owner, node_id: NodeId, given: ChallengeAnswers
) -> ChallengesAnswered:
    await mark_node_seen(services, owner, node_id)
    return await binding.check_answers(services, owner.account_id, given.answers)


async def leave(
    services: Services, owner: Owner, node_id: NodeId, *, wish: int = 0, is_for_good: bool = False
) -> None:
    """The node goes: its devices are free, and what it still held goes back to the queue.

    What its owner asked for up to this wish is done: a node that has drained does not at its next
    start. For good, its key is worth nothing from now on; otherwise it may come back with it.
    """
    async with services.database.transaction() as connection:
        revoked = await _revoke(connection, owner) if is_for_good else []
        facts = await binding.release_devices(connection, owner.account_id, node_id)
        if await nodes.leave(connection, node_id, owner):
            await record_events(
                connection, Event(owner.account_id, EventKind.NODE_LEFT, node_id=node_id)
            )
        await pending_requests.carry_out(connection, node_id, wish)
        held = await attempts.live_of_node(connection, node_id, owner.account_id)
        await binding.record_facts(services, connection, [*revoked, *facts])
    services.recently_seen.forget(node_id, owner)
    await end_many(services, sorted(held), lambda _: EndReason.NODE_LEFT)
    await services.live.wake(topics.node(node_id))
    await hurry(services)


async def _revoke(connection: Connection, owner: Owner) -> list[Fact]:
    assert owner.node_key_id is not None, "only a node key says that its node leaves for good"
    key = await node_keys.revoke(connection, owner.node_key_id, owner.account_id)
    if key is None:
        return []
    told = {"key": key, "why": "left"}
    return [Fact(AuditKind.NODE_KEY_REVOKED, owner.account_id, owner.node_key_id, told)]


def check_token(services: Services, lease: Lease) -> None:
    if not _is_true(services, lease):
        raise stale_lease(lease.attempt_id)


def _true_leases(services: Services, held: Sequence[Lease]) -> list[AttemptId]:
    return [lease.attempt_id for lease in held if _is_true(services, lease)]


def _is_true(services: Services, lease: Lease) -> bool:
    return is_lease_token(services.keys.lease, lease.attempt_id, lease.token)


async def _fetch(
    services: Services,
    owner: Owner,
    node_id: NodeId,
    held: Sequence[AttemptId],
    request: AcquireLeases,
) -> tuple[NodeLeases, list[Grant]]:
    """Asked again and again while it waits: in one statement, which is a transaction by itself."""
    seconds = services.settings.lease_seconds
    async with services.database.statement() as connection:
        known, fetched = await attempts.fetch(
            connection, services.vault, node_id, owner, held, seconds, request.most
        )
    if fetched.unreadable:
        reason = EndReason.SPEC_UNREADABLE
        await end_many(services, fetched.unreadable, lambda _: reason, detail=_UNREADABLE)
        await hurry(services)
    return known, [_grant(services, attempt) for attempt in fetched.attempts]


def _grant(services: Services, attempt: attempts.FetchedAttempt) -> Grant:
    return Grant(
        attempt_id=attempt.id,
        token=lease_token(services.keys.lease, attempt.id),
        task_id=attempt.task_id,
        account_id=attempt.consumer_id,
        wallet=attempt.wallet,
        spec=attempt.spec,
        requirements=attempt.requirements,
        limits=attempt.limits,
        devices=attempt.devices,
        items=attempt.items,
        items_total=attempt.items_total,
        is_reclaimable=attempt.is_reclaimable,
        secrets=attempt.secrets,
        checkpoint=attempt.checkpoint,
    )


def _gone(claimed: Sequence[Lease], held: NodeLeases) -> list[AttemptId]:
    """What the node believes to hold and does not hold any more.

    What was given up while its poll waited is not among it: the node may take it back with the next
    call. The poll itself says nothing any more; its node may be gone.
    """
    kept = held.live | set(held.lost)
    return [lease.attempt_id for lease in claimed if lease.attempt_id not in kept]
