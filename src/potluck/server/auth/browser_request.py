"""Requests that a page of this server makes, and the cookie that they carry.

The browser attaches the cookie by itself, so a request with it proves nothing about the page that
made it. These requests must therefore come from a page of this server: the browser says so in
`Origin` and `Sec-Fetch-Site`, which scripts cannot set, and the page says so in a header of its
own, which another site cannot send without a preflight that this server never allows. The cookie is
`SameSite=Strict` as well. No other operation reads the cookie.
"""

from typing import Final

from litestar.datastructures import Cookie, Headers

from potluck.model.error import Forbidden
from potluck.server.auth import access_tokens
from potluck.server.services import Services
from potluck.wire.routes import BROWSER_REFRESH, LOGIN

BROWSER_HEADER: Final = "Potluck-Browser"
_NAME: Final = "potluck_refresh"
_SECURE_SCHEME: Final = "https://"
# The server sets no longer cookies.
_LONGEST: Final = 512


def check_browser_request(services: Services, headers: Headers) -> str:
    """Returns the origin of the page. Raises Forbidden unless it is a page of this server."""
    if headers.getall(BROWSER_HEADER, []) != ["1"]:
        raise Forbidden(
            f"This operation is for pages of this server, which send `{BROWSER_HEADER}: 1`.",
            f"Programs sign in with {LOGIN.method} {LOGIN.path}.",
        )
    origins = headers.getall("origin", [])
    if len(origins) != 1 or origins[0] not in services.origins:
        named = repr(origins[0][:100]) if origins else "no origin"
        raise Forbidden(
            f"The request is from a page of {named}, which is not an address of this pool.",
            f"Open {services.origins[0]} instead.",
        )
    if headers.getall("sec-fetch-site", ["same-origin"]) != ["same-origin"]:
        raise Forbidden(
            "The browser says that the request is from another site.",
            f"Open {services.origins[0]} and sign in there.",
        )
    return origins[0]


def cookie(services: Services, origin: str, refresh_token: str) -> Cookie:
    """Sent to the browser session's own operations only, and never readable by scripts."""
    return _cookie(services, origin, refresh_token, round(services.settings.session_seconds))


def no_cookie(services: Services, origin: str) -> Cookie:
    """Removes it."""
    return _cookie(services, origin, "", 0)


def refresh_token_of(services: Services, origin: str, headers: Headers) -> str | None:
    """The token in the cookie.

    With two cookies of that name, one was set by another host of the same domain: neither is used.
    """
    name = _cookie_name(services, origin)
    pairs = [
        pair.strip().partition("=") for pair in ";".join(headers.getall("cookie", [])).split(";")
    ]
    values = [value for key, _, value in pairs if key == name]
    return values[0] if len(values) == 1 and 0 < len(values[0]) <= _LONGEST else None


def _cookie(services: Services, origin: str, value: str, seconds: int) -> Cookie:
    return Cookie(
        key=_cookie_name(services, origin),
        value=value,
        path=BROWSER_REFRESH.path.rsplit("/", 1)[0],
        max_age=seconds,
        secure=origin.startswith(_SECURE_SCHEME),
        httponly=True,
        samesite="strict",
    )


def _cookie_name(services: Services, origin: str) -> str:
    """Names this pool: cookies do not know ports, and a machine may have several pools.

    Browsers accept a name that begins with `__Secure-` over TLS only.
    """
    prefix = "__Secure-" if origin.startswith(_SECURE_SCHEME) else ""
    return f"{prefix}{_NAME}_{access_tokens.issuer(services.keys.access).rpartition('-')[2]}"
