"""Wires the server together. Only this file and `stored_data.py` name concrete services. It owns
their lifetime: everything that was started is stopped in reverse order on every orderly exit.
"""

import asyncio
import gc
import os
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import structlog
from msgspec import Struct
from uvicorn._types import ASGI3Application

from potluck.blobs.interface import Blobs
from potluck.live.in_process import InProcessLive
from potluck.live.interface import Live
from potluck.local.data_directory import held
from potluck.local.error_tally import ErrorTally
from potluck.local.network.presets import load_presets
from potluck.local.settings import find_misspelt
from potluck.model.error import ChainUnreachable, PortTaken, TransactionRefused, Unavailable
from potluck.server import topics
from potluck.server.accounts.first_admin import install_operator
from potluck.server.alerts.destinations import AlertDestinations
from potluck.server.api.app import make_app
from potluck.server.api.http.request_context import RequestContext
from potluck.server.caches import open_caches
from potluck.server.chain.chain_gateway import ChainGateway
from potluck.server.chain.chain_settings import read_payout_chain
from potluck.server.chain.contract_wallet import ContractWallets
from potluck.server.dashboard import Dashboard
from potluck.server.egress.allow_list import read_allowed
from potluck.server.egress.send import GuardedSender
from potluck.server.encryption.open_vault import open_vault
from potluck.server.http.server import RunningHttp, http_server, wait_for_first
from potluck.server.http.tls import Tls, open_tls
from potluck.server.loops.alert_delivery import AlertDeliveryLoop
from potluck.server.loops.alert_watch import AlertWatchLoop
from potluck.server.loops.caller_renewal import CallerRenewalLoop
from potluck.server.loops.dashboard import DashboardLoop
from potluck.server.loops.error_log import ErrorLogLoop
from potluck.server.loops.health import HealthLoop
from potluck.server.loops.leadership import LeadershipLoop
from potluck.server.loops.loop_lag import measure_loop_lag
from potluck.server.metrics.metrics import ServerMetrics
from potluck.server.metrics.requests import RequestMetrics
from potluck.server.origins import certificate_names, origins
from potluck.server.package_wheel import OfferedWheels
from potluck.server.policies import order_by_name, placement_by_name
from potluck.server.postgres import embedded_postgres
from potluck.server.rate_limiter import Limiter
from potluck.server.request_tally import RequestTally
from potluck.server.services import Services
from potluck.server.settings import ServerSettings
from potluck.server.start_wait import StartWait, StoppedWaiting
from potluck.server.stored_data import blobs_of, in_use
from potluck.server.support.last_start import record_start
from potluck.server.treasury.client import TreasuryClient
from potluck.store.database import Database
from potluck.store.new_ids import clock_source, use_id_source
from potluck.store.schema import check_address, migrate
from potluck.wire.package import Package

log = structlog.get_logger()

# How long a duty may take to end, when the server stops.
_LAST_DUTY_SECONDS = 1.0
_GC_THRESHOLDS = (20_000, 10, 10)


class RunningServer(Struct, frozen=True):
    """The address, certificate and package of a server that is ready."""

    url: str
    fingerprint: str | None  # of the private certificate authority, if there is one
    admin_invite: Path | None  # the invite file, while the pool has no admin
    package: Package | None  # the wheel that clients install, if this code was installed


async def serve(
    settings: ServerSettings,
    ready: Callable[[RunningServer], None],
    waiting: Callable[[str, str], None],
    errors: ErrorTally,
) -> None:
    """Runs until SIGTERM or SIGINT. Raises if the server cannot start.

    `waiting` gets the name of a service that does not answer yet, and why. `errors` are those that
    were logged; they are stored.
    """
    for variable, setting in find_misspelt(ServerSettings, "POTLUCK_", os.environ).items():
        log.warning("unknown variable", variable=variable, similar=setting)
    stop, stop_now = _stop_signals()
    order_by_name(settings.order_policy)
    placement_by_name(settings.placement_policy)
    wait = StartWait(settings.start_wait_seconds, stop, waiting)
    async with AsyncExitStack() as stack:
        stack.enter_context(held(settings.data_directory, in_use(settings.data_directory)))
        listener = stack.enter_context(_bind(settings))
        host, port = listener.getsockname()[:2]
        tls = open_tls(settings, settings.data_directory, lambda: certificate_names(settings))
        blobs = await stack.enter_async_context(blobs_of(settings, is_owner=True))
        try:
            await _wait_for_services(settings, blobs, wait)
        except StoppedWaiting:
            return
        _listen(listener, settings)
        services = await stack.enter_async_context(_services(settings, blobs, port, tls))
        stack.enter_context(use_id_source(clock_source(services.clock.now)))
        run = partial(_run_until_end, stack, services.database)
        health = HealthLoop(services)
        await health.run_once()
        await run(health.run())
        if settings.metrics:
            await run(measure_loop_lag(services))
        admin_invite = await install_operator(services)
        # It ends after those that follow, and stores errors of their end.
        await run(ErrorLogLoop(services, errors).run())
        await run(LeadershipLoop(services).run())
        if settings.caller_cache_seconds:
            await run(CallerRenewalLoop(services).run())
        await run(AlertWatchLoop(services, tls).run())
        await run(AlertDeliveryLoop(services).run())
        http = await stack.enter_async_context(_http(services, listener, tls))
        if tls is not None:
            await run(tls.keep_fresh(settings.tls_reload_seconds))
            services.metrics.watch_certificate(tls.ends_at)
        fingerprint = None if tls is None else tls.fingerprint
        package = None if services.wheel is None else services.wheel.package
        record_start(settings, port, services.clock.now())
        _spare_collector()
        ready(RunningServer(services.origins[0], fingerprint, admin_invite, package))
        log.info("ready", host=host, port=port, instance=services.instance)
        await wait_for_first(http.task, stop)
        log.info("stopping")
        await _drain(services, http, stop_now)


def _spare_collector() -> None:
    """Modules and wiring stay until the end. If the collector looked at them, each full collection
    would stop the event loop for as long as many requests take.

    Open polls are many objects that live for seconds, so with the usual thresholds it would look at
    them again and again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _stop_signals() -> tuple[asyncio.Event, asyncio.Event]:
    """Set by the first signal, and by the second."""
    stop, stop_now = asyncio.Event(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(
            number, lambda: (stop_now if stop.is_set() else stop).set()
        )
    return stop, stop_now


async def _drain(services: Services, http: RunningHttp, stop_now: asyncio.Event) -> None:
    """Continues to serve, while load balancers notice that they should send requests elsewhere."""
    services.health.stop()
    http.drain()
    with suppress(TimeoutError):
        async with asyncio.timeout(services.settings.drain_seconds):
            await wait_for_first(http.task, stop_now)


@contextmanager
def _bind(settings: ServerSettings) -> Any:
    """Binds first, so that a taken port fails before anything else is started.

    The port stays closed until the services that the server needs have answered: a client or a
    load balancer is refused at once instead of left waiting.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with listener:
        try:
            listener.bind((settings.host, settings.port))
        except OSError as error:
            raise _port_taken(settings, error) from error
        yield listener


def _listen(listener: socket.socket, settings: ServerSettings) -> None:
    try:
        listener.listen(1024)
    except OSError as error:  # another program bound it too, and was faster
        raise _port_taken(settings, error) from error


def _port_taken(settings: ServerSettings, error: OSError) -> PortTaken:
    return PortTaken(
        f"Port {settings.port} on {settings.host} is not available: {error.strerror}.",
        "Stop the program that listens there, or choose another (--port 0: any).",
    )


async def _wait_for_services(settings: ServerSettings, blobs: Blobs, wait: StartWait) -> None:
    """Waits for those of other machines; the embedded PostgreSQL starts with the server."""
    if (database_url := settings.database_url) is not None:
        await wait.until_available("PostgreSQL", lambda: check_address(database_url))
    if (direct_url := settings.database_direct_url) is not None:
        source = "POTLUCK_DATABASE_DIRECT_URL"
        await wait.until_available("PostgreSQL", lambda: check_address(direct_url, source))
    if settings.blobs_url is not None:
        await wait.until_available("the object store", blobs.check)
    if (redis_url := settings.redis_url) is not None:
        from potluck.live.redis import check_redis  # takes a third of a second to import

        try:
            await wait.until_available("Redis", lambda: check_redis(redis_url))
        except Unavailable as error:
            log.warning("starting without Redis, more slowly", detail=error.detail)


@asynccontextmanager
async def _services(
    settings: ServerSettings, blobs: Blobs, port: int, tls: Tls | None
) -> AsyncIterator[Services]:
    destinations = await asyncio.to_thread(AlertDestinations, settings.alert_urls)
    async with AsyncExitStack() as stack:
        dashboard, wheels = Dashboard(), OfferedWheels()
        site = DashboardLoop(settings, dashboard, wheels)
        first_look = asyncio.create_task(site.run_once())  # while the database starts
        url = settings.database_url
        if url is None:
            url = await stack.enter_async_context(
                embedded_postgres(settings.data_directory / "postgres")
            )
        await migrate(settings.database_direct_url or url, settings.migration_lock_seconds)
        metrics = ServerMetrics()
        database = await Database.connect(
            url,
            settings.database_connections,
            settings.idle_transaction_seconds,
            is_pooled=settings.database_pooler is not None,
            observer=metrics.database if settings.metrics else None,
        )
        metrics.database.watch(database)
        stack.push_async_callback(database.close)
        live = await _live(settings)
        stack.push_async_callback(live.close)
        vault, keys = await open_vault(settings, database)
        load_presets(settings.network_presets)  # raises now for a wrong file, not at a submission
        outward = GuardedSender(read_allowed(settings.webhook_allow), settings.webhook_seconds)
        stack.callback(outward.close)
        await first_look
        await _run_until_end(stack, database, site.run())
        yield Services(
            settings,
            database,
            live,
            blobs,
            keys=keys,
            vault=vault,
            origins=origins(settings, "http" if tls is None else "https", port),
            limiter=Limiter(live, settings),
            contract_wallets=ContractWallets(settings.chain_rpc_urls),
            authority_pem=None if tls is None else tls.authority_pem,
            outward=outward,
            instance=secrets.token_hex(8),
            stopping=asyncio.Event(),
            requests=RequestTally(
                settings.alert_window_seconds, slow_seconds=settings.alert_latency_seconds
            ),
            alert_destinations=destinations,
            metrics=metrics,
            caches=await stack.enter_async_context(open_caches(live, settings)),
            dashboard=dashboard,
            wheels=wheels,
            chain=await _open_chain(settings),
        )


async def _open_chain(settings: ServerSettings) -> ChainGateway | None:
    """Raises BadSettings if the contract contradicts them; one that does not answer is awaited."""
    chosen = read_payout_chain(settings)
    if chosen is None:
        return None
    socket_path = settings.treasury_socket
    treasury = None if socket_path is None else TreasuryClient(socket_path)
    gateway = await asyncio.to_thread(ChainGateway, chosen, treasury, settings.epoch_seconds)
    try:
        await gateway.check_contract()
    except (ChainUnreachable, TransactionRefused) as error:
        log.warning("the rewards contract cannot be read yet", detail=error.detail)
    return gateway


async def _live(settings: ServerSettings) -> Live:
    if settings.redis_url is None:
        return InProcessLive()
    from potluck.live.redis import RedisLive  # takes a third of a second to import

    return await RedisLive.connect(settings.redis_url)


async def _run_until_end(
    stack: AsyncExitStack, database: Database, duty: Coroutine[Any, Any, None]
) -> None:
    await stack.enter_async_context(_background(database, duty))


@asynccontextmanager
async def _background(database: Database, duty: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs a duty for the duration of the block.

    A duty that waits for a PostgreSQL that does not answer cannot be cancelled soon: then the
    connections are cut, which ends what all duties and requests wait for.
    """
    task = asyncio.create_task(duty)
    try:
        yield
    finally:
        task.cancel()
        _, hanging = await asyncio.wait({task}, timeout=_LAST_DUTY_SECONDS)
        if hanging:
            database.terminate()
            task.cancel()  # it may be connecting, to say goodbye
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def _http(
    services: Services, listener: socket.socket, tls: Tls | None
) -> AsyncIterator[RunningHttp]:
    async def end_waits() -> None:
        """Ends long polls and streams now, before their timeout."""
        services.stopping.set()
        await services.live.wake(topics.shutdown(services.instance))

    settings = services.settings
    app = cast(ASGI3Application, make_app(services))
    services.metrics.watch_requests(services.requests)
    metrics = RequestMetrics(services.metrics) if settings.metrics else None
    app = RequestContext(app, services.requests, metrics)
    seconds = settings.shutdown_seconds
    async with http_server(
        app, listener, settings, tls, seconds, services.clock.now, end_waits
    ) as server:
        yield server
