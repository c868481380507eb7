"""uvicorn, with connection limits and handshake timeouts."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from email.utils import format_datetime
from typing import Any, cast

import uvicorn
from msgspec import Struct
from uvicorn._types import ASGI3Application

from potluck.server.http.headers import BrowserHeaders
from potluck.server.http.listener import TcpListener
from potluck.server.http.peers import Peers
from potluck.server.http.protocol import EdgeProtocol
from potluck.server.http.settings import HttpSettings
from potluck.server.http.tls import Tls

# Do not wait for clients that do not close TLS properly.
_TLS_GOODBYE_SECONDS = 1.0
# After the port is closed: requests on connections that were just accepted arrive.
_LAST_REQUESTS_SECONDS = 0.2


class EdgeServer(uvicorn.Server):
    """Does not handle signals: uvicorn would re-raise them and skip the rest of the shutdown."""

    def __init__(
        self,
        config: uvicorn.Config,
        settings: HttpSettings,
        tls: Tls | None,
        now: Callable[[], datetime],
    ) -> None:
        super().__init__(config)
        self._now = now
        self.accepts = asyncio.Event()
        self._settings = settings
        self._tls = tls
        self._peers = Peers(settings.behind_proxy)
        self._is_draining = False
        self._timed: set[EdgeProtocol] = set()  # connections that have a time limit now

    @contextmanager
    def capture_signals(self) -> Any:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        listeners = [
            TcpListener(sock, self._settings, self._accept_connection) for sock in sockets or ()
        ]
        self.servers = cast("list[asyncio.Server]", listeners)
        for listener in listeners:
            listener.open()
        self.started = True
        self.accepts.set()

    async def _accept_connection(self, connection: socket.socket) -> object:
        secure: dict[str, Any] = {}
        if self._tls is not None:
            secure = {
                "ssl": self._tls.context,
                "ssl_handshake_timeout": self._settings.handshake_seconds,
                "ssl_shutdown_timeout": _TLS_GOODBYE_SECONDS,
            }
        loop = asyncio.get_running_loop()
        return await loop.connect_accepted_socket(self._protocol, connection, **secure)

    async def on_tick(self, counter: int) -> bool:
        now = asyncio.get_running_loop().time()
        for connection in list(self._timed):
            if connection.is_overdue(now):
                connection.transport.abort()
        is_over = await super().on_tick(counter)
        if counter % 10 == 0:  # about once a second, like uvicorn, but not by the machine's clock
            self._set_headers()
        return is_over

    def drain(self) -> None:
        """From now on each connection ends with its next response, so that none is idle when the
        server closes them: a request that is on its way to a closed connection would fail."""
        self._is_draining = True
        self._set_headers()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.drain()
        for listener in self.servers:
            listener.close()
        await asyncio.sleep(_LAST_REQUESTS_SECONDS)
        await super().shutdown(sockets)

    def _set_headers(self) -> None:
        date = format_datetime(self._now(), usegmt=True).encode()
        end = [(b"connection", b"close")] if self._is_draining else []
        self.server_state.default_headers = [(b"date", date), *end, *self.config.encoded_headers]

    def _protocol(self) -> EdgeProtocol:
        return EdgeProtocol(
            *(self.config, self.server_state, self.lifespan.state),
            *(self._settings, self._peers, self._timed),
        )


class RunningHttp(Struct, frozen=True):
    task: asyncio.Task[None]  # ends early only if the server fails
    drain: Callable[[], None]


@asynccontextmanager
async def http_server(
    app: ASGI3Application,
    listener: socket.socket,
    settings: HttpSettings,
    tls: Tls | None,
    shutdown_seconds: float,
    now: Callable[[], datetime],
    before_stop: Callable[[], Awaitable[None]],
) -> AsyncIterator["RunningHttp"]:
    """Serves for the duration of the block."""
    config = uvicorn.Config(
        BrowserHeaders(app),
        http="httptools",
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=settings.keep_alive_seconds,  # type: ignore[arg-type]  # whole or not
        timeout_graceful_shutdown=round(shutdown_seconds),
    )
    server = EdgeServer(config, settings, tls, now)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    await wait_for_first(task, server.accepts)
    try:
        yield RunningHttp(task, server.drain)
    finally:
        await before_stop()
        server.should_exit = True
        await asyncio.gather(task, return_exceptions=True)


async def wait_for_first(server: asyncio.Task[None], event: asyncio.Event) -> None:
    """Waits for the event; if the HTTP server ends first, raises its error."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({waiting, server}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if server.done():
        server.result()
