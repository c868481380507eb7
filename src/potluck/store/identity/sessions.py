"""Sessions: a wallet's sign-in, and the family of refresh tokens that extends it."""

from datetime import timedelta

from msgspec import Struct

from potluck.model.ids import AccountId
from potluck.store.database import Connection
from potluck.store.identity import accounts
from potluck.store.identity.accounts import Account
from potluck.store.new_ids import new_session_id
from potluck.store.sql_files import load
from potluck.wire.identity import SessionView

_sql = load("sessions")


class Refreshed(Struct, frozen=True):
    """The session of a refresh token. `was_reused`: the token had been used before."""

    session_id: str
    account: Account
    was_reused: bool = False


async def open_session(
    connection: Connection,
    account_id: AccountId,
    machine: str,
    refresh_hash: bytes,
    lifetime: timedelta,
) -> str:
    session_id = new_session_id()
    await connection.execute(
        *_sql.open(session_id=session_id, account_id=account_id, machine=machine, lifetime=lifetime)
    )
    await connection.execute(*_sql.add_refresh(refresh_hash=refresh_hash, session_id=session_id))
    return session_id


async def caller(connection: Connection, session_id: str, account_id: AccountId) -> Account | None:
    row = await connection.fetchrow(*_sql.caller(session_id=session_id, account_id=account_id))
    return accounts.account(row)


async def rotate(
    connection: Connection, used_hash: bytes, next_hash: bytes, lifetime: timedelta
) -> Refreshed | None:
    """Exchanges a refresh token for the next one. A reused token ends its session.

    The session of a suspended account stays unchanged: the account may be resumed.
    """
    row = await connection.fetchrow(*_sql.use_refresh(refresh_hash=used_hash))
    account = accounts.account(row)
    if account is None:
        return None
    session_id = row["session_id"]
    if account.suspended_at is not None:
        return Refreshed(session_id, account)
    if await connection.fetchval(*_sql.mark_refresh(refresh_hash=used_hash)) is None:
        await revoke(connection, session_id, account.id)
        return Refreshed(session_id, account, was_reused=True)
    await connection.execute(*_sql.add_refresh(refresh_hash=next_hash, session_id=session_id))
    await connection.execute(*_sql.prolong(session_id=session_id, lifetime=lifetime))
    return Refreshed(session_id, account)


async def revoke(connection: Connection, session_id: str, account_id: AccountId) -> bool:
    revoke = _sql.revoke(session_id=session_id, account_id=account_id)
    return await connection.fetchval(*revoke) is not None


async def of_account(
    connection: Connection, account_id: AccountId, current: str, behind: str | None, limit: int
) -> list[SessionView]:
    """A page, newest first."""
    rows = await connection.fetch(
        *_sql.of_account(account_id=account_id, behind=behind, limit=limit)
    )
    return [
        SessionView(
            row["id"],
            row["machine"],
            row["created_at"],
            row["used_at"],
            row["expires_at"],
            row["id"] == current,
        )
        for row in rows
    ]


async def delete_expired(connection: Connection, over_for: timedelta, most: int) -> int:
    gone: int = await connection.fetchval(*_sql.forget(older_than=over_for, limit=most))
    return gone
