"""Node keys: delegations in which a wallet authorises a machine's key."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from potluck.model.error import Conflict
from potluck.model.ids import AccountId
from potluck.store.database import Connection
from potluck.store.identity import accounts
from potluck.store.identity.accounts import Account
from potluck.store.new_ids import new_node_key_id
from potluck.store.sql_files import load
from potluck.wire.identity import Delegation, NodeKeyView

_sql = load("node_keys")


class NodeKeyHolder(Struct, frozen=True):
    """The account that a node key works for."""

    account: Account
    node_key_id: str


class NodeCaller(Struct, frozen=True):
    """The account that a node key works for, and the version of its row."""

    account: Account
    row_version: str


async def add(
    connection: Connection, account_id: AccountId, delegation: Delegation, machine: str
) -> NodeKeyView:
    """Stores the delegation. Raises Conflict for a key that works for another wallet."""
    existing = await connection.fetchrow(*_sql.lock(address=delegation.key))
    if existing is not None and existing["account_id"] == account_id:
        return _view(
            await connection.fetchrow(
                *_sql.renew(node_key_id=existing["id"], **_values(delegation, machine))
            )
        )
    if existing is not None:
        if not existing["is_over"]:
            raise _taken(delegation.key)
        await connection.execute(*_sql.end(node_key_id=existing["id"]))
    added = await connection.fetchrow(
        *_sql.add(
            node_key_id=new_node_key_id(), account_id=account_id, **_values(delegation, machine)
        )
    )
    if added is None:  # a concurrent call was faster
        raise _taken(delegation.key)
    return _view(added)


async def lock(connection: Connection, address: str) -> None:
    """Serialises calls about this key until the transaction ends."""
    await connection.execute(*_sql.lock(address=address))


async def by_address(connection: Connection, address: str) -> NodeKeyHolder | None:
    """The account that the key currently works for."""
    row = await connection.fetchrow(*_sql.by_address(address=address))
    account = accounts.account(row)
    return None if account is None else NodeKeyHolder(account, row["node_key_id"])


async def caller(
    connection: Connection, node_key_id: str, account_id: AccountId
) -> NodeCaller | None:
    row = await connection.fetchrow(*_sql.caller(node_key_id=node_key_id, account_id=account_id))
    account = accounts.account(row)
    return None if account is None else NodeCaller(account, row["row_version"])


async def changed_callers(
    connection: Connection, callers: Mapping[str, NodeCaller]
) -> frozenset[str]:
    """Of these callers, by node key, those that `caller` would not return any more as they are."""
    rows = await connection.fetch(
        *_sql.changed_callers(
            node_key_ids=list(callers),
            account_ids=[caller.account.id for caller in callers.values()],
            row_versions=[caller.row_version for caller in callers.values()],
        )
    )
    return frozenset(row["node_key_id"] for row in rows)


async def lock_active(connection: Connection, node_key_id: str) -> bool:
    """Whether the key is valid; if so, it is locked until the transaction ends."""
    return await connection.fetchval(*_sql.hold(node_key_id=node_key_id)) is not None


async def address(connection: Connection, node_key_id: str) -> str:
    address: str = await connection.fetchval(*_sql.address(node_key_id=node_key_id))
    return address


async def record_use(connection: Connection, node_key_id: str) -> bool:
    """Whether this is the first use within the hour."""
    return await connection.fetchval(*_sql.note_use(node_key_id=node_key_id)) is not None


async def of_account(
    connection: Connection, account_id: AccountId, behind: str | None, limit: int
) -> list[NodeKeyView]:
    """A page, newest first."""
    rows = await connection.fetch(
        *_sql.of_account(account_id=account_id, behind=behind, limit=limit)
    )
    return [_view(row) for row in rows]


async def revoke(connection: Connection, node_key_id: str, account_id: AccountId) -> str | None:
    """The key's address; None if there was nothing to revoke."""
    revoked_key: str | None = await connection.fetchval(
        *_sql.revoke(node_key_id=node_key_id, account_id=account_id)
    )
    return revoked_key


def _values(delegation: Delegation, machine: str) -> dict[str, Any]:
    return {
        "delegation": delegation,
        "machine": machine,
        "issued_at": datetime.fromtimestamp(delegation.issued_at, UTC),
        "expires_at": datetime.fromtimestamp(delegation.expires_at, UTC),
    }


def _taken(key: str) -> Conflict:
    return Conflict(
        f"The node key {key} works for another wallet.",
        "Remove the file `node-key` in the provider's data directory to create a new key.",
    )


def _view(row: Any) -> NodeKeyView:
    return NodeKeyView(
        row["id"],
        row["address"],
        row["machine"],
        list(row["scopes"]),
        row["origin"],
        row["issued_at"],
        row["expires_at"],
        row["node_id"],
        row["used_at"],
    )
