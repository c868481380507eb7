"""The first admin: the wallet that the operator names, or whoever holds the invite in this file."""

from datetime import timedelta
from pathlib import Path

from potluck.local.durable_files import write_whole
from potluck.model.account import Role
from potluck.model.audit import AuditKind
from potluck.server.accounts.roles import add_role
from potluck.server.auth.tokens import INVITE_PREFIX, new_secret, secret_hash
from potluck.server.services import Parts
from potluck.store.database import Connection
from potluck.store.identity import accounts, audit, invites

_ALL = frozenset(Role)
_LASTING = timedelta(days=365)


async def install_operator(parts: Parts) -> Path | None:
    """The file with the invite for the first admin, while the pool has none."""
    path = _invite_file(parts)
    async with parts.database.transaction() as connection:
        if parts.settings.operator is not None:
            await _make_admin(connection, parts, parts.settings.operator)
        if await _withdraw(connection, path):
            return None
        if not path.exists():
            write_whole(path, new_secret(INVITE_PREFIX).encode())
        code = secret_hash(path.read_text().strip())
        await invites.offer_first(connection, code, _ALL, _LASTING)
    return path


async def withdraw_invite(parts: Parts) -> None:
    """Once there is an admin, the file is of no use to anybody."""
    async with parts.database.transaction() as connection:
        await _withdraw(connection, _invite_file(parts))


async def _withdraw(connection: Connection, path: Path) -> bool:
    if not await accounts.has_admin(connection):
        return False
    await invites.revoke_first(connection)
    path.unlink(missing_ok=True)
    return True


def _invite_file(parts: Parts) -> Path:
    return parts.settings.data_directory / "admin-invite"


async def _make_admin(connection: Connection, parts: Parts, address: str) -> None:
    """At every start that names it. Only an admin lets one in again that is suspended."""
    added = await accounts.add(connection, address, _ALL)
    if added is not None:
        told = {"address": address, "roles": " ".join(sorted(added.roles))}
        await audit.append(
            connection, parts.keys.audit, AuditKind.ACCOUNT_CREATED, "server", added.id, told
        )
        return
    found = await accounts.by_address(connection, address)
    assert found is not None, "accounts are not deleted"
    await add_role(connection, parts, found, Role.ADMIN, "server")
