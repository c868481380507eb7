"""Node keys: the wallet's word that a key may work for it; in force, renewed, revoked."""

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


async def add(
    connection: Connection, account_id: AccountId, word: Delegation, machine: str
) -> NodeKeyView:
    """Takes the wallet's word. Raises Conflict for a key that works for another wallet."""
    known = await connection.fetchrow(_sql.lock, word.key)
    if known is not None and known["account_id"] == account_id:
        return _view(await connection.fetchrow(_sql.renew, known["id"], machine, *_said(word)))
    if known is not None:
        if not known["is_over"]:
            raise _taken(word.key)
        await connection.execute(_sql.end, known["id"])
    added = await connection.fetchrow(
        _sql.add,
        new_node_key_id(),
        account_id,
        word.key,
        machine,
        word.origin,
        list(word.scopes),
        *_said(word)[1:],
    )
    if added is None:  # somebody else was quicker by a moment
        raise _taken(word.key)
    return _view(added)


async def lock(connection: Connection, address: str) -> None:
    """Others who deal with this key wait until the transaction ends."""
    await connection.execute(_sql.lock, address)


async def by_address(connection: Connection, address: str) -> NodeKeyHolder | None:
    """Whom the key works for now."""
    row = await connection.fetchrow(_sql.by_address, address)
    account = accounts.account(row)
    return None if account is None else NodeKeyHolder(account, row["node_key_id"])


async def caller(connection: Connection, node_key_id: str, account_id: AccountId) -> Account | None:
    return accounts.account(await connection.fetchrow(_sql.caller, node_key_id, account_id))


async def hold(connection: Connection, node_key_id: str) -> bool:
    """Whether the key is in force; if so it is locked until the transaction ends."""
    return await connection.fetchval(_sql.hold, node_key_id) is not None


async def address(connection: Connection, node_key_id: str) -> str:
    found: str = await connection.fetchval(_sql.address, node_key_id)
    return found


async def note_use(connection: Connection, node_key_id: str) -> bool:
    """Whether this is the first use within the hour."""
    return await connection.fetchval(_sql.note_use, node_key_id) is not None


async def of_account(connection: Connection, account_id: AccountId) -> list[NodeKeyView]:
    return [_view(row) for row in await connection.fetch(_sql.of_account, account_id)]


async def revoke(connection: Connection, node_key_id: str, account_id: AccountId) -> str | None:
    """The key's address; none if there was nothing to revoke."""
    found: str | None = await connection.fetchval(_sql.revoke, node_key_id, account_id)
    return found


def _said(word: Delegation) -> tuple[str, str, str, datetime, datetime]:
    begins, ends = (datetime.fromtimestamp(at, UTC) for at in (word.issued_at, word.expires_at))
    return word.origin, word.nonce, word.signature, begins, ends


def _taken(key: str) -> Conflict:
    return Conflict(
        f"The node key {key} works for another wallet.",
        "Remove the file `node-key` in the provider's data directory: a new key is made.",
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
