"""Who may come in: deny by default. The policy page says what each route takes."""

from datetime import UTC, datetime
from typing import Any

from litestar import Litestar
from litestar.connection import ASGIConnection
from litestar.handlers import HTTPRouteHandler
from litestar.middleware import AbstractAuthenticationMiddleware, AuthenticationResult

from potluck.model.account import SCOPES, Credential
from potluck.model.audit import AuditKind
from potluck.model.error import NotSignedIn
from potluck.server.auth import access_tokens, caller
from potluck.server.auth.caller import Caller
from potluck.server.auth.policy import POLICY
from potluck.server.auth.tokens import KEY_PREFIX, secret_hash
from potluck.server.parts import Parts
from potluck.store import api_keys, audit, node_keys, sessions

# A route with this option is open to everybody; `declare_policies` sets it.
OPEN = "open_to_everybody"
_LONGEST = 1024


class Authentication(AbstractAuthenticationMiddleware):
    """Finds the caller behind the credential and holds them to the policy of the route."""

    async def authenticate_request(
        self, connection: ASGIConnection[Any, Any, Any, Any]
    ) -> AuthenticationResult:
        parts: Parts = connection.app.state.parts
        found = await find_caller(parts, _credential(connection.headers.get("authorization", "")))
        if found is None:
            raise not_signed_in()
        await parts.limiter.check_account(found.id)
        scope = POLICY[connection.route_handler.operation_id]
        assert scope is not None, "an open route is not asked for a credential"
        caller.check(found, scope)
        return AuthenticationResult(user=found, auth=None)
