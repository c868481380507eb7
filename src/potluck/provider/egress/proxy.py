"""The only connection out of a sandbox: an HTTP proxy on a Unix socket of the provider.

Takes CONNECT and plain HTTP requests to the hosts that its guard allows; everything else gets 403
and is logged. Limits the number of connections, the size of a request's head, the total bytes and
the idle time; the owner's bandwidth limit holds for both directions together. TLS is not
intercepted: the program inside verifies the certificate itself. The socket is reachable for the
provider only; a relay connects the sandbox with it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from pathlib import Path

import structlog
from msgspec import Struct

from potluck.model.task import GIB
from potluck.provider.egress.byte_budget import ByteBudget
from potluck.provider.egress.guard import EgressGuard, HostUnreachable
from potluck.provider.egress.request import (
    AddressRefused,
    Endpoint,
    ProxyRequest,
    RequestRefused,
    read_request,
)
from potluck.provider.egress.serving_socket import Connections, serving_socket
from potluck.provider.server.throttle import Throttle

_log = structlog.get_logger(__name__)
_CHUNK_BYTES = 65_536
_MOST_NOTED = 5


class ProxyLimits(Struct, frozen=True):
    connections: int = 128
    total_bytes: int = 20 * GIB
    head_bytes: int = 16_384
    head_seconds: float = 30.0
    connect_seconds: float = 30.0
    idle_seconds: float = 300.0


class Proxy:
    """One proxy for each sandbox."""

    def __init__(
        self, guard: EgressGuard, limits: ProxyLimits, throttle: Throttle, budget: ByteBudget
    ):
        self._guard = guard
        self._limits = limits
        self._throttle = throttle
        self.budget = budget
        self._connections: Connections = set()
        # The first few failed endpoints, for the error message.
        self.refused: list[str] = []  # hosts that the rules do not name
        self.not_public: list[str] = []
        self.unreachable: list[str] = []

    @contextlib.asynccontextmanager
    async def serving(self, parent: Path) -> AsyncIterator[Path]:
        """Serves on a new socket, whose path it yields."""
        serving = serving_socket(parent, self._answer, self._connections, self._limits.head_bytes)
        async with serving as path:
            yield path

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if len(self._connections) > self._limits.connections:
                raise RequestRefused(HTTPStatus.SERVICE_UNAVAILABLE, "Too many connections.")
            # A head that arrives byte by byte does not restart this.
            async with asyncio.timeout(self._limits.head_seconds) as timeout:
                request = await self._admit(reader)
                await self._connect(request, _Pipe(self, self._throttle, timeout, reader, writer))
        except RequestRefused as refused:
            writer.write(refused.answer())
            await writer.drain()

    async def _admit(self, reader: asyncio.StreamReader) -> ProxyRequest:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise RequestRefused(status, "The head of the request is too large.") from None
        request = read_request(head)
        if not request.is_tunnel and request.method not in self._guard.rules.methods:
            raise RequestRefused(HTTPStatus.METHOD_NOT_ALLOWED, "The package index is read-only.")
        with self._noting(request.endpoint):
            self._guard.check(request.endpoint)
        if self.budget.is_exhausted:
            raise RequestRefused(HTTPStatus.FORBIDDEN, "The byte limit is reached.")
        return request

    @contextlib.contextmanager
    def _noting(self, endpoint: Endpoint) -> Iterator[None]:
        try:
            yield
        except AddressRefused:
            _note(self.not_public, endpoint, "egress.refused")
            raise
        except RequestRefused as refused:
            if refused.status is HTTPStatus.FORBIDDEN:
                _note(self.refused, endpoint, "egress.refused")
            raise

    async def _connect(self, request: ProxyRequest, pipe: "_Pipe") -> None:
        pipe.renew(self._limits.connect_seconds)
        try:
            with self._noting(request.endpoint):
                reader, writer = await self._guard.connect(request.endpoint)
        except HostUnreachable as error:
            _note(self.unreachable, request.endpoint, "egress.unreachable")
            host, port = request.endpoint
            raise RequestRefused(HTTPStatus.BAD_GATEWAY, f"{host}:{port} {error}.") from error
        pipe.renew(self._limits.idle_seconds)
        try:
            if request.is_tunnel:
                await pipe.tunnel(reader, writer)
            else:
                await pipe.fetch(request, reader, writer)
        finally:
            writer.close()

    @property
    def idle_seconds(self) -> float:
        return self._limits.idle_seconds


def _note(endpoints: list[str], endpoint: Endpoint, event: str) -> None:
    """Logs the first few, since a task could cause any number of them."""
    name = f"{endpoint[0]}:{endpoint[1]}"
    if name not in endpoints and len(endpoints) < _MOST_NOTED:
        endpoints.append(name)
        _log.warning(event, endpoint=name)


class _Pipe:
    """Both ends of one connection. Every chunk in either direction restarts the timeout."""

    def __init__(
        self,
        proxy: Proxy,
        throttle: Throttle,
        timeout: asyncio.Timeout,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ):
        self._proxy = proxy
        self._throttle = throttle
        self._timeout = timeout
        self._reader = reader
        self._writer = writer

    async def tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        async with asyncio.TaskGroup() as both:
            both.create_task(self._copy(self._reader, writer))
            both.create_task(self._copy(reader, self._writer))

    async def fetch(
        self, request: ProxyRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """One request and its response; what follows the body is not read."""
        writer.write(request.onward[: self._proxy.budget.spend(len(request.onward))])
        async with asyncio.TaskGroup() as both:
            sending = both.create_task(self._copy(self._reader, writer, request.body_bytes))
            await self._copy(reader, self._writer)
            sending.cancel()

    async def _copy(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        most_bytes: int | None = None,
    ) -> None:
        """Copies up to the end of the stream, or `most_bytes`, after which it stays open."""
        left = most_bytes
        # A broken connection counts as closed; the other side sees the end of its stream.
        with contextlib.suppress(OSError):
            while left is None or left > 0:
                piece = self._throttle.piece_bytes(_CHUNK_BYTES)
                chunk = await reader.read(piece if left is None else min(piece, left))
                if not chunk:
                    break
                left = None if left is None else left - len(chunk)
                granted = self._proxy.budget.spend(len(chunk))
                self.renew(None)  # waiting for the throttle is not idle time
                await self._throttle.take(granted)
                self.renew(self._proxy.idle_seconds if granted == len(chunk) else 0.0)
                writer.write(chunk[:granted])
                await writer.drain()
            if left is None:
                writer.write_eof()

    def renew(self, timeout_seconds: float | None) -> None:
        """Restarts the timeout; None disables it."""
        now = asyncio.get_running_loop().time()
        if not self._timeout.expired():
            self._timeout.reschedule(None if timeout_seconds is None else now + timeout_seconds)
