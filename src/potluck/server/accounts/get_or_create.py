"""Gets or creates the account of a wallet that has signed in."""

from potluck.decide.charges import grant_entries
from potluck.model.account import Registration, Role
from potluck.model.audit import AuditKind
from potluck.model.error import RegistrationClosed
from potluck.server.accounts.roles import add_role
from potluck.server.auth.caller import suspended
from potluck.server.auth.tokens import secret_hash
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.identity import accounts, audit, invites
from potluck.store.identity.accounts import Account
from potluck.store.ledger import ledger
from potluck.wire.identity import InviteView

_AT_FIRST = frozenset({Role.CONSUMER})


async def get_or_create_account(
    connection: Connection, services: Services, address: str, invite: str | None
) -> Account:
    """The account of this wallet. Only new accounts use up invites, except the first admin's."""
    account = await accounts.by_address(connection, address)
    if account is None:
        return await _register(connection, services, address, invite)
    if account.suspended_at is not None:
        raise suspended(account)
    if invite is not None and await invites.redeem_first(connection, secret_hash(invite)):
        return await add_role(connection, services, account, Role.ADMIN, "server")
    return account


async def _register(
    connection: Connection, services: Services, address: str, invite: str | None
) -> Account:
    account = await accounts.add(connection, address, _AT_FIRST)
    if account is None:  # a concurrent sign-in of the same wallet was first
        return await get_or_create_account(connection, services, address, invite)
    let_in = None if invite is None else await _redeem(connection, services, invite)
    mode = services.settings.registration
    if let_in is None and mode is not Registration.OPEN:
        raise _closed(mode)
    if let_in is not None:
        changed = await accounts.set_roles(connection, account.id, let_in.roles)
        assert changed is not None
        account = changed
    details = {"address": address, "roles": " ".join(sorted(account.roles))}
    if let_in is not None:
        details["invite"] = let_in.id
    await audit.append(
        connection, services.keys.audit, AuditKind.ACCOUNT_CREATED, account.id, account.id, details
    )
    if let_in is not None and let_in.credit_micro > 0:
        await ledger.append(connection, grant_entries(account.id, let_in.credit_micro))
    return account


async def _redeem(connection: Connection, services: Services, invite: str) -> InviteView:
    code = secret_hash(invite)
    first = await invites.redeem_first(connection, code)
    if first is not None:
        return first
    closed = services.settings.registration is Registration.CLOSED
    found = None if closed else await invites.redeem(connection, code)
    if found is None:
        raise RegistrationClosed(
            "The invite is not valid: unknown, used up, revoked or expired.",
            "Ask an admin of this pool for a new one.",
        )
    return found


def _closed(mode: Registration) -> RegistrationClosed:
    if mode is Registration.INVITE:
        return RegistrationClosed(
            "This wallet has no account here, and a new account needs an invite.",
            "Ask an admin for one, then use --invite CODE or set POTLUCK_INVITE.",
        )
    return RegistrationClosed(
        "This wallet has no account here, and the pool accepts no new ones.",
        "Ask the pool's operator.",
    )
