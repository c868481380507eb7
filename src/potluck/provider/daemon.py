"""The provider from start to goodbye; the one place where its parts are put together.

Start: lock the data directory, end what an earlier life left behind, find out what the sandbox
enforces and which devices there are, register, take up the journal. Then the duties run until
somebody wants it to stop: no more work is taken, runs are ended and given back, and outcomes are
sent. A server that has them all is told goodbye; otherwise the journal keeps them for the next
start. All of that takes seconds, and kill -9 at any moment loses nothing.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import structlog

from potluck.model.error import BadSettings, PotluckError
from potluck.model.ids import AccountId, NodeId
from potluck.model.node import SandboxReport
from potluck.provider.acquire import acquire_forever
from potluck.provider.announcement import Announce, Registered, Stopped
from potluck.provider.data_directory import (
    attempts_directory,
    hold,
    load_node_id,
    save_node_id,
)
from potluck.provider.detect.devices import detect_devices
from potluck.provider.detect.found import FoundDevice
from potluck.provider.device_watch import DeviceWatch
from potluck.provider.event import ShutdownAsked
from potluck.provider.heartbeat import Pulse, beat_forever, watch_silence
from potluck.provider.identity import load_key
from potluck.provider.link import Link, open_link
from potluck.provider.offer import describe_node
from potluck.provider.prepare.index import PackageIndex, hosts_of
from potluck.provider.prepare.preparer import Preparer
from potluck.provider.prepare.settings import PrepareSettings
from potluck.provider.runner import Runner
from potluck.provider.sandbox.choose import choose
from potluck.provider.sandbox.driver import Driver
from potluck.provider.settings import ProviderSettings
from potluck.provider.workbench import Workbench
from potluck.wire.provider import NodeRegistered, RegisterNode

log = structlog.get_logger()

# What a shell reports for a program that was interrupted.
_INTERRUPTED_STATUS = 130


def run_provider(settings: ProviderSettings, announce: Announce) -> None:
    """Provides until SIGTERM or SIGINT; a second one ends it at once."""
    asyncio.run(_run(settings, announce))


async def _run(settings: ProviderSettings, announce: Announce) -> None:
    stop = asyncio.Event()

    def asked() -> None:
        if stop.is_set():
            # The sandboxes die with us and the journal knows the rest.
            os._exit(_INTERRUPTED_STATUS)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked)
    await provide(settings, announce, stop)


async def provide(settings: ProviderSettings, announce: Announce, stop: asyncio.Event) -> None:
    """Provides until `stop` is set."""
    index = PackageIndex(settings.index_url, hosts_of(settings.index_hosts))
    with hold(settings.data_directory):
        (driver, sandbox), detection = await asyncio.gather(
            _open_sandbox(settings),
            detect_devices(settings.data_directory, settings.detect_seconds),
        )
        preparer = Preparer(
            driver, settings.data_directory / "environments", index, _allowed(settings)
        )
        await preparer.reap()
        registration = RegisterNode(
            describe_node(settings, detection.devices, sandbox),
            load_node_id(settings.data_directory, settings.url),
            own_tasks_only=not sandbox.is_safe_for_strangers,
        )
        runner_for = partial(Runner, driver, preparer, settings.outcome_flush_seconds)
        await _serve(settings, announce, stop, registration, detection.found, runner_for)
    announce(Stopped())


def _allowed(settings: ProviderSettings) -> PrepareSettings:
    return PrepareSettings(
        allow_builds=settings.allow_builds, shelf_bytes=settings.environments_bytes
    )


async def _open_sandbox(settings: ProviderSettings) -> tuple[Driver, SandboxReport]:
    driver, report = await choose(
        settings.data_directory / "sandbox", settings.name, settings.unsafe_no_sandbox
    )
    await driver.reap()
    return driver, report


async def _serve(
    settings: ProviderSettings,
    announce: Announce,
    stop: asyncio.Event,
    registration: RegisterNode,
    found: Mapping[str, FoundDevice],
    runner_for: Callable[[AccountId | None], Runner],
) -> None:
    def keep(node_id: NodeId) -> None:
        save_node_id(settings.data_directory, settings.url, node_id)

    key = load_key(settings.data_directory)
    async with open_link(settings, key, registration, announce, keep) as link:
        answer = await link.register()
        # The server is told, and should know; but without walls we look for ourselves.
        owner = link.account_id if registration.own_tasks_only else None
        bench = Workbench(
            attempts_directory(settings.data_directory, settings.url),
            link,
            runner_for(owner),
            announce,
            settings,
        )
        announce(_registered(settings, registration, answer.node_id))
        watch = DeviceWatch(link, found, announce)
        watch.note(answer.unbound)
        await _work(settings, link, bench, watch, answer, stop)
        # The duties have ended: one that still called could bring the node back to life.
        await _leave(link, bench)


def _registered(
    settings: ProviderSettings, registration: RegisterNode, node_id: NodeId
) -> Registered:
    offer = registration.description
    return Registered(
        node_id,
        settings.url,
        offer.name,
        offer.devices,
        offer.sandbox,
        registration.own_tasks_only,
    )


async def _work(
    settings: ProviderSettings,
    link: Link,
    bench: Workbench,
    watch: DeviceWatch,
    answer: NodeRegistered,
    stop: asyncio.Event,
) -> None:
    """The duties, side by side; a mistake in one of them ends the provider, and says so."""
    wait_seconds = min(settings.poll_seconds, answer.poll_seconds)
    beat_seconds = min(settings.heartbeat_seconds, answer.heartbeat_seconds)
    pulse = Pulse()
    try:
        async with asyncio.TaskGroup() as duties:
            bench.begin(duties)
            duties.create_task(
                beat_forever(link, bench.held, bench.tell, watch.hear, beat_seconds, pulse)
            )
            duties.create_task(watch_silence(pulse, bench.shortest_silence_seconds, bench.tell))
            duties.create_task(watch.run())
            polling = duties.create_task(
                acquire_forever(link, bench.held, bench.tell, wait_seconds)
            )
            await stop.wait()
            polling.cancel()
            await _settle(settings, bench)
            raise _Done
    except ExceptionGroup as group:
        _check(group, settings.data_directory)
    finally:
        await bench.close()


class _Done(Exception):
    """Ends the duties; a task group ends its tasks only when one of them raises."""


def _check(group: ExceptionGroup[Exception], data_directory: Path) -> None:
    """Only `_Done` is a good end. Without its disk a provider can not keep its promises."""
    _, failures = group.split(_Done)
    if failures is None:
        return
    error = failures.exceptions[0]
    if isinstance(error, OSError):
        raise BadSettings(
            f"The data directory {data_directory} can not be written: {error.strerror or error}.",
            "Free some space or mend its permissions, then start again: nothing is lost.",
        ) from error
    raise error


async def _settle(settings: ProviderSettings, bench: Workbench) -> None:
    """Ends the runs, and lets outcomes travel for a moment."""
    bench.tell([ShutdownAsked()])
    with suppress(TimeoutError):
        async with asyncio.timeout(settings.stop_grace_seconds):
            await bench.settled()


async def _leave(link: Link, bench: Workbench) -> None:
    """Says goodbye, unless the server lacks an outcome: whoever leaves gives all it holds back."""
    if bench.held():
        log.warning("outcomes are kept for the next start", attempts=len(bench.held()))
        return
    try:
        await link.leave()
    except PotluckError as error:
        log.warning("no goodbye", detail=error.detail)
