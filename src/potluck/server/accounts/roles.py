"""Changes to accounts: roles, credit, quotas, suspension.

The credentials of a suspended account stop at the next call. `evict_once` removes its tasks and
nodes and runs periodically, so that nothing keeps running if a server dies in between.
"""

from asyncpg import NumericValueOutOfRangeError
from msgspec.structs import asdict

from potluck.decide.charges import grant_entries
from potluck.model.account import Quota, Role
from potluck.model.audit import AuditKind
from potluck.model.error import Conflict, NotFound
from potluck.model.ids import AccountId
from potluck.server.auth import idempotent_secret
from potluck.server.auth.idempotent_secret import IdempotentRequest
from potluck.server.flow.lease.lease import leave
from potluck.server.flow.notify.notify import wake_leader
from potluck.server.flow.settle.cancel import cancel
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.identity import accounts, audit
from potluck.store.identity.accounts import Account
from potluck.store.ledger import ledger


async def choose_roles(
    services: Services, account_id: AccountId, roles: frozenset[Role]
) -> Account:
    """Sets the roles that the account chose; admin stays as it is."""
    async with services.database.transaction() as connection:
        changed = await accounts.choose_roles(connection, account_id, roles)
        await _tell_roles(connection, services, account_id, changed)
    return changed


async def add_role(
    connection: Connection, services: Services, account: Account, role: Role, actor: str
) -> Account:
    """Adds a role, safe against concurrent changes."""
    if role in account.roles:
        return account
    changed = await accounts.add_role(connection, account.id, role)
    await _tell_roles(connection, services, actor, changed)
    return changed


async def change_roles(
    services: Services, actor: AccountId, account_id: AccountId, roles: frozenset[Role]
) -> None:
    """Sets all roles of an account, by an admin."""
    async with services.database.transaction() as connection:
        if Role.ADMIN not in roles:
            await _keep_an_admin(connection, account_id)
        changed = check_found(await accounts.set_roles(connection, account_id, roles), account_id)
        await _tell_roles(connection, services, actor, changed)


async def grant(
    services: Services,
    actor: AccountId,
    account_id: AccountId,
    amount_micro: int,
    idempotent: IdempotentRequest | None = None,
) -> None:
    async with services.database.transaction() as connection:
        check_found(await accounts.by_id(connection, account_id), account_id)
        if not await idempotent_secret.is_first(connection, idempotent):
            return
        try:
            await ledger.append(connection, grant_entries(account_id, amount_micro))
        except NumericValueOutOfRangeError as error:
            raise Conflict("The balance would exceed the maximum.", "Grant less.") from error
        details = {"amount_micro": str(amount_micro)}
        await audit.append(
            connection, services.keys.audit, AuditKind.CREDIT_GRANTED, actor, account_id, details
        )


async def set_quota(
    services: Services, actor: AccountId, account_id: AccountId, quota: Quota
) -> None:
    """Applies from now on; running and waiting tasks stay."""
    async with services.database.transaction() as connection:
        check_found(await accounts.set_quota(connection, account_id, quota), account_id)
        details = {name: str(value) for name, value in asdict(quota).items() if value is not None}
        await audit.append(
            connection, services.keys.audit, AuditKind.QUOTA_SET, actor, account_id, details
        )
    await wake_leader(services)


async def suspend(services: Services, actor: AccountId, account_id: AccountId, reason: str) -> None:
    async with services.database.transaction() as connection:
        await _keep_an_admin(connection, account_id)
        check_found(await accounts.suspend(connection, account_id, reason), account_id)
        await audit.append(
            connection,
            services.keys.audit,
            AuditKind.ACCOUNT_SUSPENDED,
            actor,
            account_id,
            {"reason": reason},
        )
    await evict_once(services)


async def resume(services: Services, actor: AccountId, account_id: AccountId) -> None:
    async with services.database.transaction() as connection:
        check_found(await accounts.resume(connection, account_id), account_id)
        await audit.append(
            connection, services.keys.audit, AuditKind.ACCOUNT_RESUMED, actor, account_id
        )


async def evict_once(services: Services) -> None:
    """Cancels the tasks of suspended accounts and removes their nodes."""
    async with services.database.transaction() as connection:
        tasks = await accounts.tasks_of_suspended(connection)
        nodes = await accounts.nodes_of_suspended(connection)
    for account_id, task_id in tasks:
        try:
            await cancel(services, account_id, task_id)
        except Conflict:
            continue  # it has already ended
    for owner, node_id in nodes:
        await leave(services, owner, node_id)


async def _tell_roles(
    connection: Connection, services: Services, actor: str, changed: Account
) -> None:
    details = {"roles": " ".join(sorted(changed.roles))}
    await audit.append(
        connection, services.keys.audit, AuditKind.ROLES_CHANGED, actor, changed.id, details
    )


async def _keep_an_admin(connection: Connection, account_id: AccountId) -> None:
    account = check_found(await accounts.by_id(connection, account_id), account_id)
    if Role.ADMIN in account.roles and await accounts.is_last_admin(connection, account_id):
        raise Conflict(
            "This account is the pool's only admin.",
            "Make another account an admin first: `potluck admin roles`.",
        )


def check_found(account: Account | None, account_id: AccountId) -> Account:
    if account is None:
        raise NotFound(f"There is no account {account_id!r}.", "Account ids start with account_.")
    return account
