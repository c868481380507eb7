"""Access control, deny by default: each operation declares the scopes that it requires."""

from typing import Any

from litestar import Litestar
from litestar.connection import ASGIConnection
from litestar.middleware import AbstractAuthenticationMiddleware, AuthenticationResult
from litestar.types import Message, Receive, Send
from litestar.types import Scope as ASGIScope

from potluck.model.account import SCOPES, Credential
from potluck.model.audit import AuditKind
from potluck.model.error import Forbidden
from potluck.server import topics
from potluck.server.api.area import Operation, operation_of
from potluck.server.auth import access_tokens, caller
from potluck.server.auth.access_tokens import Claims
from potluck.server.auth.caller import Caller, not_signed_in
from potluck.server.auth.tokens import KEY_PREFIX, secret_hash
from potluck.server.http import exposure
from potluck.server.services import Services
from potluck.server.version_check import check_request
from potluck.store.identity import api_keys, audit, node_keys, sessions
from potluck.store.identity.accounts import Account
from potluck.store.identity.api_keys import KeyCaller
from potluck.store.identity.node_keys import NodeCaller
from potluck.wire import routes


class Authentication(AbstractAuthenticationMiddleware):
    """Identifies the caller by the credential and enforces the policy of the route."""

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        """All instances forget callers before the response of an operation that may change them."""
        operation = operation_of(scope.get("route_handler"))
        if operation is None or not operation.changes_callers:
            await super().__call__(scope, receive, send)
            return
        live = scope["litestar_app"].state.services.live

        async def send_after_wake(message: Message) -> None:
            if message["type"] == "http.response.start":
                await live.wake(topics.CALLERS)
            await send(message)

        try:
            await super().__call__(scope, receive, send_after_wake)
        except BaseException:
            await live.wake(topics.CALLERS)
            raise

    async def authenticate_request(
        self, connection: ASGIConnection[Any, Any, Any, Any]
    ) -> AuthenticationResult:
        services: Services = connection.app.state.services
        if _is_versioned(connection.scope["path"]):
            check_request(services, connection.headers)
        operation, address = _operation(connection), client_address(connection)
        scopes = operation.scopes
        if not scopes or _is_open_locally(services, operation, connection):
            await services.limiter.check_address(address)
            return AuthenticationResult(user=None, auth=None)
        headers = connection.headers.getall("authorization", [])
        user = await _find_caller(services, _credential(headers), address, operation.is_privileged)
        if user is None:
            await services.limiter.check_address(address)
            raise not_signed_in()
        await _count(services, user)
        caller.check(user, scopes)
        return AuthenticationResult(user=user, auth=None)


async def still_allowed(connection: ASGIConnection[Any, Any, Any, Any]) -> bool:
    """Whether the caller of a long-running request would still be admitted.

    Expiry of the token does not end the request as long as the session or key behind it is valid.
    """
    services: Services = connection.app.state.services
    before, scopes = connection.user, _operation(connection).scopes
    assert scopes, "the operation is open"
    if before.credential is Credential.KEY:
        secret = _credential(connection.headers.getall("authorization", []))
        user = await _by_key(services, secret, is_privileged=True)
    else:
        claims = Claims(before.id, before.credential, before.credential_id)
        user = await _by_claims(services, claims, is_privileged=True)
    if user is None:
        return False
    try:
        caller.check(user, scopes)
    except Forbidden:
        return False
    return True


def check_policies(app: Litestar) -> None:
    """Raises AssertionError for a route that is not a declared operation: it has no policy."""
    for route in app.routes:
        if route.path.startswith("/schema"):
            continue
        for handler in getattr(route, "route_handlers", ()):
            # OPTIONS returns only the allowed methods.
            if handler.http_methods != {"OPTIONS"} and operation_of(handler) is None:
                raise AssertionError(f"{route.path} has no policy: declare it in an area")


async def _find_caller(
    services: Services, credential: str, address: str, is_privileged: bool
) -> Caller | None:
    """Malformed credentials never reach the database.

    A token that we signed is looked up without a limit by address; a key could be a guess.
    """
    if credential.startswith(KEY_PREFIX):
        await services.limiter.check_guesses(address)
        await services.limiter.check_crowd(address)
        return await _by_key(services, credential, is_privileged)
    claims = access_tokens.read(services.keys.access, credential, services.clock.now())
    if claims is None:
        return None
    await services.limiter.check_crowd(address)
    return await _by_claims(services, claims, is_privileged)


async def _by_claims(services: Services, claims: Claims, is_privileged: bool) -> Caller | None:
    """The token was valid when it was issued; the database knows whether it still is."""

    async def read_session() -> Account | None:
        async with services.database.statement() as connection:
            return await sessions.caller(connection, claims.credential_id, claims.account_id)

    async def read_node() -> NodeCaller | None:
        async with services.database.statement() as connection:
            return await node_keys.caller(connection, claims.credential_id, claims.account_id)

    if claims.credential is Credential.SESSION:
        cache = services.caches.accounts
        account = await (read_session() if is_privileged else cache.load(claims, read_session))
    else:
        nodes, key_id = services.caches.node_callers, claims.credential_id
        node = await (read_node() if is_privileged else nodes.load(key_id, read_node))
        account = node.account if node and node.account.id == claims.account_id else None
    if account is None:
        return None
    return Caller(account, claims.credential, claims.credential_id, SCOPES[claims.credential])


async def _by_key(services: Services, secret: str, is_privileged: bool) -> Caller | None:
    hashed = secret_hash(secret)

    async def read() -> KeyCaller | None:
        async with services.database.statement() as connection:
            caller = await api_keys.caller(connection, hashed)
        if caller is not None and caller.is_noteworthy:
            await _record_use(services, caller)
        return caller

    caller = await (read() if is_privileged else services.caches.api_keys.load(hashed, read))
    if caller is None:
        return None
    return Caller(caller.account, Credential.KEY, caller.key_id, caller.scopes)


async def _record_use(services: Services, key: KeyCaller) -> None:
    async with services.database.transaction() as connection:
        if await api_keys.record_use(connection, key.key_id):
            await audit.append(
                connection, services.keys.audit, AuditKind.KEY_USED, key.account.id, key.key_id
            )


async def _count(services: Services, caller: Caller) -> None:
    """Nodes are also counted one by one: an account may have a thousand."""
    if caller.credential is Credential.NODE:
        await services.limiter.check_machine(caller.credential_id, caller.id)
    else:
        await services.limiter.check_account(caller.id)


def _operation(connection: ASGIConnection[Any, Any, Any, Any]) -> Operation:
    operation = operation_of(connection.route_handler)
    assert operation is not None, "check_policies admits no route without a policy"
    return operation


def _is_open_locally(
    services: Services, operation: Operation, connection: ASGIConnection[Any, Any, Any, Any]
) -> bool:
    """Whether the operation is open to this caller, who is on this machine.

    Requests of a proxy on this machine do not count, since they may come from anyone; nor do
    requests for another host name, with which a web page could reach this machine.
    """
    if not operation.is_open_locally or not services.settings.is_private:
        return False
    is_forwarded = any(_is_added_by_proxies(name) for name in connection.headers)
    return not is_forwarded and exposure.is_loopback(connection.url.hostname or "")


def _is_added_by_proxies(name: str) -> bool:
    """Whichever of them a proxy sets: one that only passes the scheme on is a proxy too."""
    return name.startswith("x-forwarded") or name in _FORWARDING


_FORWARDING = frozenset(
    (
        *("forwarded", "via", "x-real-ip", "x-client-ip", "x-cluster-client-ip"),
        *("x-original-host", "x-envoy-external-address"),
        *("true-client-ip", "cf-connecting-ip", "fastly-client-ip"),
    )
)


def _credential(headers: list[str]) -> str:
    """The credential, or an empty text without one.

    Two headers are refused: a proxy and this server might each pick a different one.
    """
    scheme, _, credential = (headers[0] if len(headers) == 1 else "").partition(" ")
    is_one = scheme.lower() == "bearer" and len(credential) <= access_tokens.LONGEST_TOKEN
    return credential if is_one else ""


def _is_versioned(path: str) -> bool:
    """Whether it is for clients with a known protocol; probes and the package are for all."""
    return path.startswith(routes.PREFIX) and not path.startswith(routes.PACKAGE.path)


def client_address(connection: ASGIConnection[Any, Any, Any, Any]) -> str:
    """Behind trusted proxies that of the client, which they name."""
    return connection.client.host if connection.client else ""
