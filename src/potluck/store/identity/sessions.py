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
    is_browser: bool = False,
) -> str:
    session_id = new_session_id()
    await connection.execute(
        *_sql.open(
            session_id=session_id,
            account_id=account_id,
            machine=machine,
            lifetime=lifetime,
            is_browser=is_browser,
        )
    )
    await connection.execute(*_sql.add_refresh(refresh_hash=refresh_hash, session_id=session_id))
    return session_id


async def caller(connection: Connection, session_id: str, account_id: AccountId) -> Account | None:
    row = await connection.fetchrow(*_sql.caller(session_id=session_id, account_id=account_id))
    return accounts.account(row)


async def rotate(
    connection: Connection,
    used_hash: bytes,
    next_hash: bytes,
    lifetime: timedelta,
    browser_grace: timedelta | None = None,
) -> Refreshed | None:
    """Exchanges a refresh token for the next one. A reused token ends its session.

    With a grace it is a token of a browser, and one that was used within that time may be used
    again, as long as `next_hash` is its successor and was not used. The session of a suspended
    account stays unchanged: the account may be resumed.
    """
    session = await find_by_refresh(connection, used_hash, browser_grace is not None)
    if session is None or session.account.suspended_at is not None:
        return session
    session_id, account = session.session_id, session.account
    if await connection.fetchval(*_sql.mark_refresh(refresh_hash=used_hash)) is None:
        if browser_grace is not None and await connection.fetchval(
            *_sql.is_just_used(refresh_hash=used_hash, next_hash=next_hash, grace=browser_grace)
        ):
            return session
        await revoke(connection, session_id, account.id)
        return Refreshed(session_id, account, was_reused=True)
    await connection.execute(*_sql.add_refresh(refresh_hash=next_hash, session_id=session_id))
    await connection.execute(*_sql.prolong(session_id=session_id, lifetime=lifetime))
    return Refreshed(session_id, account)


async def find_by_refresh(
    connection: Connection, refresh_hash: bytes, is_browser: bool
) -> Refreshed | None:
    """The open session of a refresh token, used or not. Locks it until the transaction ends."""
    row = await connection.fetchrow(
        *_sql.use_refresh(refresh_hash=refresh_hash, is_browser=is_browser)
    )
    account = accounts.account(row)
    return None if account is None else Refreshed(row["session_id"], account)


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
