"""Lease: a node registers, fetches its grants, and renews its leases with heartbeats."""

import asyncio
from collections.abc import Sequence

import potluck
from potluck.local import tracing
from potluck.model.audit import AuditKind
from potluck.model.event import EventKind
from potluck.model.ids import AttemptId, NodeId
from potluck.model.lease import Lease
from potluck.model.node import NodeState
from potluck.model.task import EndReason
from potluck.server import topics
from potluck.server.auth.caller import not_signed_in
from potluck.server.auth.tokens import is_lease_token, lease_token
from potluck.server.flow.batch import off_loop_if_many
from potluck.server.flow.lease import binding, device_status, owner_requests
from potluck.server.flow.lease.adopt import readopt_lost, stale_lease
from potluck.server.flow.lease.binding import BindingNews
from potluck.server.flow.lease.check_offer import check_offer
from potluck.server.flow.lease.idle_node import (
    PollEnd,
    record_idle,
    take_beat,
    wait_in_shared_check,
)
from potluck.server.flow.lease.standing_lease import (
    as_arrays,
    fetch_items,
    positions_of,
    seen_precision,
)
from potluck.server.flow.notify.notify import record_events, wake_leader
from potluck.server.flow.settle.end_many import end_many, withdraw_unfetched
from potluck.server.flow.settle.receipts import take_receipts
from potluck.server.flow.settle.server_signer import server_signer
from potluck.server.services import Services
from potluck.server.version_check import check_protocol
from potluck.store.attempts import attempts, leases
from potluck.store.attempts.leases import HeartbeatResult, NodeLeases, PollState
from potluck.store.database import Connection
from potluck.store.events.outbox import Event
from potluck.store.identity import node_keys
from potluck.store.identity.audit import Fact
from potluck.store.nodes import bindings, nodes, pending_requests
from potluck.store.nodes.nodes import Owner
from potluck.store.tasks.streams import NO_ITEMS
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

# The key's name and location are for the operator, in the log.
_UNREADABLE = "The server cannot decrypt the task; submit it again."


async def register(services: Services, owner: Owner, request: RegisterNode) -> NodeRegistered:
    """Called at each start and after each change of terms; does not affect running attempts."""
    check_protocol(services, request.protocol, request.description.potluck_version)
    offer = check_offer(request)
    uuids = [device.uuid for device in offer.description.devices]
    most = services.settings.nodes_per_account
    async with services.database.transaction() as connection:
        await _hold_key(connection, owner)
        facts = await binding.claim_devices(
            services, connection, owner.account_id, uuids, contest=offer.contest
        )
        known_id = await nodes.find_registered(connection, owner, offer.node_id)
        await bindings.lock_nodes(connection, uuids, known_id)
        node = await nodes.register(connection, owner, known_id, offer, most)
        await bindings.update_standings(connection, uuids)
        concerns = await bindings.list_concerns(
            connection, node.node_id, binding.lapse_after(services)
        )
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
    await wake_leader(services)
    services.waiting_polls.note_idle(node.node_id)
    settings = services.settings
    return NodeRegistered(
        node.node_id,
        node.device_ids,
        settings.lease_seconds,
        settings.heartbeat_seconds,
        settings.poll_seconds,
        binding.list_unbound(concerns),
        potluck.__version__,
        server_signer(services).address,
        settings.settle_seconds,
    )


async def _hold_key(connection: Connection, owner: Owner) -> None:
    """Serialises registrations of a key, and refuses a key that was just revoked."""
    if owner.node_key_id and not await node_keys.lock_active(connection, owner.node_key_id):
        raise not_signed_in()


async def mark_node_seen(services: Services, owner: Owner, node_id: NodeId) -> None:
    """Marks the node as seen; every call of a node does this.

    When the call arrives, not when it is answered: the node may be gone by then. A node that was
    silent comes back only with a call that lists everything it holds. Skips the write if this
    instance has just marked the node: each call is fenced by its own lease anyway.
    """
    seconds = seen_precision(services)
    if services.recently_seen.was_just_seen(node_id, owner, seconds):
        return
    async with services.database.statement() as connection:
        await nodes.mark_seen(connection, node_id, owner, seconds)
    services.recently_seen.note(node_id, owner)


async def _come_back(
    services: Services, owner: Owner, node_id: NodeId, reported: NodeLeases
) -> NodeLeases:
    """Restores the node's leases before it gets work: else it could get its own work again."""
    held = await readopt_lost(services, owner, node_id, reported)
    async with services.database.transaction() as connection:
        if await nodes.mark_online(connection, node_id, owner):
            event = Event(owner.account_id, EventKind.NODE_ONLINE, node_id=node_id)
            await record_events(connection, event)
    await wake_leader(services)
    return held


async def acquire(
    services: Services, owner: Owner, node_id: NodeId, request: AcquireLeases
) -> LeasesGranted:
    """Waits, without a database connection, until there is a grant or a change to report.

    A wake-up may be lost, so all waiting polls are checked together at intervals.
    """
    settings = services.settings
    clock = asyncio.get_running_loop()
    deadline = clock.time() + min(request.wait_seconds, settings.poll_seconds)
    shutdown_topic = topics.shutdown(services.instance)
    async with services.live.listen(topics.node(node_id), shutdown_topic) as listener:
        is_woken = False
        held = await _valid_leases(services, request.held)
        positions = request.streams or ()
        poll = await fetch_items(services, owner, node_id, positions, held)
        if held and poll.held and poll.is_current and not poll.held.lost:
            leases_now, took_beat = poll.held, False
        else:
            leases_now, took_beat = await _begin_poll(services, owner, node_id, held, request)
            poll = await fetch_items(services, owner, node_id, positions, held)
        # The node lists everything it has: there is nothing to fetch before a wake-up.
        is_due = not leases_now.live <= set(held)
        grants: list[Grant] = []
        new = poll.items
        # Its owner's requests come with its next heartbeat, which it sends after this answer.
        is_over = leases_now.has_wishes and request.beat is not None
        while True:
            # First the items of standing leases: most wake-ups are for them.
            if new == NO_ITEMS and is_due:
                leases_now, grants = await _fetch(services, owner, node_id, held, request)
                if request.streams is None:
                    grants = await as_arrays(services, owner, node_id, grants)
                else:
                    new = (await fetch_items(services, owner, node_id, positions_of(grants))).items
            gone = _gone(request.held, leases_now)
            rest_seconds = deadline - clock.time()
            is_over = is_over or is_woken or rest_seconds <= 0 or services.stopping.is_set()
            if grants or gone or is_over or new != NO_ITEMS:
                return LeasesGranted(
                    *(grants, gone, settings.lease_seconds, leases_now.has_wishes),
                    *(new.items, new.released, took_beat, new.cancelled),
                )
            # New items of a standing lease do not change what is live: each such poll looks itself.
            if positions:
                rest_seconds = min(rest_seconds, settings.lease_poll_seconds)
            end = await wait_in_shared_check(services, node_id, leases_now, listener, rest_seconds)
            is_woken = end is PollEnd.WOKEN
            # At its end nothing is fetched: the next poll begins with a look.
            is_due = bool(positions) or end is not PollEnd.OVER
            if not (is_due or held):
                services.waiting_polls.note_idle(node_id)
            poll = await fetch_items(services, owner, node_id, positions, held)
            new = poll.items
            if poll.held:
                leases_now, is_due = poll.held, not poll.held.live <= set(held)


async def _begin_poll(
    services: Services,
    owner: Owner,
    node_id: NodeId,
    held: Sequence[AttemptId],
    request: AcquireLeases,
) -> tuple[NodeLeases, bool]:
    """The node's leases, and whether the heartbeat in the poll was recorded."""
    beat, state = request.beat, None
    if not request.held and services.waiting_polls.take_idle(node_id):
        state = await record_idle(services, owner, node_id, beat, is_poll=True)
    leases_now = state.held if state else await _begin_alone(services, owner, node_id, held)
    if beat is None or request.held:
        return leases_now, False
    state = state or await _record_heartbeat(services, owner, node_id, beat)
    return leases_now, await take_beat(services, owner, node_id, beat, state)


async def _begin_alone(
    services: Services, owner: Owner, node_id: NodeId, held: Sequence[AttemptId]
) -> NodeLeases:
    """Restores lost leases first, then marks the node as polling, so that it gets work again."""
    poll = await _poll_once(services, owner, node_id, held)
    leases_now = poll.held
    if leases_now.lost:
        leases_now = await readopt_lost(services, owner, node_id, leases_now)
        poll = await _poll_once(services, owner, node_id, ())
    services.recently_seen.note(node_id, owner)
    if poll.is_news:
        await wake_leader(services)
    if poll.state is NodeState.SILENT:
        leases_now = await _come_back(services, owner, node_id, leases_now)
    return leases_now


async def _poll_once(
    services: Services, owner: Owner, node_id: NodeId, held: Sequence[AttemptId]
) -> PollState:
    async with services.database.statement() as connection:
        return await leases.poll(connection, node_id, owner, held, seen_precision(services))


async def heartbeat(
    services: Services, owner: Owner, node_id: NodeId, beat: Heartbeat
) -> HeartbeatAnswer:
    settings = services.settings
    state = None if beat.held else await record_idle(services, owner, node_id, beat)
    state = state or await _record_heartbeat(services, owner, node_id, beat)
    if state.holds_other_volumes:
        await wake_leader(services)
    if state.node_state is NodeState.SILENT:
        held = await _come_back(services, owner, node_id, state.held)
    else:
        held = await readopt_lost(services, owner, node_id, state.held)
    news = (
        await binding.collect_news(services, owner.account_id, node_id)
        if state.has_concerns
        else BindingNews()
    )
    requests = await owner_requests.list_pending(services, node_id, beat.wish, state)
    await device_status.record_heartbeat(services, owner.account_id, node_id, beat, state)
    return HeartbeatAnswer(
        _gone(beat.held, held),
        news.challenges,
        news.unbound,
        requests,
        state.unfunded,
        settings.checkpoint_seconds,
        await take_receipts(services, owner, node_id, beat.receipts),
    )


async def _record_heartbeat(
    services: Services, owner: Owner, node_id: NodeId, beat: Heartbeat
) -> HeartbeatResult:
    settings, held_ids = services.settings, await _valid_leases(services, beat.held)
    async with services.database.statement() as connection:
        return await leases.record_heartbeat(
            connection,
            node_id,
            owner,
            held_ids,
            sorted(beat.volumes),
            lease_seconds=settings.lease_seconds,
            overrun_seconds=settings.overrun_seconds,
            contact_seconds=settings.least_silence_seconds,
        )


async def answer_challenges(
    services: Services, owner: Owner, node_id: NodeId, answers: ChallengeAnswers
) -> ChallengesAnswered:
    await mark_node_seen(services, owner, node_id)
    return await binding.check_answers(services, owner.account_id, answers.answers)


async def leave(
    services: Services, owner: Owner, node_id: NodeId, *, wish: int = 0, is_for_good: bool = False
) -> None:
    """The node leaves: its devices are released, and its attempts go back to the queue.

    Owner requests up to `wish` count as done: a drained node does not drain again at its next
    start. With `is_for_good` the node's key is revoked; otherwise the node may come back with it.
    """
    async with services.database.transaction() as connection:
        revoked = await _revoke(connection, owner) if is_for_good else []
        facts = await binding.release_devices(connection, owner.account_id, node_id)
        if await nodes.leave(connection, node_id, owner):
            await record_events(
                connection, Event(owner.account_id, EventKind.NODE_LEFT, node_id=node_id)
            )
        await pending_requests.complete(connection, node_id, wish)
        held = await attempts.live_of_node(connection, node_id, owner.account_id)
        await binding.record_facts(services, connection, [*revoked, *facts])
    services.recently_seen.forget(node_id, owner)
    if revoked:
        await services.live.wake(topics.CALLERS)
    await end_many(services, sorted(held), lambda _: EndReason.NODE_LEFT)
    await services.live.wake(topics.node(node_id))
    await wake_leader(services)


async def _revoke(connection: Connection, owner: Owner) -> list[Fact]:
    assert owner.node_key_id is not None, "only a node key can leave for good"
    key = await node_keys.revoke(connection, owner.node_key_id, owner.account_id)
    if key is None:
        return []
    data = {"key": key, "why": "left"}
    return [Fact(AuditKind.NODE_KEY_REVOKED, owner.account_id, owner.node_key_id, data)]


def check_token(services: Services, lease: Lease) -> None:
    if not _is_valid(services, lease):
        raise stale_lease(lease.attempt_id)


async def _valid_leases(services: Services, held: Sequence[Lease]) -> list[AttemptId]:
    def find_valid() -> list[AttemptId]:
        return [lease.attempt_id for lease in held if _is_valid(services, lease)]

    return await off_loop_if_many(len(held), find_valid)


def _is_valid(services: Services, lease: Lease) -> bool:
    return is_lease_token(services.keys.lease, lease.attempt_id, lease.token)


async def _fetch(
    services: Services,
    owner: Owner,
    node_id: NodeId,
    held: Sequence[AttemptId],
    request: AcquireLeases,
) -> tuple[NodeLeases, list[Grant]]:
    """Repeated while the poll waits: one statement, which is its own transaction."""
    seconds, began_ns = services.settings.lease_seconds, tracing.now_ns()
    async with services.database.statement() as connection:
        leases_now, fetched = await attempts.fetch(
            connection, services.vault, node_id, owner, held, seconds, request.most
        )
    if fetched.unreadable:
        reason = EndReason.SPEC_UNREADABLE
        await end_many(services, fetched.unreadable, lambda _: reason, detail=_UNREADABLE)
        await wake_leader(services)
    return leases_now, [_grant(services, attempt, began_ns) for attempt in fetched.attempts]


def _grant(services: Services, attempt: attempts.FetchedAttempt, began_ns: int) -> Grant:
    traceparent = attempt.traceparent
    if traceparent is not None:
        facts = {"task": attempt.task_id, "attempt": attempt.id}
        traceparent = tracing.record("lease", traceparent, began_ns, **facts)
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
        traceparent=traceparent,
        price_micro_per_hour=attempt.price_micro_per_hour,
        line=attempt.line,
        linger_seconds=services.settings.stream_linger_seconds if attempt.is_stream else None,
    )


def _gone(listed: Sequence[Lease], held: NodeLeases) -> list[AttemptId]:
    """Attempts that the node lists but no longer holds; not those it may still take back."""
    kept = held.live | set(held.lost)
    return [lease.attempt_id for lease in listed if lease.attempt_id not in kept]
