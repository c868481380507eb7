"""Security headers of every response: no sniffing, no framing, no caching.

A handler's own headers take precedence. No response has CORS headers, so browsers let no other
origin read it.
"""

import secrets
from typing import Any, Final

from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope

Header = tuple[bytes, bytes]
# Of every response, also of those that never reach the application.
REQUEST_ID: Final = b"x-request-id"

_ALWAYS: list[Header] = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
_CLOSED = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
# Pictures that a page made itself, of files that it fetched with the access token, are `blob:`.
_PAGE = [
    (
        b"content-security-policy",
        b"default-src 'self'; script-src 'self'; style-src 'self'; connect-src 'self';"
        b" img-src 'self' blob: data:; font-src 'self'; object-src 'none'; base-uri 'none';"
        b" form-action 'self'; frame-ancestors 'none'",
    ),
    # A window that another site opened or was opened from has no reference to the page.
    (b"cross-origin-opener-policy", b"same-origin"),
]
_NOT_MODIFIED = 304
_TWO_YEARS = (b"strict-transport-security", b"max-age=63072000")


def new_request_id() -> str:
    return secrets.token_hex(8)


def headers_for(content_type: bytes, is_secure: bool) -> list[Header]:
    policies = _PAGE if content_type.startswith(b"text/html") else [_CLOSED]
    return [*_ALWAYS, *policies, *([_TWO_YEARS] if is_secure else [])]


class BrowserHeaders:
    """The application, with these headers on every response."""

    def __init__(self, app: ASGI3Application) -> None:
        self._app = app

    async def __call__(
        self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        is_secure = scope.get("scheme") == "https"

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = _completed(list(message["headers"]), is_secure)
                if message["status"] == _NOT_MODIFIED:
                    message["headers"] = _without_policy(message["headers"])
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _without_policy(headers: list[Header]) -> list[Header]:
    """A 304 would replace the policy of the cached page, whose content type it does not know."""
    return [header for header in headers if header[0].lower() != _CLOSED[0]]


def _completed(headers: list[Header], is_secure: bool) -> list[Header]:
    named = {name.lower(): value for name, value in headers}
    ours = headers_for(named.get(b"content-type", b""), is_secure)
    return [*headers, *(header for header in ours if header[0] not in named)]
