"""Bindings of devices to wallets, and contests about them.

Every function that changes a binding needs its row locked (`claim_many` or `lock`).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from potluck.decide.binding import BindingClaim, Contest
from potluck.model.device import Standing
from potluck.model.ids import AccountId, NodeId
from potluck.store.database import Connection
from potluck.store.sql_files import bind_many, load

_sql = load("bindings")


class Binding(Struct, frozen=True):
    uuid: str
    account_id: AccountId
    is_new: bool = False
    is_contested: bool = False


class Concern(Struct, frozen=True):
    """A device of a node that the node must be told about."""

    uuid: str
    standing: Standing
    contest: Contest | None
    is_free: bool  # its holder left, lapsed, or is a silent node of the same wallet
    now: datetime


async def claim_many(
    connection: Connection, uuids: Sequence[str], account_id: AccountId
) -> list[Binding]:
    """The bindings, locked in this order; bound to this account where they were free."""
    calls = [_claim(uuid, account_id) for uuid in uuids]
    rows = await connection.fetchmany(*bind_many(_sql.claim, calls))
    return [Binding(uuid, *row) for uuid, row in zip(uuids, rows, strict=True)]


def _claim(uuid: str, account_id: AccountId) -> dict[str, str]:
    return {"uuid": uuid, "account_id": account_id}


async def lock(connection: Connection, uuid: str) -> Binding | None:
    owner_id = await connection.fetchval(*_sql.lock(uuid=uuid))
    return None if owner_id is None else Binding(uuid, AccountId(owner_id))


async def has_lapsed(connection: Connection, binding: Binding, after: timedelta) -> bool:
    lapsed: bool = await connection.fetchval(*_sql.has_lapsed(binding=binding, lapse_after=after))
    return lapsed


async def move(connection: Connection, uuid: str, account_id: AccountId) -> None:
    await connection.execute(*_sql.move(uuid=uuid, account_id=account_id))


async def release_of_node(
    connection: Connection, node_id: NodeId, account_id: AccountId
) -> list[str]:
    """Unbinds devices that only this node shows for its wallet; returns their uuids."""
    rows = await connection.fetch(*_sql.lock_of_node(node_id=node_id, account_id=account_id))
    uuids = [row["uuid"] for row in rows]
    await connection.execute(*_sql.free(uuids=uuids))
    return uuids


async def lock_nodes(
    connection: Connection, uuids: Sequence[str], node_id: NodeId | None = None
) -> None:
    await connection.execute(*_sql.lock_nodes(uuids=list(uuids), node_id=node_id))


async def update_standings(connection: Connection, uuids: Sequence[str]) -> None:
    """Updates the devices' rows from the bindings; the nodes are locked before."""
    await connection.execute(*_sql.rehold(uuids=list(uuids)))
    await connection.execute(*_sql.restand(uuids=list(uuids)))


async def open_contest(
    connection: Connection,
    uuid: str,
    contender_id: AccountId,
    seed: bytes,
    duration: timedelta,
    away: timedelta,
) -> None:
    """An incumbent that shows the device but is away has the longer time."""
    await connection.execute(
        *_sql.contest(
            uuid=uuid,
            contender_id=contender_id,
            seed=seed,
            answer_within=duration,
            answer_within_if_away=away,
        )
    )


async def start_incumbent_time(connection: Connection, uuid: str, duration: timedelta) -> None:
    """The incumbent is back: its time starts now."""
    await connection.execute(*_sql.hurry_incumbent(uuid=uuid, answer_within=duration))


async def extend_contests(connection: Connection, duration: timedelta) -> None:
    await connection.execute(*_sql.prolong_contests(answer_within=duration))


async def read_contest(connection: Connection, uuid: str) -> tuple[Contest, datetime] | None:
    """The contest about a device, and the current time by the database's clock."""
    row = await connection.fetchrow(*_sql.contest_of(uuid=uuid))
    return None if row is None else (_contest(row), row["now"])


async def record_answer(
    connection: Connection, contest: Contest, account_id: AccountId, is_correct: bool
) -> None:
    is_incumbent = account_id == contest.incumbent.account_id
    answer = _sql.answer_as_incumbent if is_incumbent else _sql.answer_as_contender
    await connection.execute(*answer(uuid=contest.uuid, is_right=is_correct))


async def close_contest(connection: Connection, uuid: str) -> None:
    await connection.execute(*_sql.close_contest(uuid=uuid))


async def record_lost_contest(connection: Connection, uuid: str, contender_id: AccountId) -> None:
    await connection.execute(*_sql.lose_contest(uuid=uuid, contender_id=contender_id))


async def has_lost_contest(
    connection: Connection, uuid: str, account_id: AccountId, within: timedelta
) -> bool:
    """Whether this wallet lost a contest about the device within this time."""
    await connection.execute(*_sql.forget_lost_contests(uuid=uuid, older_than=within))
    lost: bool = await connection.fetchval(*_sql.has_lost(uuid=uuid, contender_id=account_id))
    return lost


async def list_concerns(connection: Connection, node_id: NodeId, lapse: timedelta) -> list[Concern]:
    """What a node must be told; a binding that was silent for `lapse` is free."""
    rows = await connection.fetch(*_sql.of_node(node_id=node_id, lapse_after=lapse))
    return [
        Concern(
            row["uuid"],
            Standing(row["standing"]),
            None if row["contender_id"] is None else _contest(row),
            row["is_free"],
            row["now"],
        )
        for row in rows
    ]


def _contest(row: Any) -> Contest:
    return Contest(
        row["uuid"],
        row["seed"],
        BindingClaim(row["incumbent_id"], row["incumbent_by"], row["incumbent_was_right"]),
        BindingClaim(row["contender_id"], row["contender_by"], row["contender_was_right"]),
    )
