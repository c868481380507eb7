"""Who may come in: deny by default, a bearer token on every route that does not say otherwise."""

from typing import Any

from litestar.connection import ASGIConnection
from litestar.middleware import AbstractAuthenticationMiddleware, AuthenticationResult

from potluck.model.error import Forbidden, NotSignedIn
from potluck.server.auth.tokens import bearer_hash
from potluck.server.parts import Parts
from potluck.store import accounts
from potluck.store.accounts import Account

# A route with this option is open to everybody.
OPEN = "open_to_everybody"
_LONGEST_TOKEN = 512


class BearerAuthentication(AbstractAuthenticationMiddleware):
    async def authenticate_request(
        self, connection: ASGIConnection[Any, Any, Any, Any]
    ) -> AuthenticationResult:
        parts: Parts = connection.app.state.parts
        token = _token(connection.headers.get("authorization", ""))
        async with parts.database.transaction() as database:
            account = await accounts.by_token(database, bearer_hash(token))
        if account is None:
            raise _not_signed_in()
        return AuthenticationResult(user=account, auth=None)


def require_operator(account: Account) -> None:
    if not account.is_operator:
        raise Forbidden("Only the pool's operator may do that.", "Ask the operator.")


def _token(header: str) -> str:
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not 0 < len(token) <= _LONGEST_TOKEN:
        raise _not_signed_in()
    return token


def _not_signed_in() -> NotSignedIn:
    """The same sentence for a missing, a malformed and an unknown token."""
    return NotSignedIn(
        "No valid token came with the request.",
        "Send `Authorization: Bearer TOKEN`; `potluck up` writes one into your profile.",
    )
