"""The first admin: the wallet that the operator names, or whoever holds the invite in this file."""

from datetime import timedelta
from pathlib import Path

from potluck.local.durable_files import write_whole
from potluck.model.account import Role
from potluck.model.audit import AuditKind
from potluck.server.accounts.roles import add_role
from potluck.server.auth.tokens import INVITE_PREFIX, new_secret, secret_hash
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.identity import accounts, audit, invites

_ALL = frozenset(Role)
_LASTING = timedelta(days=365)


async def install_operator(services: Services) -> Path | None:
    """The file with the invite for the first admin, while the pool has none."""
    path = _invite_file(services)
    async with services.database.transaction() as connection:
        if services.settings.operator is not None:
            await _make_admin(connection, services, services.settings.operator)
        if await _withdraw(connection, path):
            return None
        if not path.exists():
            write_whole(path, new_secret(INVITE_PREFIX).encode())
        code = secret_hash(path.read_text().strip())
        await invites.offer_first(connection, code, _ALL, _LASTING)
    return path


async def withdraw_invite(services: Services) -> None:
    """Once there is an admin, the file is of no use to anybody."""
    async with services.database.transaction() as connection:
        await _withdraw(connection, _invite_file(services))


async def _withdraw(connection: Connection, path: Path) -> bool:
    if not await accounts.has_admin(connection):
        return False
    await invites.revoke_first(connection)
    path.unlink(missing_ok=True)
    return True


def _invite_file(services: Services) -> Path:
    return services.settings.data_directory / "admin-invite"


async def _make_admin(connection: Connection, services: Services, address: str) -> None:
    """At every start that names it. Only an admin lets one in again that is suspended."""
    added = await accounts.add(connection, address, _ALL)
    if added is not None:
        told = {"address": address, "roles": " ".join(sorted(added.roles))}
        await audit.append(
            connection, services.keys.audit, AuditKind.ACCOUNT_CREATED, "server", added.id, told
        )
        return
    found = await accounts.by_address(connection, address)
    assert found is not None, "accounts are not deleted"
    await add_role(connection, services, found, Role.ADMIN, "server")
