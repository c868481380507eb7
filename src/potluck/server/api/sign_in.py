"""Sign-in of wallets, of terminals through a browser, and of nodes."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, Final

from litestar import Request, Response
from litestar.response import Stream

from potluck.model.account import SCOPES, Credential, Registration, Scope
from potluck.model.audit import AuditKind
from potluck.model.error import (
    AccessDenied,
    AuthorizationPending,
    CodeExpired,
    Conflict,
    Forbidden,
    NotFound,
    NotSignedIn,
    RegistrationClosed,
    SlowDown,
)
from potluck.server.accounts.get_or_create import get_or_create_account
from potluck.server.api.area import OPEN, Area
from potluck.server.api.examples.names import (
    ACCOUNT,
    NODE_KEY,
    ORIGIN,
    SHA256,
    SIGNATURE,
    USER_CODE,
    WALLET,
    WHEEL,
    at,
)
from potluck.server.api.examples.sign_in import ACCESS_TOKEN, NONCE, login_message
from potluck.server.api.http.parameters import CallerRequest
from potluck.server.api.http.response import is_known
from potluck.server.auth import access_tokens, sessions, sign_in
from potluck.server.auth.access_tokens import Claims
from potluck.server.auth.caller import suspended
from potluck.server.auth.device_flow import flow
from potluck.server.auth.device_flow.sign_in_draft import draft, statement
from potluck.server.auth.nonce import new_nonce
from potluck.server.front_page import joining_of
from potluck.server.package_wheel import OwnWheel
from potluck.server.services import Services
from potluck.store.identity import audit, node_keys
from potluck.wire import routes
from potluck.wire.identity import (
    Challenge,
    Login,
    NodeLogin,
    NodeToken,
    Refresh,
    TerminalApproval,
    TerminalAsk,
    TerminalAsked,
    TerminalDraft,
    TerminalPoll,
    TerminalView,
    TerminalWallet,
    Tokens,
)
from potluck.wire.package import Joining, Package, installers
from potluck.wire.signing.sign_in_answer import NODE_STATEMENT, TERMINAL_STATEMENT

_WHEEL = "application/octet-stream"
# The file name contains a hash of the content, so the content of a name never changes.
_FOR_GOOD = "public, max-age=31536000, immutable"
# In pieces, so that slow readers do not each hold a copy in memory.
_PIECE_BYTES = 65_536

# Examples.
_STATEMENT = f"{TERMINAL_STATEMENT}{USER_CODE}."
_REFRESH = "potluck_refresh_not-a-real-one"
_DEVICE_CODE = "potluck_terminal_not-a-real-one"
_PEM = "-----BEGIN CERTIFICATE-----\nMIIB…\n-----END CERTIFICATE-----\n"
_PACKAGE = Package("potluck", "0.2.0+5f3a9c1e", WHEEL, SHA256, 1_204_881, requires_python=">=3.11")


_TOKENS = Tokens(ACCESS_TOKEN, 900.0, _REFRESH, ACCOUNT, WALLET)

AREA: Final = Area(
    "sign in",
    "An account is a wallet. Request a challenge, sign the EIP-4361 message, and exchange it for "
    "a session. The first sign-in creates the account. For CI and scripts, make an API key once "
    "and send it as the bearer token.",
)


@AREA.operation(
    routes.CHALLENGE,
    OPEN,
    "Request a challenge",
    response=Challenge(NONCE, at(9, 35), [ORIGIN], [1]),
    status_code=200,
    keeps_callers=True,
)
async def challenge(services: Services) -> Challenge:
    """Returns a nonce that is valid for minutes, and the allowed origins and chains."""
    now, settings = services.clock.now(), services.settings
    return Challenge(
        new_nonce(services.keys.nonce, now),
        now + timedelta(seconds=settings.nonce_seconds),
        list(services.origins),
        list(settings.chain_ids),
        settings.node_key_seconds,
    )


@AREA.operation(
    routes.LOGIN,
    OPEN,
    "Sign in with a wallet",
    request=Login(login_message(WALLET), SIGNATURE, machine="laptop"),
    response=_TOKENS,
    errors=(NotSignedIn, RegistrationClosed),
)
async def login(data: Login, services: Services) -> Tokens:
    """Exchanges a signed EIP-4361 message for a session. The first one creates the account."""
    now = services.clock.now()
    message = await sign_in.verify(services, data.message, data.signature, now)
    async with services.database.transaction() as connection:
        await sign_in.use_nonce(connection, services, message.nonce, now)
        account = await get_or_create_account(connection, services, message.address, data.invite)
        return await sessions.open_session(connection, services, account, data.machine)


@AREA.operation(
    routes.REFRESH,
    OPEN,
    "Get the next pair of tokens",
    request=Refresh(_REFRESH),
    response=_TOKENS,
    errors=(NotSignedIn, Forbidden),
    status_code=200,
)
async def refresh(data: Refresh, services: Services) -> Tokens:
    """Returns the next pair of tokens. Each refresh token can be used once."""
    return await sessions.refresh(services, data.refresh_token)


@AREA.operation(routes.LOGOUT, Scope.ACCOUNT_WRITE, "Sign out", status_code=204)
async def logout(request: CallerRequest, services: Services) -> None:
    """Ends this session. Its tokens become invalid immediately."""
    caller = request.user
    async with services.database.transaction() as connection:
        await sessions.end_session(
            connection, services, caller.account, caller.credential_id, AuditKind.SIGNED_OUT
        )


@AREA.operation(
    routes.ASK_FOR_TERMINAL,
    OPEN,
    "Start a terminal sign-in",
    request=TerminalAsk("laptop"),
    response=TerminalAsked(
        _DEVICE_CODE, USER_CODE, f"{ORIGIN}/device", f"{ORIGIN}/device#{USER_CODE}", 900.0, 2.0
    ),
)
async def ask_for_terminal(data: TerminalAsk, services: Services) -> TerminalAsked:
    """Starts a terminal sign-in: a code for the user, and a secret for the terminal."""
    return await flow.ask(services, data, services.clock.now())


@AREA.operation(
    routes.TERMINAL_TOKEN,
    OPEN,
    "Poll for a terminal's session",
    request=TerminalPoll(_DEVICE_CODE),
    response=_TOKENS,
    errors=(Forbidden, AuthorizationPending, SlowDown, AccessDenied, CodeExpired),
    status_code=200,
)
async def terminal_token(data: TerminalPoll, services: Services) -> Tokens:
    """Returns the session once a wallet has approved it. Until then an error code says why not."""
    return await flow.poll(services, data.device_code, services.clock.now())


@AREA.operation(
    routes.SHOW_TERMINAL,
    OPEN,
    "Show a terminal sign-in",
    response=TerminalView(
        USER_CODE, "laptop", sorted(SCOPES[Credential.SESSION]), _STATEMENT, at(9, 45)
    ),
)
async def show_terminal(user_code: str, services: Services) -> TerminalView:
    """Shows which machine wants to sign in, and with which scopes. Read it before you sign."""
    pending = await flow.find(services, user_code, services.clock.now())
    return TerminalView(
        pending.user_code,
        pending.machine,
        sorted(SCOPES[Credential.SESSION]),
        statement(pending),
        pending.expires_at,
        pending.node_key,
    )


@AREA.operation(
    routes.DRAFT_TERMINAL,
    OPEN,
    "Draft a terminal's approval",
    request=TerminalWallet(WALLET, 1, ORIGIN),
    response=TerminalDraft(login_message(WALLET, _STATEMENT), 1),
    status_code=200,
)
async def draft_terminal(user_code: str, data: TerminalWallet, services: Services) -> TerminalDraft:
    """Returns the message that this wallet signs to approve the terminal, valid for minutes."""
    now = services.clock.now()
    return draft(services, await flow.find(services, user_code, now), data, now)


@AREA.operation(
    routes.APPROVE_TERMINAL,
    OPEN,
    "Approve a terminal",
    request=TerminalApproval(login_message(WALLET, _STATEMENT), SIGNATURE),
    errors=(NotSignedIn, Conflict, RegistrationClosed),
    status_code=204,
)
async def approve_terminal(user_code: str, data: TerminalApproval, services: Services) -> None:
    """Approves the terminal. The first approval creates the account, as a sign-in does."""
    now = services.clock.now()
    await flow.approve(services, await flow.find(services, user_code, now), data, now)


@AREA.operation(routes.DENY_TERMINAL, OPEN, "Deny a terminal", errors=(Conflict,), status_code=204)
async def deny_terminal(user_code: str, services: Services) -> None:
    """Denies the terminal. Its code becomes invalid immediately."""
    now = services.clock.now()
    await flow.deny(services, await flow.find(services, user_code, now), now)


@AREA.operation(
    routes.NODE_LOGIN,
    OPEN,
    "Sign in with a node key",
    request=NodeLogin(login_message(NODE_KEY, NODE_STATEMENT), SIGNATURE),
    response=NodeToken(ACCESS_TOKEN, 900.0, ACCOUNT),
    errors=(NotSignedIn, Forbidden),
    status_code=200,
    # Thousands of nodes sign in again every quarter of an hour.
    keeps_callers=True,
)
async def node_login(data: NodeLogin, services: Services) -> NodeToken:
    """Exchanges an EIP-4361 message that a node key signed for a short-lived access token."""
    now = services.clock.now()
    message = await sign_in.verify(
        services, data.message, data.signature, now, NODE_STATEMENT, may_be_contract=False
    )
    async with services.database.transaction() as connection:
        holder = await node_keys.by_address(connection, message.address)
        if holder is None:
            raise sign_in.refused()
        await sign_in.use_nonce(connection, services, message.nonce, now)
        if await node_keys.record_use(connection, holder.node_key_id):
            actor, subject = holder.account.id, holder.node_key_id
            await audit.append(
                connection, services.keys.audit, AuditKind.NODE_KEY_USED, actor, subject
            )
    if holder.account.suspended_at is not None:
        raise suspended(holder.account)
    lifetime = timedelta(seconds=services.settings.access_seconds)
    claims = Claims(holder.account.id, Credential.NODE, holder.node_key_id)
    token = access_tokens.issue(services.keys.access, claims, now, lifetime)
    return NodeToken(token, lifetime.total_seconds(), holder.account.id)


@AREA.operation(
    routes.PACKAGE, OPEN, "See the pool's package", response=_PACKAGE, errors=(NotFound,)
)
async def package(services: Services) -> Package:
    """Returns the server's version, and the name and hash of its wheel, for `pip install`."""
    return _wheel(services).package


@AREA.operation(
    routes.PACKAGE_FILE, OPEN, "Fetch the pool's own wheel", response=b"PK", media_type=_WHEEL
)
async def package_file(
    request: Request[Any, Any, Any], services: Services, file: str
) -> Response[Any]:
    """Returns the wheel, or one that this server offered before. No other file is served."""
    wheel = services.wheels.find(file)
    if wheel is None:
        raise NotFound(
            f"This server has no file {file[:64]!r}.",
            f"It serves {_wheel(services).package.file}; ask for the join command again.",
        )
    etag = f'"{wheel.package.sha256}"'
    headers = {"Cache-Control": _FOR_GOOD, "ETag": etag}
    if is_known(request, etag):
        return Response(b"", status_code=304, headers=headers, media_type=_WHEEL)
    headers |= {
        "Content-Disposition": "attachment",
        "Content-Length": str(wheel.package.size_bytes),
    }
    return Stream(_pieces(wheel.data), headers=headers, media_type=_WHEEL)


@AREA.operation(
    routes.JOINING,
    OPEN,
    "See how to join",
    response=Joining(
        "0.2.0",
        ORIGIN,
        Registration.INVITE,
        f"potluck run --server {ORIGIN} --template hello",
        f"potluck provide {ORIGIN}",
        has_private_authority=False,
        installers=installers(ORIGIN, _PACKAGE, has_own_authority=False),
    ),
)
async def joining(services: Services) -> Joining:
    """Returns the commands that install Potluck, run a first task and offer a machine."""
    return joining_of(services)


@AREA.operation(
    routes.CA_CERTIFICATE,
    OPEN,
    "Fetch the pool's certificate authority",
    response=_PEM,
    errors=(NotFound,),
    media_type="text/plain",
)
async def ca_certificate(services: Services) -> Response[bytes]:
    """Returns the certificate as PEM. Compare its fingerprint with the one the server printed."""
    if services.authority_pem is None:
        raise NotFound(
            "This server has no certificate authority of its own.",
            "Verify its certificate, if it has one, against the system's authorities.",
        )
    return Response(services.authority_pem, media_type="text/plain")


def _wheel(services: Services) -> OwnWheel:
    if services.wheel is None:
        raise NotFound(
            "This server has no package to serve: it does not run from an installed package.",
            "Ask its operator where to get Potluck from.",
        )
    return services.wheel


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for begin in range(0, len(data), _PIECE_BYTES):
        yield data[begin : begin + _PIECE_BYTES]
