"""The first admin: the wallet that the operator names, or the holder of the invite in a file."""

from datetime import timedelta
from pathlib import Path

from potluck.local.durable_files import write_atomically
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
    """Returns the file with the first admin's invite, if the pool has no admin."""
    path = _invite_file(services)
    async with services.database.transaction() as connection:
        if services.settings.operator is not None:
            await _make_admin(connection, services, services.settings.operator)
        if await _withdraw(connection, path):
            return None
        if not path.exists():
            write_atomically(path, new_secret(INVITE_PREFIX).encode())
        code = secret_hash(path.read_text().strip())
        await invites.offer_first(connection, code, _ALL, _LASTING)
    return path


async def withdraw_invite(services: Services) -> None:
    """Removes the invite once there is an admin."""
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
    """At every start with this setting. Does not resume a suspended account: only an admin can."""
    added = await accounts.add(connection, address, _ALL)
    if added is not None:
        details = {"address": address, "roles": " ".join(sorted(added.roles))}
        await audit.append(
            connection, services.keys.audit, AuditKind.ACCOUNT_CREATED, "server", added.id, details
        )
        return
    account = await accounts.by_address(connection, address)
    assert account is not None, "accounts are never deleted"
    await add_role(connection, services, account, Role.ADMIN, "server")
