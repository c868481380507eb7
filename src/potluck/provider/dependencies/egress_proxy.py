"""The only connection out of an installation's sandbox: an HTTP proxy on a Unix socket.

Allows CONNECT, GET and HEAD to the hosts and ports of the owner's package index; everything else
gets 403 and is logged. Limits the number of connections, the size of a request's head, the total
bytes and the idle time; the owner's bandwidth limit holds for both directions together. TLS is not
intercepted: the sandbox verifies the index's certificate itself.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from http import HTTPStatus
from urllib.parse import urlsplit

import structlog
from msgspec import Struct

from potluck.model.task import GIB
from potluck.provider.dependencies.package_index import Endpoint
from potluck.provider.server.throttle import Throttle

# Meant for the proxy only, or about a body, which these requests do not have.
_DROPPED = {
    *("connection", "keep-alive", "te", "trailer", "upgrade", "host"),
    *("proxy-authorization", "proxy-connection", "content-length", "transfer-encoding"),
}


class RequestRefused(Exception):
    """The request gets this response instead of a connection."""

    def __init__(self, status: HTTPStatus, sentence: str):
        self.status = status
        super().__init__(sentence)

    def answer(self) -> bytes:
        body = f"{self}\n".encode()
        head = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\n"
            f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        return head.encode() + body


class ProxyRequest(Struct, frozen=True):
    """A tunnel to `endpoint` or, if `onward` is set, a GET or HEAD request to send there."""

    endpoint: Endpoint
    onward: bytes = b""

    @property
    def is_tunnel(self) -> bool:
        return not self.onward


def read_request(head: bytes) -> ProxyRequest:
    """Parses a request head, which ends with an empty line; raises RequestRefused."""
    lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or any("\r" in line or "\n" in line for line in lines):
        raise RequestRefused(HTTPStatus.BAD_REQUEST, "That is not an HTTP request.")
    method, target, _ = words
    if method == "CONNECT":
        return ProxyRequest(_endpoint(f"//{target}", None))
    if method in ("GET", "HEAD") and target.startswith("http://"):
        return ProxyRequest(_endpoint(target, 80), _onward(method, target, lines[1:]))
    raise RequestRefused(
        HTTPStatus.METHOD_NOT_ALLOWED, "Only CONNECT, GET and HEAD are allowed here."
    )


def _endpoint(url: str, default_port: int | None) -> Endpoint:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or default_port
    except ValueError:
        host, port = None, None
    if not host or not port or "@" in url.partition("//")[2].partition("/")[0]:
        raise RequestRefused(HTTPStatus.BAD_REQUEST, "The request names no host and port.")
    return host.rstrip("."), port


def _onward(method: str, target: str, headers: list[str]) -> bytes:
    # We set the Host header, so that it is the host which was checked.
    authority, slash, path = target.removeprefix("http://").partition("/")
    kept = [line for line in headers if line.partition(":")[0].strip().lower() not in _DROPPED]
    lines = [f"{method} {slash or '/'}{path} HTTP/1.1", f"Host: {authority}", "Connection: close"]
    return "\r\n".join([*lines, *kept, "", ""]).encode("latin-1")


_log = structlog.get_logger(__name__)
_CHUNK_BYTES = 65_536
_MAX_NOTED = 5


class ProxyLimits(Struct, frozen=True):
    connections: int = 128
    total_bytes: int = 20 * GIB
    head_bytes: int = 16_384
    idle_seconds: float = 60.0


class Proxy:
    """One proxy for each installation step."""

    def __init__(self, allowed: frozenset[Endpoint], limits: ProxyLimits, throttle: Throttle):
        self._allowed = allowed
        self._limits = limits
        self._throttle = throttle
        self._connections: set[asyncio.Task[None]] = set()
        self._spent_bytes = 0
        # The first few failed endpoints, for the error message.
        self.refused: list[str] = []
        self.unreachable: list[str] = []

    @property
    def is_exhausted(self) -> bool:
        return self._spent_bytes > self._limits.total_bytes

    @contextlib.asynccontextmanager
    async def serving(self, listener: socket.socket) -> AsyncIterator[None]:
        """Serves on this socket; closes every connection at the end."""
        limit = self._limits.head_bytes
        server = await asyncio.start_unix_server(self._accept, sock=listener, limit=limit)
        try:
            yield
        finally:
            server.close()
            connections = list(self._connections)
            for connection in connections:
                connection.cancel()
            await asyncio.gather(*connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        try:
            # An error in one connection affects its client only.
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._answer(reader, writer)
        finally:
            writer.close()
            self._connections.discard(connection)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if len(self._connections) > self._limits.connections:
                raise RequestRefused(HTTPStatus.SERVICE_UNAVAILABLE, "Too many connections.")
            async with asyncio.timeout(self._limits.idle_seconds) as timeout:
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
        if request.endpoint not in self._allowed:
            _log.warning("prepare.host_refused", endpoint=request.endpoint)
            _note(self.refused, request.endpoint)
            raise RequestRefused(HTTPStatus.FORBIDDEN, "This is not a host of the package index.")
        if self.is_exhausted:
            raise RequestRefused(HTTPStatus.FORBIDDEN, "The installation has downloaded too much.")
        return request

    async def _connect(self, request: ProxyRequest, pipe: "_Pipe") -> None:
        try:
            reader, writer = await asyncio.open_connection(*request.endpoint)
        except OSError as error:
            _log.warning("prepare.unreachable", endpoint=request.endpoint, error=str(error))
            _note(self.unreachable, request.endpoint)
            raise RequestRefused(
                HTTPStatus.BAD_GATEWAY, "The package index does not answer."
            ) from error
        try:
            if request.is_tunnel:
                await pipe.tunnel(reader, writer)
            else:
                await pipe.fetch(request.onward, reader, writer)
        finally:
            writer.close()

    def spend(self, size_bytes: int) -> float:
        """Counts bytes in either direction; returns the timeout for the next ones."""
        self._spent_bytes += size_bytes
        if not self.is_exhausted:
            return self._limits.idle_seconds
        _log.warning("prepare.download_limit", limit_bytes=self._limits.total_bytes)
        return 0.0


def _note(endpoints: list[str], endpoint: Endpoint) -> None:
    name = f"{endpoint[0]}:{endpoint[1]}"
    if name not in endpoints and len(endpoints) < _MAX_NOTED:
        endpoints.append(name)


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
        self, onward: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(onward)
        await self._copy(reader, self._writer)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A broken connection counts as closed; the other side sees the end of its stream.
        with contextlib.suppress(OSError):
            while chunk := await reader.read(self._throttle.piece_bytes(_CHUNK_BYTES)):
                timeout_seconds = self._proxy.spend(len(chunk))
                self._renew(None)  # waiting for the throttle is not idle time
                await self._throttle.take(len(chunk))
                self._renew(timeout_seconds)
                writer.write(chunk)
                await writer.drain()
            writer.write_eof()

    def _renew(self, timeout_seconds: float | None) -> None:
        """Restarts the timeout; None disables it."""
        now = asyncio.get_running_loop().time()
        if not self._timeout.expired():
            self._timeout.reschedule(None if timeout_seconds is None else now + timeout_seconds)
