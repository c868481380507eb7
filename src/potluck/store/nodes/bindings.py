"""Bindings: which wallet a device is bound to, and contests about that.

Every verb that changes one is called with the binding's row locked (`claim` or `lock`).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from potluck.decide.binding import BindingClaim, Contest
from potluck.model.device import Standing
from potluck.model.ids import AccountId, NodeId
from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("bindings")


class Binding(Struct, frozen=True):
    uuid: str
    account_id: AccountId
    is_new: bool = False


class Concern(Struct, frozen=True):
    """A device of a node about which there is something to say to it."""

    uuid: str
    standing: Standing
    contest: Contest | None
    is_free: bool  # whoever had it left, lapsed, or is another node of the wallet and silent
    now: datetime


async def claim(connection: Connection, uuid: str, account_id: AccountId) -> Binding:
    """The binding, locked; to this account if it was nobody's."""
    row = await connection.fetchrow(*_sql.claim(uuid=uuid, account_id=account_id))
    return Binding(uuid, row["account_id"], row["is_new"])


async def lock(connection: Connection, uuid: str) -> Binding | None:
    found = await connection.fetchval(*_sql.lock(uuid=uuid))
    return None if found is None else Binding(uuid, AccountId(found))


async def has_lapsed(connection: Connection, binding: Binding, after: timedelta) -> bool:
    lapsed: bool = await connection.fetchval(*_sql.has_lapsed(binding=binding, lapse_after=after))
    return lapsed


async def move(connection: Connection, uuid: str, account_id: AccountId) -> None:
    await connection.execute(*_sql.move(uuid=uuid, account_id=account_id))


async def free_of_node(connection: Connection, node_id: NodeId, account_id: AccountId) -> list[str]:
    """Unbinds what this node alone shows for its wallet; answers which devices that were."""
    rows = await connection.fetch(*_sql.lock_of_node(node_id=node_id, account_id=account_id))
    uuids = [row["uuid"] for row in rows]
    await connection.execute(*_sql.free(uuids=uuids))
    return uuids


async def lock_nodes(
    connection: Connection, uuids: Sequence[str], node_id: NodeId | None = None
) -> None:
    await connection.execute(*_sql.lock_nodes(uuids=list(uuids), node_id=node_id))


async def restand(connection: Connection, uuids: Sequence[str]) -> None:
    """Tells every device's row what the bindings say; the nodes are locked before."""
    await connection.execute(*_sql.rehold(uuids=list(uuids)))
    await connection.execute(*_sql.restand(uuids=list(uuids)))


async def open_contest(
    connection: Connection,
    uuid: str,
    contender_id: AccountId,
    seed: bytes,
    lasting: timedelta,
    away: timedelta,
) -> None:
    """An incumbent that shows the device and is not here to be told has the longer time."""
    await connection.execute(
        *_sql.contest(
            uuid=uuid,
            contender_id=contender_id,
            seed=seed,
            answer_within=lasting,
            answer_within_if_away=away,
        )
    )


async def hurry_incumbent(connection: Connection, uuid: str, lasting: timedelta) -> None:
    """It is here, and is told: from now on its time runs."""
    await connection.execute(*_sql.hurry_incumbent(uuid=uuid, answer_within=lasting))


async def prolong_contests(connection: Connection, lasting: timedelta) -> None:
    await connection.execute(*_sql.prolong_contests(answer_within=lasting))


async def contest_of(connection: Connection, uuid: str) -> tuple[Contest, datetime] | None:
    """The contest about a device, and the time that counts for it, by the database's clock."""
    row = await connection.fetchrow(*_sql.contest_of(uuid=uuid))
    return None if row is None else (_contest(row), row["now"])


async def note_answer(
    connection: Connection, contest: Contest, account_id: AccountId, is_right: bool
) -> None:
    is_incumbent = account_id == contest.incumbent.account_id
    answer = _sql.answer_as_incumbent if is_incumbent else _sql.answer_as_contender
    await connection.execute(*answer(uuid=contest.uuid, is_right=is_right))


async def close_contest(connection: Connection, uuid: str) -> None:
    await connection.execute(*_sql.close_contest(uuid=uuid))


async def lose_contest(connection: Connection, uuid: str, contender_id: AccountId) -> None:
    await connection.execute(*_sql.lose_contest(uuid=uuid, contender_id=contender_id))


async def has_lost(
    connection: Connection, uuid: str, account_id: AccountId, within: timedelta
) -> bool:
    """Whether this wallet contested the device in vain within this time."""
    await connection.execute(*_sql.forget_lost_contests(uuid=uuid, older_than=within))
    lost: bool = await connection.fetchval(*_sql.has_lost(uuid=uuid, contender_id=account_id))
    return lost


async def of_node(connection: Connection, node_id: NodeId, lapse: timedelta) -> list[Concern]:
    """What there is to say to a node; what was silent for `lapse` is nobody's."""
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
