"""What a wallet approved for a terminal that waits: fetched once, forgotten soon."""

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
    row = (code_hash, approval.address, approval.machine, expires_at)
    return await connection.fetchval(_sql.add, *row) is not None


async def use(connection: Connection, code_hash: bytes) -> Approval | None:
    """The approval, for whoever comes first; none if there is none, or it was used, or is over."""
    row = await connection.fetchrow(_sql.use, code_hash)
    return None if row is None else Approval(row["address"], row["machine"])


async def forget(connection: Connection, over_for: timedelta, most: int) -> int:
    gone: int = await connection.fetchval(_sql.forget, over_for, most)
    return gone
