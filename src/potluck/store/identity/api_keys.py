"""API keys for CI and scripts; stored as hashes, with scopes and an expiry."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from msgspec import Struct

from potluck.model.account import Scope
from potluck.model.ids import AccountId
from potluck.store.database import Connection
from potluck.store.identity import accounts
from potluck.store.identity.accounts import Account
from potluck.store.new_ids import new_key_id
from potluck.store.sql_files import load
from potluck.wire.identity import KeyView

_sql = load("api_keys")


class KeyCaller(Struct, frozen=True):
    account: Account
    key_id: str
    scopes: frozenset[Scope]
    is_noteworthy: bool  # its use was not recorded within the last hour


async def add(
    connection: Connection,
    account_id: AccountId,
    name: str,
    scopes: Collection[Scope],
    key_hash: bytes,
    lifetime: timedelta,
) -> KeyView:
    key_id = new_key_id()
    scope_list = sorted(set(scopes))
    row = await connection.fetchrow(
        *_sql.add(
            key_id=key_id,
            account_id=account_id,
            name=name,
            scopes=scope_list,
            key_hash=key_hash,
            lifetime=lifetime,
        )
    )
    return _view(row)


async def by_hash(connection: Connection, key_hash: bytes) -> KeyView | None:
    """None if it is no longer valid."""
    row = await connection.fetchrow(*_sql.by_hash(key_hash=key_hash))
    return None if row is None else _view(row)


async def caller(connection: Connection, key_hash: bytes) -> KeyCaller | None:
    row = await connection.fetchrow(*_sql.caller(key_hash=key_hash))
    account = accounts.account(row)
    if account is None:
        return None
    scopes = frozenset(Scope(scope) for scope in row["scopes"])
    return KeyCaller(account, row["key_id"], scopes, row["is_noteworthy"])


async def record_use(connection: Connection, key_id: str) -> bool:
    """Whether this is the first use within the hour."""
    return await connection.fetchval(*_sql.note_use(key_id=key_id)) is not None


async def count(connection: Connection, account_id: AccountId) -> int:
    """How many are valid. Locks the account, so that no other key is added in the meantime."""
    await connection.execute(*_sql.lock_account(account_id=account_id))
    count: int = await connection.fetchval(*_sql.count(account_id=account_id))
    return count


async def of_account(
    connection: Connection, account_id: AccountId, behind: str | None, limit: int
) -> list[KeyView]:
    """A page, newest first."""
    rows = await connection.fetch(
        *_sql.of_account(account_id=account_id, behind=behind, limit=limit)
    )
    return [_view(row) for row in rows]


async def revoke(connection: Connection, key_id: str, account_id: AccountId) -> bool:
    return await connection.fetchval(*_sql.revoke(key_id=key_id, account_id=account_id)) is not None


async def revoke_all(connection: Connection, account_id: AccountId) -> list[str]:
    """The ids of the revoked keys; none that was added before is missed."""
    await connection.execute(*_sql.lock_account(account_id=account_id))
    return [row["id"] for row in await connection.fetch(*_sql.revoke_all(account_id=account_id))]


def _view(row: Any) -> KeyView:
    return KeyView(
        row["id"],
        row["name"],
        [Scope(scope) for scope in row["scopes"]],
        row["created_at"],
        row["expires_at"],
        row["used_at"],
    )
