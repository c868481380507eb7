"""Wires the server together: the one file that names concrete parts, and their whole life.

Nothing is left behind: what was started is stopped, in reverse order, on every orderly way out.
"""

import asyncio
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import structlog
import uvicorn

from potluck.blobs.directory import DirectoryBlobs
from potluck.live.in_process import InProcessLive
from potluck.live.interface import Live
from potluck.local.directory import held
from potluck.model.error import BadSettings, DataDirectoryInUse, PortTaken
from potluck.server import topics
from potluck.server.api.app import make_app
from potluck.server.auth.secrets import derive
from potluck.server.loops.lead import LeadLoop
from potluck.server.operator import install_operator
from potluck.server.origins import origins
from potluck.server.parts import Parts
from potluck.server.postgres import embedded_postgres
from potluck.server.settings import ServerSettings
from potluck.store import installation
from potluck.store.database import Database
from potluck.store.schema import check_address, migrate

log = structlog.get_logger()


class Running:
    """What a caller may know about a server that is ready."""

    def __init__(self, url: str, admin_invite: Path | None) -> None:
        self.url = url
        self.admin_invite = admin_invite  # the file, while the pool has no admin


async def serve(settings: ServerSettings, ready: Callable[[Running], None]) -> None:
    """Runs until SIGTERM or SIGINT. Raises what keeps it from starting."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        stack.enter_context(held(settings.data_directory, _in_use(settings.data_directory)))
        listener = stack.enter_context(_bind(settings))
        host, port = listener.getsockname()[:2]
        parts = await stack.enter_async_context(_parts(settings, port))
        admin_invite = await install_operator(parts)
        await stack.enter_async_context(_background(LeadLoop(parts).run()))
        server = await stack.enter_async_context(_http(parts, listener))
        ready(Running(parts.origins[0], admin_invite))
        log.info("ready", host=host, port=port)
        await _first(server, stop)
        log.info("stopping")


def _in_use(directory: Path) -> DataDirectoryInUse:
    return DataDirectoryInUse(
        f"Another Potluck server uses {directory}.",
        "Stop it first, or choose another directory with --data-dir.",
    )


@contextmanager
def _bind(settings: ServerSettings) -> Any:
    """Before anything else is started, so that a taken port costs nothing."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with listener:
        try:
            listener.bind((settings.host, settings.port))
            listener.listen(1024)
        except OSError as error:
            raise PortTaken(
                f"Port {settings.port} on {settings.host} can not be had: {error.strerror}.",
                "Stop the program that listens there, or choose another: --port 0 takes any.",
            ) from error
        yield listener


@asynccontextmanager
async def _parts(settings: ServerSettings, port: int) -> AsyncIterator[Parts]:
    async with AsyncExitStack() as stack:
        url = settings.database_url
        if url is None:
            url = await stack.enter_async_context(
                embedded_postgres(settings.data_directory / "postgres")
            )
        else:
            await check_address(url)
        await migrate(url)
        database = await Database.connect(url, settings.database_connections)
        stack.push_async_callback(database.close)
        live = await _live(settings)
        stack.push_async_callback(live.close)
        blobs = DirectoryBlobs(settings.data_directory / "blobs")
        async with database.transaction() as connection:
            secret = await installation.lease_secret(connection, secrets.token_bytes(32))
        yield Parts(
            settings,
            database,
            live,
            blobs,
            keys=derive(secret),
            origins=origins(settings, "http", port),
            instance=secrets.token_hex(8),
            stopping=asyncio.Event(),
        )


async def _live(settings: ServerSettings) -> Live:
    if settings.redis_url is None:
        return InProcessLive()
    from potluck.live.redis import RedisLive  # a third of a second that a single instance saves

    live = await RedisLive.connect(settings.redis_url)
    if not await live.ping():
        await live.close()
        raise BadSettings(
            "Nothing answers at the address that --redis-url names.",
            "Start Redis or Valkey there, or leave the option out for a single instance.",
        )
    return live


@asynccontextmanager
async def _background(duty: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(duty)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class _Server(uvicorn.Server):
    """Signals are ours: uvicorn would raise them again and skip all that is stopped afterwards."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.accepts = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Any:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.accepts.set()


@asynccontextmanager
async def _http(parts: Parts, listener: socket.socket) -> AsyncIterator[asyncio.Task[None]]:
    config = uvicorn.Config(
        make_app(parts),
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=round(parts.settings.shutdown_seconds),
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    await _first(task, server.accepts)
    try:
        yield task
    finally:
        # Long polls and streams end now, not when their time is over.
        parts.stopping.set()
        await parts.live.wake(topics.shutdown(parts.instance))
        server.should_exit = True
        await asyncio.gather(task, return_exceptions=True)


async def _first(server: asyncio.Task[None], event: asyncio.Event) -> None:
    """Until the event, or until the HTTP server ends by itself, which raises what ended it."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({waiting, server}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if server.done():
        server.result()
