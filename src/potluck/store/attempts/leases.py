"""Leases: kept alive by beats, taken back after a silence, forgiven by the leader."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from potluck.decide.lease_grace import Grace, HeartbeatGaps, Times
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
    """What the server knows about the leases of a node."""

    live: frozenset[AttemptId]
    lost: tuple[AttemptId, ...]  # listed by the node, run out, perhaps to be taken back
    has_wishes: bool = False  # its owner has asked for something


class PollState(Struct, frozen=True):
    """What a node that asks for work had been until then, and what it has."""

    state: NodeState
    is_news: bool  # it had let an assignment lie
    held: NodeLeases


class Beat(Struct, frozen=True):
    """What a heartbeat found."""

    node_state: NodeState
    held: NodeLeases
    has_concerns: bool  # about whose its devices are
    known: dict[str, tuple[str, str]]  # availability and why of its devices, by uuid
    last_wish: int  # the number of the last that its owner asked for, carried out or not
    now: datetime


class Adopted(Struct, frozen=True):
    """An attempt in its next life."""

    task_id: TaskId
    consumer_id: AccountId
    hold_micro: int
    state: AttemptState
    adoption: int
    task_state: TaskState
    task_state_before: TaskState


async def beat(
    connection: Connection,
    node_id: NodeId,
    owner: Owner,
    held: Sequence[AttemptId],
    lease_seconds: float,
    overrun_seconds: float,
) -> Beat:
    """Renews what the node holds, until `overrun_seconds` after an attempt's own limit at most."""
    row = await connection.fetchrow(
        *_sql.beat(
            node_id=node_id,
            owner=owner,
            held_ids=held,
            lease_duration=timedelta(seconds=lease_seconds),
            overrun_duration=timedelta(seconds=overrun_seconds),
        )
    )
    if row is None:
        raise no_such_node(node_id)
    said = zip(row["availabilities"], row["whys"], strict=True)
    return Beat(
        NodeState(row["node_state"]),
        held_of(row),
        row["has_concerns"],
        dict(zip(row["uuids"], said, strict=True)),
        row["last_wish"],
        row["now"],
    )


async def ask(
    connection: Connection,
    node_id: NodeId,
    owner: Owner,
    held: Sequence[AttemptId],
    moment_seconds: float,
) -> PollState:
    """Heard from it just now, and it will fetch what it is given; unless something was lost."""
    row = await connection.fetchrow(
        *_sql.ask(
            node_id=node_id,
            owner=owner,
            held_ids=held,
            min_heartbeat_age=timedelta(seconds=moment_seconds),
        )
    )
    if row is None:
        raise no_such_node(node_id)
    return PollState(NodeState(row["state"]), row["is_news"], held_of(row))


async def look(
    connection: Connection, node_id: NodeId, owner: Owner, held: Sequence[AttemptId]
) -> NodeLeases:
    row = await connection.fetchrow(*_sql.look(node_id=node_id, owner=owner, held_ids=held))
    return held_of(row)


def held_of(row: Any) -> NodeLeases:
    return NodeLeases(frozenset(row["live"]), tuple(row["lost"]), row["has_wishes"])


async def adopt(
    connection: Connection,
    attempt_id: AttemptId,
    node_id: NodeId,
    *,
    lease_seconds: float,
    overrun_seconds: float,
    is_over: bool,
) -> Adopted | None:
    """The guarded way back; None if anything is in it. The caller has locked the task."""
    await connection.execute(*_sql.lock_for_adoption(attempt_id=attempt_id, node_id=node_id))
    row = await connection.fetchrow(
        *_sql.adopt(
            attempt_id=attempt_id,
            node_id=node_id,
            lease_duration=timedelta(seconds=lease_seconds),
            overrun_duration=timedelta(seconds=overrun_seconds),
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


async def expired(connection: Connection) -> list[AttemptId]:
    return [AttemptId(row["id"]) for row in await connection.fetch(*_sql.expired())]


async def silence(connection: Connection, led_until: datetime, times: Times) -> HeartbeatGaps:
    row = await connection.fetchrow(*_sql.silence(led_until=led_until, times=times))
    return HeartbeatGaps(**row)


async def forgive(connection: Connection, leadership: Leadership, grace: Grace) -> bool:
    """Whether this term still runs; if so the silence is remembered as forgiven."""
    found = await connection.fetchval(*_sql.forgive(leadership=leadership, grace=grace))
    if found is None:
        return False
    await connection.execute(*_sql.prolong(grace=grace))
    return True
