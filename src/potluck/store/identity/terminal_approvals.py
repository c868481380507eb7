"""Approvals of waiting terminals by a wallet: fetched once, short-lived."""

from datetime import datetime, timedelta

from msgspec import Struct

from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("terminal_approvals")


class Approval(Struct, frozen=True):
    address: str
    machine: str


async def add(
    connection: Connection, code_hash: bytes, approval: Approval, expires_at: datetime
) -> bool:
    """Whether it is the first answer to this code."""
    added = await connection.fetchval(
        *_sql.add(code_hash=code_hash, approval=approval, expires_at=expires_at)
    )
    return added is not None


async def use(connection: Connection, code_hash: bytes) -> Approval | None:
    """The approval, for the first caller; None if it is missing, used or expired."""
    row = await connection.fetchrow(*_sql.use(code_hash=code_hash))
    return None if row is None else Approval(row["address"], row["machine"])


async def delete_expired(connection: Connection, over_for: timedelta, most: int) -> int:
    gone: int = await connection.fetchval(*_sql.forget(older_than=over_for, limit=most))
    return gone
