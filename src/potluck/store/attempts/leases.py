"""Leases: renewed by heartbeats, re-adopted after a silence, extended by the leader's grace."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import compress
from typing import Any

from msgspec import Struct

from potluck.decide.lease_grace import Grace, HeartbeatGaps, HeartbeatTimes
from potluck.model.ids import AccountId, AttemptId, NodeId, TaskId
from potluck.model.lease import AttemptState
from potluck.model.node import NodeState
from potluck.model.task import TaskState
from potluck.store.database import Connection
from potluck.store.nodes.nodes import Owner, no_such_node
from potluck.store.scheduler.leader import Leadership
from potluck.store.sql_files import load

_sql = load("leases")


class NodeLeases(Struct, frozen=True):
    """The leases of a node, as the server knows them."""

    live: frozenset[AttemptId]
    lost: tuple[AttemptId, ...]  # listed by the node, but expired; may be re-adopted
    has_wishes: bool = False  # there are pending owner requests


class PollState(Struct, frozen=True):
    """The state of a node before its poll, and its leases."""

    state: NodeState
    is_news: bool  # it was not polling before
    held: NodeLeases


class HeartbeatResult(Struct, frozen=True):
    """What a heartbeat found."""

    node_state: NodeState
    held: NodeLeases
    has_concerns: bool  # about the binding of its devices
    known: dict[str, tuple[str, str]]  # availability and reason per device uuid
    hot: frozenset[str]  # the uuids of devices that were hot
    last_wish: int  # number of the owner's latest request, done or not
    unfunded: list[AttemptId]  # must stop: the credit for them ran out
    now: datetime
    holds_other_volumes: bool  # than at the heartbeat before


class Adopted(Struct, frozen=True):
    """A re-adopted attempt."""

    task_id: TaskId
    consumer_id: AccountId
    hold_micro: int
    state: AttemptState
    adoption: int
    task_state: TaskState
    task_state_before: TaskState


async def record_heartbeat(
    connection: Connection,
    node_id: NodeId,
    owner: Owner,
    held: Sequence[AttemptId],
    volumes: Sequence[str],
    *,
    lease_seconds: float,
    overrun_seconds: float,
    contact_seconds: float,
) -> HeartbeatResult:
    """Renews the node's leases, at most until `overrun_seconds` after an attempt's own limit.

    A longer gap than `contact_seconds` between heartbeats is a loss of contact.
    """
    row = await connection.fetchrow(
        *_sql.beat(
            node_id=node_id,
            owner=owner,
            held_ids=held,
            volumes=volumes,
            lease_duration=timedelta(seconds=lease_seconds),
            overrun_duration=timedelta(seconds=overrun_seconds),
            contact_duration=timedelta(seconds=contact_seconds),
        )
    )
    if row is None:
        raise no_such_node(node_id)
    return _read_heartbeat(row)


def _read_heartbeat(row: Any) -> HeartbeatResult:
    states = zip(row["availabilities"], row["whys"], strict=True)
    return HeartbeatResult(
        NodeState(row["node_state"]),
        read_node_leases(row),
        row["has_concerns"],
        dict(zip(row["uuids"], states, strict=True)),
        frozenset(compress(row["uuids"], row["are_hot"])),
        row["last_wish"],
        row["unfunded"],
        row["now"],
        row["holds_other_volumes"],
    )


class IdleCall(Struct, frozen=True):
    """A heartbeat or a poll of a node that lists no leases."""

    node_id: NodeId
    owner: Owner
    is_poll: bool
    volumes: tuple[str, ...] | None = None  # that the node holds, in order; None if it did not say

    @property
    def volumes_text(self) -> str | None:
        return None if self.volumes is None else "\n".join(self.volumes)


async def record_idle(
    connection: Connection, calls: Sequence[IdleCall]
) -> dict[NodeId, HeartbeatResult]:
    """Marks the nodes as seen; those that are not plainly idle are left out, and unchanged."""
    rows = await connection.fetch(*_sql.beat_idle(calls=calls))
    return {NodeId(row["id"]): _read_heartbeat(row) for row in rows}


async def live_of_nodes(
    connection: Connection, node_ids: Sequence[NodeId]
) -> dict[NodeId, frozenset[AttemptId]]:
    rows = await connection.fetch(*_sql.live_of_nodes(node_ids=node_ids))
    return {NodeId(row["node_id"]): frozenset(row["live"]) for row in rows}


async def poll(
    connection: Connection,
    node_id: NodeId,
    owner: Owner,
    held: Sequence[AttemptId],
    precision_seconds: float,
) -> PollState:
    """Marks the node as seen and polling, unless it lists attempts the server has given up."""
    row = await connection.fetchrow(
        *_sql.ask(
            node_id=node_id,
            owner=owner,
            held_ids=held,
            min_heartbeat_age=timedelta(seconds=precision_seconds),
        )
    )
    if row is None:
        raise no_such_node(node_id)
    return PollState(NodeState(row["state"]), row["is_news"], read_node_leases(row))


async def load_leases(
    connection: Connection, node_id: NodeId, owner: Owner, held: Sequence[AttemptId]
) -> NodeLeases:
    row = await connection.fetchrow(*_sql.look(node_id=node_id, owner=owner, held_ids=held))
    return read_node_leases(row)


def read_node_leases(row: Any) -> NodeLeases:
    return NodeLeases(frozenset(row["live"]), tuple(row["lost"]), row["has_wishes"])


async def adopt(
    connection: Connection,
    attempt_id: AttemptId,
    node_id: NodeId,
    *,
    lease_seconds: float,
    overrun_seconds: float,
    slice_seconds: float,
    is_over: bool,
) -> Adopted | None:
    """Re-adopts the attempt; None if a guard fails. The caller has locked the task."""
    await connection.execute(*_sql.lock_for_adoption(attempt_id=attempt_id, node_id=node_id))
    row = await connection.fetchrow(
        *_sql.adopt(
            attempt_id=attempt_id,
            node_id=node_id,
            lease_duration=timedelta(seconds=lease_seconds),
            overrun_duration=timedelta(seconds=overrun_seconds),
            slice_seconds=slice_seconds,
            is_over=is_over,
        )
    )
    if row is None:
        return None
    return Adopted(
        task_id=row["task_id"],
        consumer_id=row["consumer_id"],
        hold_micro=row["hold_micro"],
        state=AttemptState(row["state"]),
        adoption=row["adoptions"],
        task_state=TaskState(row["task_state"]),
        task_state_before=TaskState(row["task_state_before"]),
    )


async def list_expired(connection: Connection) -> list[AttemptId]:
    return [AttemptId(row["id"]) for row in await connection.fetch(*_sql.expired())]


async def read_heartbeat_gaps(
    connection: Connection, led_until: datetime, times: HeartbeatTimes
) -> HeartbeatGaps:
    row = await connection.fetchrow(*_sql.silence(led_until=led_until, times=times))
    return HeartbeatGaps(**row)


async def grant_grace(connection: Connection, leadership: Leadership, grace: Grace) -> bool:
    """Whether this term still runs; if so, stores the grace and extends the leases."""
    forgiven_count = await connection.fetchval(*_sql.forgive(leadership=leadership, grace=grace))
    if forgiven_count is None:
        return False
    await connection.execute(*_sql.prolong(grace=grace))
    return True
