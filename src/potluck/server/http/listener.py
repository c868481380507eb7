"""Accepts connections, up to a limit.

Connections are counted when accepted, before the TLS handshake: an idle one uses a file descriptor
too. One holder gets at most half of the limit, so that no client can exhaust it alone.
"""

import asyncio
import resource
import socket
import time
import weakref
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence

import structlog

from potluck.server.http.peers import holders
from potluck.server.http.settings import HttpSettings

# The remaining files are for PostgreSQL, Redis, blobs and the server itself.
_SHARE_OF_FILES = 0.8
# Then the event loop serves other connections.
_ACCEPTED_AT_ONCE = 64
_OUT_OF_FILES_SECONDS = 0.5
_REMIND_SECONDS = 60.0

log = structlog.get_logger()


class ConnectionBudget:
    """Counts open connections, in total and by holder, and enforces the limits."""

    def __init__(self, settings: HttpSettings, open_files: int) -> None:
        self._most = min(settings.max_connections, int(open_files * _SHARE_OF_FILES))
        # Behind a proxy all connections have its address.
        self._most_each = None if settings.behind_proxy else settings.max_connections_per_address
        self._open: Counter[str] = Counter()

    def enter(self, address: str) -> Sequence[str] | None:
        """The names to pass to `leave`; None if a limit is reached."""
        places = self._places(address)
        if any(self._open[name] >= most for name, most in places.items()):
            return None
        self._open.update(places.keys())
        return tuple(places)

    def leave(self, names: Sequence[str]) -> None:
        self._open.subtract(names)
        for name in names:
            if not self._open[name]:
                del self._open[name]

    def _places(self, address: str) -> dict[str, int]:
        if self._most_each is None:
            return {"all": self._most}
        half = self._most // 2
        limits = {who: min(times * self._most_each, half) for who, times in holders(address)}
        return {"all": self._most, **limits}


class TcpListener:
    """Accepts connections of one socket. uvicorn treats it as an asyncio server."""

    def __init__(
        self,
        listener: socket.socket,
        settings: HttpSettings,
        accept_connection: Callable[[socket.socket], Coroutine[None, None, object]],
    ) -> None:
        self._listener = listener
        self._accept_connection = accept_connection
        self._room = ConnectionBudget(settings, _open_files())
        self._entering: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._retry: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._remind_at = 0.0

    def open(self) -> None:
        self._listener.setblocking(False)
        self._loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Closes the port. Connections that the system has accepted by then are let in."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._listener)
        if self._retry is not None:
            self._retry.cancel()
        while self._accept():
            pass
        self._listener.close()

    async def wait_closed(self) -> None:
        for task in self._entering:
            task.cancel()
        await asyncio.gather(*self._entering, return_exceptions=True)

    def _accept(self) -> bool:
        """Whether there may be more."""
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                connection, peer = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return False
            except OSError as error:
                self._pause(error)
                return False
            names = self._room.enter(peer[0])
            if names is None:
                connection.close()
                self._tell(peer[0])
                continue
            task = self._loop.create_task(
                self._enter(_CountedConnection(connection, self._room, names))
            )
            self._entering.add(task)
            task.add_done_callback(self._entering.discard)
        return True

    async def _enter(self, connection: "_CountedConnection") -> None:
        try:
            await self._accept_connection(connection)
        except OSError as error:  # the handshake failed or timed out
            log.debug("a connection failed before its first request", error=type(error).__name__)
            connection.close()

    def _pause(self, error: OSError) -> None:
        """Out of file descriptors: a waiting connection would wake the loop continuously."""
        log.error("cannot accept connections", error=error.strerror)
        if self._is_closed:
            return
        self._loop.remove_reader(self._listener)
        self._retry = self._loop.call_later(_OUT_OF_FILES_SECONDS, self.open)

    def _tell(self, address: str) -> None:
        now = time.monotonic()
        if now >= self._remind_at:
            self._remind_at = now + _REMIND_SECONDS
            log.warning("refused a connection: too many are open", address=address)


class _CountedConnection(socket.socket):
    """A connection that updates the budget when it is closed, detached or garbage collected."""

    def __init__(
        self, connection: socket.socket, room: ConnectionBudget, names: Sequence[str]
    ) -> None:
        kind = (connection.family, connection.type, connection.proto)
        super().__init__(*kind, fileno=connection.detach())
        self.setblocking(False)
        self.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._leave = weakref.finalize(self, room.leave, names)

    def close(self) -> None:
        super().close()
        self._leave()

    def detach(self) -> int:
        self._leave()
        return super().detach()


def _open_files() -> int:
    """The limit of open files of this process, after raising it as far as possible."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        log.info("cannot raise the limit of open files")
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**20 if soft == resource.RLIM_INFINITY else soft
