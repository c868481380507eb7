"""Invites: how a new wallet gets an account where registration is not open."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from potluck.model.account import Role
from potluck.model.ids import AccountId
from potluck.store.database import Connection
from potluck.store.new_ids import new_invite_id
from potluck.store.sql_files import load
from potluck.wire.identity import InviteView

_sql = load("invites")


async def add(
    connection: Connection,
    code_hash: bytes,
    roles: Collection[Role],
    credit_micro: int,
    uses: int,
    made_by: AccountId,
    lifetime: timedelta,
    note: str = "",
) -> InviteView:
    row = await connection.fetchrow(
        *_sql.add(
            invite_id=new_invite_id(),
            code_hash=code_hash,
            roles=sorted(set(roles)),
            credit_micro=credit_micro,
            uses=uses,
            made_by=made_by,
            lifetime=lifetime,
            note=note,
        )
    )
    return _view(row)


async def by_hash(connection: Connection, code_hash: bytes) -> InviteView | None:
    """None if it is no longer valid."""
    row = await connection.fetchrow(*_sql.by_hash(code_hash=code_hash))
    return None if row is None else _view(row)


async def redeem(connection: Connection, code_hash: bytes) -> InviteView | None:
    """Uses it once."""
    row = await connection.fetchrow(*_sql.redeem(code_hash=code_hash))
    return None if row is None else _view(row)


async def redeem_first(connection: Connection, code_hash: bytes) -> InviteView | None:
    """Uses the server's own invite, which creates its first admin."""
    row = await connection.fetchrow(*_sql.redeem_first(code_hash=code_hash))
    return None if row is None else _view(row)


async def list_open(connection: Connection, behind: str | None, limit: int) -> list[InviteView]:
    """A page, newest first."""
    rows = await connection.fetch(*_sql.open(behind=behind, limit=limit))
    return [_view(row) for row in rows]


async def revoke(connection: Connection, invite_id: str) -> bool:
    return await connection.fetchval(*_sql.revoke(invite_id=invite_id)) is not None


async def offer_first(
    connection: Connection, code_hash: bytes, roles: Collection[Role], lifetime: timedelta
) -> None:
    """The server's own invite for its first admin; the same code may be offered again."""
    await connection.execute(
        *_sql.offer_first(
            invite_id=new_invite_id(), code_hash=code_hash, roles=sorted(roles), lifetime=lifetime
        )
    )


async def revoke_first(connection: Connection) -> None:
    await connection.execute(*_sql.revoke_first())


def _view(row: Any) -> InviteView:
    return InviteView(
        row["id"],
        [Role(role) for role in row["roles"]],
        row["credit_micro"],
        row["uses_left"],
        row["created_at"],
        row["expires_at"],
        row["note"],
    )
