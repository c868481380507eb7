"""One HTTP call to the server: its response, or an error. No retries. Outages are announced."""

import math
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar

import aiohttp
from msgspec import Struct

from potluck import __version__
from potluck.local.tracing import trace_headers
from potluck.local.trust import make_tls_context
from potluck.model.error import PotluckError, ServerUnreachable
from potluck.provider.announcement import Announce, ServerAnswers, ServerSilent
from potluck.wire.response import ELSEWHERE, checked_redirect, decode_response, error_of_response
from potluck.wire.routes import Route
from potluck.wire.version import request_headers

_REPEAT_SECONDS = 10.0
T = TypeVar("T")
_CHUNK_BYTES = 2**18
_HEADERS = request_headers(__version__)


class ServerSilence:
    """Announces the start of a silence, repeats it at intervals, and announces the end."""

    def __init__(self, announce: Announce) -> None:
        self._announce = announce
        self._since: float | None = None
        self._announced_at = -math.inf
        self._is_announced = False
        self.error: PotluckError | None = None

    def noticed(self, error: PotluckError) -> None:
        self.error = error
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._announced_at >= _REPEAT_SECONDS:
            self._announced_at, self._is_announced = now, True
            self._announce(ServerSilent(error.code, error.detail, error.hint))

    def broken(self) -> None:
        if self._since is not None and self._is_announced:
            self._announce(ServerAnswers(time.monotonic() - self._since))
        self._since, self._is_announced, self.error = None, False, None


class ServerRequest(Struct, frozen=True):
    route: Route
    path: str
    body: bytes
    patience: aiohttp.ClientTimeout
    content_type: str = "application/json"
    headers: dict[str, str] = {}
    parameters: dict[str, str] = {}  # of the query string


def open_session(url: str, ca_file: Path | None) -> aiohttp.ClientSession:
    """Without a limit on connections: a heartbeat must never wait for logs or the long poll."""
    ssl = make_tls_context(ca_file) if url.startswith("https:") else True
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, ssl=ssl))


class Exchange:
    """HTTP to one server, over one session."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self.url = url

    async def send(self, request: ServerRequest, kind: type[T], token: str | None = None) -> T:
        async with self._respond(request, token) as response:
            return self._answer(response.status, await response.read(), kind)

    @asynccontextmanager
    async def stream(
        self, request: ServerRequest, token: str
    ) -> AsyncIterator[tuple[int, AsyncIterator[bytes]]]:
        """The status of a successful response, and its body in chunks.

        Follows a redirect to another host, without the token.
        """
        async with AsyncExitStack() as open_ones:
            response = await open_ones.enter_async_context(self._respond(request, token))
            if response.status == ELSEWHERE:
                place = checked_redirect(response.headers.get("Location", ""), self.url)
                # Not quoted again: that would break the signature in the URL.
                quoted = type(response.url)(place, encoded=True)
                response = await open_ones.enter_async_context(self._elsewhere(request, quoted))
            if response.status >= 300:
                raise error_of_response(response.status, await response.read(), self.url)
            yield response.status, response.content.iter_chunked(_CHUNK_BYTES)

    @asynccontextmanager
    async def _respond(
        self, request: ServerRequest, token: str | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {
            **_HEADERS,
            **trace_headers(),
            "Content-Type": request.content_type,
            **request.headers,
        }
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        try:
            async with self._session.request(
                request.route.method,
                self.url + request.path,
                params=request.parameters,
                data=request.body,
                headers=headers,
                timeout=request.patience,
                # A redirect would send the token to another host.
                allow_redirects=False,
            ) as response:
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(self.url, error) from error

    @asynccontextmanager
    async def _elsewhere(
        self, request: ServerRequest, place: aiohttp.typedefs.StrOrURL
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {name: value for name, value in request.headers.items() if name == "Range"}
        try:
            async with self._session.get(
                place, headers=headers, timeout=request.patience, allow_redirects=False
            ) as response:
                yield response
        except (aiohttp.ClientError, ValueError, TimeoutError, OSError) as error:
            raise _unreachable(self.url, error) from error

    def _answer(self, status: int, body: bytes, kind: type[T]) -> T:
        if status >= 300:
            raise error_of_response(status, body, self.url)
        return decode_response(body or b"null", kind, self.url)


def _unreachable(url: str, error: Exception) -> ServerUnreachable:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return ServerUnreachable(
            f"The certificate of {url} is not trusted: {error.certificate_error}.",
            "Check the address. For a pool with its own certificate authority, give the"
            " fingerprint: potluck provide URL --ca-fingerprint sha256:…",
        )
    return ServerUnreachable(
        f"No server answers at {url} ({_reason(error)}).",
        "Is the server running? `potluck up` starts one on this machine.",
    )


def _reason(error: Exception) -> str:
    """The system's message, without the addresses that libraries add."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, socket.gaierror):
        return cause.strerror or "unknown name"
    if isinstance(cause, OSError) and cause.errno:
        return os.strerror(cause.errno)
    return str(error) or type(error).__name__
