"""Bindings: which wallet a device is bound to, and contests about that.

Every verb that changes one is called with the binding's row locked (`claim` or `lock`).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from potluck.decide.binding import Contest
from potluck.model.device import Standing
from potluck.model.ids import AccountId, NodeId
from potluck.store.database import Connection
from potluck.store.named import load

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
    is_free: bool  # nobody's any more: whoever had it left
    now: datetime


async def claim(connection: Connection, uuid: str, account_id: AccountId) -> Binding:
    """The binding, locked; to this account if it was nobody's."""
    row = await connection.fetchrow(_sql.claim, uuid, account_id)
    return Binding(uuid, row["account_id"], row["is_new"])


async def lock(connection: Connection, uuid: str) -> Binding | None:
    found = await connection.fetchval(_sql.lock, uuid)
    return None if found is None else Binding(uuid, AccountId(found))


async def has_lapsed(connection: Connection, binding: Binding, after: timedelta) -> bool:
    lapsed: bool = await connection.fetchval(
        _sql.has_lapsed, binding.uuid, binding.account_id, after
    )
    return lapsed


async def move(connection: Connection, uuid: str, account_id: AccountId) -> None:
    await connection.execute(_sql.move, uuid, account_id)


async def free_of_node(connection: Connection, node_id: NodeId, account_id: AccountId) -> list[str]:
    """Unbinds what this node alone shows for its wallet; answers which devices that were."""
    uuids = [row["uuid"] for row in await connection.fetch(_sql.lock_of_node, node_id, account_id)]
    await connection.execute(_sql.free, uuids)
    return uuids


async def lock_nodes(
    connection: Connection, uuids: Sequence[str], node_id: NodeId | None = None
) -> None:
    await connection.execute(_sql.lock_nodes, list(uuids), node_id)


async def restand(connection: Connection, uuids: Sequence[str]) -> None:
    """Tells every device's row what the bindings say; the nodes are locked before."""
    await connection.execute(_sql.restand, list(uuids))


async def open_contest(
    connection: Connection, uuid: str, contender_id: AccountId, seed: bytes, lasting: timedelta
) -> None:
    await connection.execute(_sql.contest, uuid, contender_id, seed, lasting)


async def contest_of(connection: Connection, uuid: str) -> tuple[Contest, datetime] | None:
    """The contest about a device, and the database's time."""
    row = await connection.fetchrow(_sql.contest_of, uuid)
    return None if row is None else (_contest(row), row["now"])


async def note_answer(connection: Connection, contest: Contest, account_id: AccountId) -> None:
    is_incumbent = account_id == contest.incumbent_id
    statement = _sql.answer_as_incumbent if is_incumbent else _sql.answer_as_contender
    await connection.execute(statement, contest.uuid)


async def close_contest(connection: Connection, uuid: str) -> None:
    await connection.execute(_sql.close_contest, uuid)


async def of_node(connection: Connection, node_id: NodeId) -> list[Concern]:
    rows = await connection.fetch(_sql.of_node, node_id)
    return [
        Concern(
            row["uuid"],
            Standing(row["standing"]),
            None if row["contender_id"] is None else _contest(row),
            row["incumbent_id"] is None,
            row["now"],
        )
        for row in rows
    ]


def _contest(row: Any) -> Contest:
    return Contest(
        row["uuid"],
        row["incumbent_id"],
        row["contender_id"],
        row["seed"],
        row["closes_at"],
        row["has_incumbent_answered"],
        row["has_contender_answered"],
    )
