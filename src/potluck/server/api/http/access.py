"""Access control, deny by default: each operation declares the scopes that it requires."""

from typing import Any

from litestar import Litestar
from litestar.connection import ASGIConnection
from litestar.middleware import AbstractAuthenticationMiddleware, AuthenticationResult
from msgspec.structs import replace

from potluck.model.account import SCOPES, Credential, Scope
from potluck.model.audit import AuditKind
from potluck.model.error import Forbidden
from potluck.server.api.area import operation_of
from potluck.server.auth import access_tokens, caller
from potluck.server.auth.access_tokens import Claims
from potluck.server.auth.caller import Caller, not_signed_in
from potluck.server.auth.tokens import KEY_PREFIX, secret_hash
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.identity import api_keys, audit, node_keys, sessions
from potluck.store.identity.accounts import Account


class Authentication(AbstractAuthenticationMiddleware):
    """Identifies the caller by the credential and enforces the policy of the route."""

    async def authenticate_request(
        self, connection: ASGIConnection[Any, Any, Any, Any]
    ) -> AuthenticationResult:
        services: Services = connection.app.state.services
        scopes, address = _scopes(connection), _address(connection)
        if not scopes:
            await services.limiter.check_address(address)
            return AuthenticationResult(user=None, auth=None)
        said = connection.headers.getall("authorization", [])
        found = await _find_caller(services, _credential(said), address)
        if found is None:
            await services.limiter.check_address(address)
            raise not_signed_in()
        await _count(services, found)
        caller.check(found, scopes)
        return AuthenticationResult(user=found, auth=None)


async def still_allowed(connection: ASGIConnection[Any, Any, Any, Any]) -> bool:
    """Whether the caller of a long-running request would still be admitted.

    Expiry of the token does not end the request as long as the session or key behind it is valid.
    """
    services: Services = connection.app.state.services
    before, scopes = connection.user, _scopes(connection)
    assert scopes, "the operation is open"
    async with services.database.transaction() as database:
        if before.credential is Credential.KEY:
            secret = _credential(connection.headers.getall("authorization", []))
            found = await _by_key(services, database, secret)
        else:
            claims = Claims(before.id, before.credential, before.credential_id)
            account = await _by_claims(database, claims)
            found = None if account is None else replace(before, account=account)
    if found is None:
        return False
    try:
        caller.check(found, scopes)
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


async def _find_caller(services: Services, credential: str, address: str) -> Caller | None:
    """Malformed credentials never reach the database.

    A token that we signed is looked up without a limit by address; a key could be a guess.
    """
    if credential.startswith(KEY_PREFIX):
        await services.limiter.check_guesses(address)
        await services.limiter.check_crowd(address)
        async with services.database.transaction() as connection:
            return await _by_key(services, connection, credential)
    claims = access_tokens.read(services.keys.access, credential, services.clock.now())
    if claims is None:
        return None
    await services.limiter.check_crowd(address)
    async with services.database.statement() as connection:
        account = await _by_claims(connection, claims)
    if account is None:
        return None
    return Caller(account, claims.credential, claims.credential_id, SCOPES[claims.credential])


async def _by_claims(connection: Connection, claims: Claims) -> Account | None:
    """The token was valid when it was issued; the database knows whether it still is."""
    if claims.credential is Credential.SESSION:
        return await sessions.caller(connection, claims.credential_id, claims.account_id)
    return await node_keys.caller(connection, claims.credential_id, claims.account_id)


async def _by_key(services: Services, connection: Connection, secret: str) -> Caller | None:
    found = await api_keys.caller(connection, secret_hash(secret))
    if found is None:
        return None
    if found.is_noteworthy and await api_keys.record_use(connection, found.key_id):
        await audit.append(
            connection, services.keys.audit, AuditKind.KEY_USED, found.account.id, found.key_id
        )
    return Caller(found.account, Credential.KEY, found.key_id, found.scopes)


async def _count(services: Services, found: Caller) -> None:
    """Nodes are also counted one by one: an account may have a thousand."""
    if found.credential is Credential.NODE:
        await services.limiter.check_machine(found.credential_id, found.id)
    else:
        await services.limiter.check_account(found.id)


def _scopes(connection: ASGIConnection[Any, Any, Any, Any]) -> tuple[Scope, ...]:
    operation = operation_of(connection.route_handler)
    assert operation is not None, "check_policies admits no route without a policy"
    return operation.scopes


def _credential(headers: list[str]) -> str:
    """The credential, or an empty text without one.

    Two headers are refused: a proxy and this server might each pick a different one.
    """
    scheme, _, credential = (headers[0] if len(headers) == 1 else "").partition(" ")
    is_one = scheme.lower() == "bearer" and len(credential) <= access_tokens.LONGEST_TOKEN
    return credential if is_one else ""


def _address(connection: ASGIConnection[Any, Any, Any, Any]) -> str:
    return connection.client.host if connection.client else ""
