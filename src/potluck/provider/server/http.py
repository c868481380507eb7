"""One call to the server and its answer, or the error that it met. Nothing is repeated here."""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

import aiohttp
from msgspec import Struct

from potluck.model.error import ServerUnreachable
from potluck.wire.response import (
    ELSEWHERE,
    decoded,
    elsewhere,
    failure,
)
from potluck.wire.routes import Route

T = TypeVar("T")

_CHUNK_BYTES = 2**18


class ServerRequest(Struct, frozen=True):
    """What is asked of the server, and how long to wait for its answer."""

    route: Route
    path: str
    body: bytes
    patience: aiohttp.ClientTimeout
    content_type: str = "application/json"
    headers: dict[str, str] = {}
    parameters: dict[str, str] = {}  # of the address


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
        """The status of a good answer, and its bytes as they come.

        Where the server names another place, that one is asked, without the token.
        """
        async with AsyncExitStack() as open_ones:
            response = await open_ones.enter_async_context(self._respond(request, token))
            if response.status == ELSEWHERE:
                place = elsewhere(response.headers.get("Location", ""), self.url)
                # Taken as it stands: quoted anew, its signature would be of something else.
                quoted = type(response.url)(place, encoded=True)
                response = await open_ones.enter_async_context(self._elsewhere(request, quoted))
            if response.status >= 300:
                raise failure(response.status, await response.read(), self.url)
            yield response.status, response.content.iter_chunked(_CHUNK_BYTES)

    @asynccontextmanager
    async def _respond(
        self, request: ServerRequest, token: str | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {"Content-Type": request.content_type, **request.headers}
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
                # A redirect would carry the token to a place that nobody named.
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
            raise failure(status, body, self.url)
        return decoded(body or b"null", kind, self.url)


def _unreachable(url: str, error: Exception) -> ServerUnreachable:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return ServerUnreachable(
            f"The certificate of {url} is not trusted: {error.certificate_error}.",
            "Check the address. A pool with an authority of its own is trusted by its fingerprint:"
            " potluck provide URL --ca-fingerprint sha256:…",
        )
    return ServerUnreachable(
        f"Nothing answers at {url} ({_reason(error)}).",
        "Is the server running? `potluck up` starts one on this machine.",
    )


def _reason(error: Exception) -> str:
    """As the system says it; libraries add addresses and details of their own."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, socket.gaierror):
        return cause.strerror or "unknown name"
    if isinstance(cause, OSError) and cause.errno:
        return os.strerror(cause.errno)
    return str(error) or type(error).__name__
