"""The device flow (RFC 8628): a terminal asks, a browser wallet approves, the terminal signs in.

A code is valid for minutes and for one approval. The wallet's signature names the code, and polling
needs a secret that only the terminal has. So neither a guessed code nor a copy of the database is
enough to sign in.
"""

from datetime import datetime, timedelta

from msgspec.structs import replace

from potluck.model.account import Role
from potluck.model.error import (
    AccessDenied,
    AuthorizationPending,
    CodeExpired,
    Conflict,
    InvalidInput,
    NotFound,
    SlowDown,
)
from potluck.server import topics
from potluck.server.accounts.get_or_create import get_or_create_account
from potluck.server.accounts.roles import add_role
from potluck.server.auth import delegation, sessions, sign_in
from potluck.server.auth.caller import suspended
from potluck.server.auth.device_flow import pending_terminals
from potluck.server.auth.device_flow.codes import (
    new_device_code,
    new_user_code,
    read_device_code,
    read_user_code,
)
from potluck.server.auth.device_flow.pending_terminals import Pending
from potluck.server.auth.device_flow.sign_in_draft import statement
from potluck.server.auth.tokens import secret_hash
from potluck.server.services import Services
from potluck.store.identity import accounts, terminal_approvals
from potluck.store.identity.terminal_approvals import Approval
from potluck.wire.identity import Delegation, TerminalApproval, TerminalAsk, TerminalAsked, Tokens
from potluck.wire.signing.address import checksummed

# Tolerates network jitter: a terminal that keeps its interval never gets SlowDown.
_LEEWAY = 0.8


async def ask(services: Services, wanted: TerminalAsk, now: datetime) -> TerminalAsked:
    """Stores the request and returns both codes."""
    await services.limiter.check_terminals()
    lasting = timedelta(seconds=services.settings.terminal_seconds)
    user_code = await _unused_code(services, now)
    device_code = new_device_code(services.keys.device, user_code, now + lasting)
    pending = Pending(
        user_code,
        secret_hash(device_code),
        wanted.machine,
        now + lasting,
        None if wanted.node_key is None else checksummed(wanted.node_key),
        wanted.invite,
    )
    await pending_terminals.put(services, pending, now)
    page = f"{services.origins[0]}/device"
    return TerminalAsked(
        device_code,
        user_code,
        page,
        f"{page}#{user_code}",  # browsers do not send the fragment, so no log contains it
        lasting.total_seconds(),
        services.settings.terminal_poll_seconds,
    )


async def find(services: Services, typed: str, now: datetime) -> Pending:
    """The pending request of a code that a user typed."""
    user_code = read_user_code(typed)
    pending = None if user_code is None else await pending_terminals.find(services, user_code, now)
    if pending is None or pending.was_denied:
        raise NotFound(
            "No terminal has this code.",
            "A code is valid for minutes and can be used once. Start again in the terminal.",
        )
    return pending


async def approve(
    services: Services, pending: Pending, given: TerminalApproval, now: datetime
) -> None:
    """Approves the terminal if the wallet has signed a message with this code."""
    wanted = statement(pending)
    message = await sign_in.verify(services, given.message, given.signature, now, wanted)
    word = await _verified(services, pending, given.delegation, message.address, now)
    approval = Approval(message.address, pending.machine)
    async with services.database.transaction() as connection:
        await sign_in.use_nonce(connection, services, message.nonce, now)
        # Before all other rows, so that a second approval of the same code waits here.
        if not await terminal_approvals.add(
            connection, pending.code_hash, approval, pending.expires_at
        ):
            raise Conflict("This code has already been used.", "Start again in the terminal.")
        if word is not None:
            await delegation.take(connection, services, word, now)
        account = await get_or_create_account(connection, services, message.address, pending.invite)
        if word is not None:
            # Authorising a node key implies the provider role: the signed message says so.
            account = await add_role(connection, services, account, Role.PROVIDER, account.id)
            await delegation.authorise(connection, services, account, word, pending.machine)
    await pending_terminals.drop(services, pending.user_code)


async def deny(services: Services, pending: Pending, now: datetime) -> None:
    """Denies the terminal. This needs no wallet."""
    await pending_terminals.put(services, replace(pending, was_denied=True), now)


async def poll(services: Services, device_code: str, now: datetime) -> Tokens:
    """Returns the session once, after the approval; before it, raises the reason to wait."""
    code = read_device_code(services.keys.device, device_code)
    if code is None or code.expires_at <= now:
        raise _expired()
    code_hash = secret_hash(device_code)
    # Read before the approval, which removes the pending request.
    pending = await pending_terminals.find(services, code.user_code, now)
    tokens = await _open_session(services, code_hash)
    if tokens is not None:
        return tokens
    if pending is None or pending.code_hash != code_hash:
        raise _expired()
    if pending.was_denied:
        raise AccessDenied(
            "The request was denied in the browser.", "If that was a mistake, start again."
        )
    await _keep_pace(services, code_hash)
    raise AuthorizationPending(
        "The request is not approved yet.", f"Open {services.origins[0]}/device and enter the code."
    )


async def _verified(
    services: Services, pending: Pending, word: Delegation | None, wallet: str, now: datetime
) -> Delegation | None:
    """Verifies the delegation, which must be present exactly if a node key is requested."""
    if (word and checksummed(word.key)) != pending.node_key:
        raise InvalidInput(
            "The delegation is not for the terminal's node key.", "Reload the page and sign again."
        )
    return None if word is None else await delegation.verify(services, word, wallet, now)


async def _open_session(services: Services, code_hash: bytes) -> Tokens | None:
    async with services.database.transaction() as connection:
        approval = await terminal_approvals.use(connection, code_hash)
        if approval is None:
            return None
        account = await accounts.by_address(connection, approval.address)
        assert account is not None, "the approval created it, and accounts are never deleted"
        if account.suspended_at is not None:
            raise suspended(account)
        return await sessions.open_session(connection, services, account, approval.machine)


async def _keep_pace(services: Services, code_hash: bytes) -> None:
    name, interval = topics.terminal_poll(code_hash.hex()), services.settings.terminal_poll_seconds
    if await services.live.get(name) is not None:
        raise SlowDown(f"Poll at most every {interval:g} seconds.", "Wait longer each time.")
    await services.live.put(name, b"1", interval * _LEEWAY)


async def _unused_code(services: Services, now: datetime) -> str:
    while True:
        user_code = new_user_code()
        if await pending_terminals.find(services, user_code, now) is None:
            return user_code


def _expired() -> CodeExpired:
    return CodeExpired("The code has expired or was used.", "Start again in the terminal.")
