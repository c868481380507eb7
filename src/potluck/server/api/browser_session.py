"""Sessions of browsers: the refresh token is in a cookie, the access token in the page's memory."""

from typing import Any, Final

from litestar import Request, Response
from litestar.datastructures import Cookie

from potluck.model.error import Forbidden, NotSignedIn, RegistrationClosed
from potluck.server.accounts.get_or_create import get_or_create_account
from potluck.server.api.area import OPEN, Area
from potluck.server.api.examples.names import ACCOUNT, SIGNATURE, WALLET
from potluck.server.api.examples.sign_in import ACCESS_TOKEN, login_message
from potluck.server.api.http.response import EncodedResponse
from potluck.server.auth import sessions, sign_in
from potluck.server.auth.browser_request import (
    check_browser_request,
    cookie,
    no_cookie,
    refresh_token_of,
)
from potluck.server.services import Services
from potluck.wire import routes
from potluck.wire.identity import BrowserTokens, Login, Tokens

_TOKENS = BrowserTokens(ACCESS_TOKEN, 900.0, ACCOUNT, WALLET)

AREA: Final = Area(
    "browser session",
    "Sign-in of pages of this server. The refresh token is in a cookie that scripts cannot read "
    "and that only these operations receive. They need the header `Potluck-Browser: 1` and an "
    "`Origin` of this server. Programs sign in as above.",
)


@AREA.operation(
    routes.BROWSER_LOGIN,
    OPEN,
    "Sign a browser in",
    request=Login(login_message(WALLET), SIGNATURE, machine="Firefox on Linux"),
    response=_TOKENS,
    errors=(NotSignedIn, Forbidden, RegistrationClosed),
)
async def browser_login(
    request: Request[Any, Any, Any], data: Login, services: Services
) -> Response[BrowserTokens]:
    """Like a sign-in with a wallet, but the refresh token is put into a cookie."""
    origin = check_browser_request(services, request.headers)
    now = services.clock.now()
    message = await sign_in.verify(services, data.message, data.signature, now)
    async with services.database.transaction() as connection:
        await sign_in.use_nonce(connection, services, message.nonce, now)
        account = await get_or_create_account(connection, services, message.address, data.invite)
        tokens = await sessions.open_session(
            connection, services, account, data.machine, is_browser=True
        )
    return _answer(tokens, cookie(services, origin, tokens.refresh_token), 201)


@AREA.operation(
    routes.BROWSER_REFRESH,
    OPEN,
    "Get a page's next access token",
    response=_TOKENS,
    errors=(NotSignedIn, Forbidden),
    status_code=200,
)
async def browser_refresh(
    request: Request[Any, Any, Any], services: Services
) -> Response[BrowserTokens]:
    """Returns an access token and replaces the cookie. Tabs may do so at the same time."""
    origin = check_browser_request(services, request.headers)
    used = refresh_token_of(services, origin, request.headers)
    if used is None:
        raise NotSignedIn("This browser is not signed in.", "Sign in with your wallet.")
    tokens = await sessions.refresh_browser(services, used)
    return _answer(tokens, cookie(services, origin, tokens.refresh_token), 200)


@AREA.operation(
    routes.BROWSER_LOGOUT, OPEN, "Sign a browser out", errors=(Forbidden,), status_code=204
)
async def browser_logout(request: Request[Any, Any, Any], services: Services) -> Response[None]:
    """Ends the session of the cookie, if there is one, in all tabs, and removes the cookie."""
    origin = check_browser_request(services, request.headers)
    used = refresh_token_of(services, origin, request.headers)
    if used is not None:
        await sessions.end_browser_session(services, used)
    return Response(None, status_code=204, cookies=[no_cookie(services, origin)])


def _answer(tokens: Tokens, new_cookie: Cookie, status: int) -> Response[BrowserTokens]:
    shown = BrowserTokens(tokens.access_token, tokens.expires_in, tokens.account_id, tokens.address)
    return EncodedResponse(shown, status_code=status, cookies=[new_cookie])
