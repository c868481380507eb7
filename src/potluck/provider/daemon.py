"""The provider's life cycle, and the one place where its parts are wired together.

Start: lock the data directory, read the owner's file, clean up after an earlier process, probe the
sandbox and the devices, register, replay the journal. Then the duties run until a stop: no new work
is taken, runs are ended and given back, and outcomes are sent. If the server has all of them, the
node leaves; otherwise the journal keeps them for the next start. A stop takes seconds, and kill -9
at any moment loses nothing. A drained provider stops after its running tasks; one that leaves for
good also gives up its key and its data.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import structlog
from msgspec import Struct

from potluck.local.tracing import start_tracing, stop_tracing
from potluck.model.error import BadSettings, PotluckError, Unavailable
from potluck.model.ids import AccountId, NodeId
from potluck.provider.announcement import Announce, Draining, OptionsOverridden, Stopped, TermsWrong
from potluck.provider.attempt.receipt_book import ReceiptBook
from potluck.provider.attempt.receipts import AttemptReceipts
from potluck.provider.attempt.runner import Runner
from potluck.provider.change_counter import ChangeCounter
from potluck.provider.control.handler import CommandContext, CommandHandler
from potluck.provider.control.listener import listening
from potluck.provider.data_directory import (
    attempts_directory,
    load_node_id,
    lock_directory,
    receipts_directory,
    save_node_id,
    tidy,
)
from potluck.provider.detect.devices import detect_devices
from potluck.provider.detect.report import Detection
from potluck.provider.detect.sampler import Sampler
from potluck.provider.devices.contest_watch import DeviceWatch
from potluck.provider.devices.offer import NodeOffer, measure_devices, offer_forever, watch_offer
from potluck.provider.effects import AttemptEffects
from potluck.provider.egress.egress import Egress
from potluck.provider.egress.guard import OwnAddresses
from potluck.provider.event import ShutdownRequested
from potluck.provider.execution import Execution, choose_sandbox_name, open_execution
from potluck.provider.files.volume_cache import VolumeCache
from potluck.provider.metrics.metering import Metering
from potluck.provider.owner.file import terms_file
from potluck.provider.owner.live_rules import OwnerRules
from potluck.provider.owner.observations import Observations
from potluck.provider.owner.owner_duties import AvailabilityDuty, ProviderHooks
from potluck.provider.owner.power import PowerCaps
from potluck.provider.owner.remote_requests import RemoteRequests
from potluck.provider.sandbox.sandbox_switch import (
    SandboxSwitch,
    make_sandbox_switch,
    switch_sandboxes,
)
from potluck.provider.server.heartbeat import HeartbeatContent, Pulse, beat_forever, watch_silence
from potluck.provider.server.lease_poll import Rhythm, acquire_forever
from potluck.provider.server.leave import forget
from potluck.provider.server.node_key import NodeKey, load_key
from potluck.provider.server.server_client import NodeServerClient, open_node_client
from potluck.provider.server.throttle import Throttle
from potluck.provider.settings import ProviderSettings
from potluck.provider.shutdown_request import ShutdownRequest, on_stop_signals
from potluck.wire.provider import MOST_HELD_VOLUMES, HeartbeatAnswer, NodeRegistered

log = structlog.get_logger()

# The exit status that a shell reports for an interrupted program.
_INTERRUPTED_STATUS = 130


def run_provider(settings: ProviderSettings, announce: Announce) -> None:
    """Provides until SIGTERM or SIGINT; a second one stops it immediately."""
    start_tracing("provider")
    try:
        asyncio.run(_run(settings, announce))
    finally:
        stop_tracing()


async def _run(settings: ProviderSettings, announce: Announce) -> None:
    stop = asyncio.Event()

    def request_stop() -> None:
        if stop.is_set():
            # The sandboxes die with this process, and the journal has the rest.
            os._exit(_INTERRUPTED_STATUS)
        stop.set()

    on_stop_signals(request_stop)
    await provide(settings, announce, stop)


async def provide(settings: ProviderSettings, announce: Announce, stop: asyncio.Event) -> None:
    """Provides until `stop` is set, or until it is drained, if the owner requests that."""
    with lock_directory(settings.data_directory):
        tidy(settings.data_directory)
        rules = OwnerRules(terms_file(settings.data_directory), settings)
        throttle = Throttle(rules.limits.bandwidth_bytes_per_second)
        metering = Metering(settings)
        announce = metering.count_announced(announce)
        volumes = VolumeCache(settings.data_directory / "volumes", settings.volumes_bytes)
        egress = Egress(settings.data_directory, throttle)
        rules.network_used_bytes = egress.committed_bytes
        how = (lambda: rules.limits, metering.observe_start, volumes)
        open_named = partial(open_execution, settings, egress, *how)
        workshop, detection = await asyncio.gather(
            open_named(choose_sandbox_name(settings, rules.limits.sandbox)),
            detect_devices(settings.data_directory, settings.detect_seconds),
        )
        await workshop.reap()
        rules.know(detection.devices)
        await _serve(
            _LocalFacts(
                *(settings, announce, rules, throttle, workshop, detection, open_named, metering),
                load_key(settings.data_directory),
            ),
            stop,
        )
    announce(Stopped())


class _LocalFacts(Struct, frozen=True):
    """What is known before the first contact with the server."""

    settings: ProviderSettings
    announce: Announce
    rules: OwnerRules
    throttle: Throttle
    workshop: Execution
    detection: Detection
    open_named: Callable[[str], Awaitable[Execution]]
    metering: Metering
    key: NodeKey


async def _serve(local: _LocalFacts, stop: asyncio.Event) -> None:
    settings = local.settings
    workshop = local.workshop
    offer = NodeOffer(
        *(settings, local.detection.devices, workshop.report, local.rules, workshop.containers),
        workshop.volumes.offered_bytes,
    )
    offer.pythons = workshop.pythons
    offer.held_bytes = workshop.driver.held_bytes

    def keep(node_id: NodeId) -> None:
        save_node_id(settings.data_directory, settings.url, node_id)

    async with open_node_client(
        settings, local.key, offer.registration, local.announce, keep
    ) as link:
        parts = _assemble(local, offer, link, await link.sign_in())
        answer = await link.register()
        async with (
            _sampling(parts),
            listening(settings.data_directory, CommandHandler(parts.office).handle),
            local.metering.serving(parts.office, local.detection.devices),
        ):
            local.announce(offer.registered(answer.node_id))
            _introduce(local, parts, answer)
            await _work(parts, answer, stop)
            # After the duties: a late call of one could register the node again.
            await _leave(parts.office, parts.wishes.number())


class _ProviderParts(Struct, frozen=True):
    """The parts of a running provider."""

    office: CommandContext
    devices: DeviceWatch
    seen: Observations
    wishes: RemoteRequests
    sampler: Sampler
    refit: SandboxSwitch
    announce: Announce
    detection: Detection
    volumes: Callable[[], tuple[str, ...]]
    own_addresses: OwnAddresses


def _assemble(
    local: _LocalFacts, offer: NodeOffer, link: NodeServerClient, account_id: AccountId
) -> _ProviderParts:
    settings, rules, announce = local.settings, local.rules, local.announce
    news, ending, sampler = ChangeCounter(), ShutdownRequest(), Sampler(local.detection.found)
    observations = Observations(local.detection.devices, sampler)

    def runner_of(workshop: Execution) -> Runner:
        facts = (settings, local.detection, rules.may_run, account_id)
        return workshop.runner(*facts, sampler.spent, observations.unusable)

    book = ReceiptBook(receipts_directory(settings.data_directory, settings.url), local.key)
    bench = AttemptEffects(
        attempts_directory(settings.data_directory, settings.url),
        *(link, runner_of(local.workshop), announce, settings, local.throttle),
        AttemptReceipts(book, news),
    )
    bench.reports.let_pass(news.until_known)
    local.workshop.volumes.listen(news.change)
    devices = DeviceWatch(link, local.detection.found, announce)
    doings = ProviderHooks(
        *(bench.busy, bench.used, bench.tell, announce, news),
        *(offer.change_counter, local.throttle.limit),
    )
    watch = AvailabilityDuty(local.detection.devices, rules, observations, doings)

    def drain(is_for_good: bool) -> None:
        announce(Draining(len(bench.held()), is_for_good))
        watch.drain()
        ending.ask(is_for_good)

    power = PowerCaps(sampler, announce, local.detection.found, settings.data_directory)
    office = CommandContext(
        *(settings, rules, offer, link, bench, watch, power, Pulse(), news, ending),
        *(devices.standings, drain),
    )
    wishes = RemoteRequests(
        settings.data_directory,
        lambda: load_node_id(settings.data_directory, settings.url),
        watch,
        partial(drain, False),
        news,
    )
    offer.say_also(watch.statuses, wishes.number)
    return _ProviderParts(
        office,
        devices,
        observations,
        wishes,
        sampler,
        make_sandbox_switch(office, announce, local.open_named, runner_of),
        announce,
        local.detection,
        partial(local.workshop.volumes.versions, MOST_HELD_VOLUMES),
        local.workshop.egress.own,
    )


def _introduce(local: _LocalFacts, parts: _ProviderParts, answer: NodeRegistered) -> None:
    """Announces problems of the devices and of the owner's file at the start."""
    parts.devices.note(answer.unbound)
    detail, hint = local.rules.trouble()
    if detail:
        local.announce(TermsWrong(detail, hint))
    if options := local.rules.overridden():
        local.announce(OptionsOverridden(tuple(options), str(local.rules.path)))
    parts.office.watch.introduce()


@asynccontextmanager
async def _sampling(parts: _ProviderParts) -> AsyncIterator[None]:
    """Restores the devices' power limits at the end, and stops sampling."""
    try:
        yield
    finally:
        await parts.office.power.release()
        await parts.sampler.close()


async def _work(parts: _ProviderParts, answer: NodeRegistered, stop: asyncio.Event) -> None:
    """Runs the duties concurrently; an error in one of them stops the provider and is raised."""
    office = parts.office
    try:
        async with asyncio.TaskGroup() as duties:
            office.bench.begin(duties)
            office.watch.judge()
            polling = _begin_duties(parts, answer, duties)
            await _wait_for_stop(office, stop)
            polling.cancel()
            await _settle(office)
            raise _DutiesDone
    except ExceptionGroup as group:
        _check(group, office.settings.data_directory)
    finally:
        await office.bench.close()


def _begin_duties(
    parts: _ProviderParts, answer: NodeRegistered, duties: asyncio.TaskGroup
) -> asyncio.Task[None]:
    """Starts all duties; returns the poll for work, which ends first."""
    office, settings = parts.office, parts.office.settings
    bench, link, watch, news = office.bench, office.link, office.watch, office.news
    unsent = bench.receipts.unsent
    tidings = HeartbeatContent(
        *(bench.held, watch.statuses, parts.wishes.number, news, unsent), parts.volumes
    )
    bench.receipts.bind(answer)
    parts.own_addresses.see(answer.address)

    def hear(beat: HeartbeatAnswer) -> None:
        bench.receipts.hear(beat.receipts)
        parts.devices.hear(beat)
        parts.wishes.hear(beat.wishes)
        parts.own_addresses.see(beat.address)

    def registered(again: NodeRegistered) -> None:
        bench.receipts.bind(again)
        parts.devices.note(again.unbound)

    beat_seconds = min(settings.heartbeat_seconds, answer.heartbeat_seconds)
    poll_seconds = min(settings.poll_seconds, answer.poll_seconds)
    for duty in (
        beat_forever(link, tidings, bench.tell, hear, beat_seconds, office.pulse),
        watch_silence(office.pulse, bench.shortest_silence_seconds, bench.tell),
        offer_forever(link, office.offer, registered, parts.announce),
        watch_offer(office.offer),
        watch.run(settings.terms_seconds),
        watch.run_looks(parts.office.power, settings.sample_seconds),
        switch_sandboxes(parts.refit, settings.terms_seconds),
        measure_devices(
            office.offer,
            parts.detection,
            settings.data_directory,
            parts.seen.own_doing,
            watch.is_free,
            settings.terms_seconds,
        ),
        parts.wishes.run(),
        parts.devices.run(),
    ):
        duties.create_task(duty)
    rhythm = Rhythm(poll_seconds, settings.poll_rest_seconds, bench.reports.answered)
    polling = acquire_forever(link, tidings, bench.tell, office.pulse, rhythm, bench.streams)
    return duties.create_task(polling)


async def _wait_for_stop(office: CommandContext, stop: asyncio.Event) -> None:
    """Returns at a stop, or when the provider is drained and everything has been reported."""

    async def drained() -> None:
        await office.ending.asked()
        await office.bench.settled()

    ends = {asyncio.create_task(stop.wait()), asyncio.create_task(drained())}
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for end in ends:
            end.cancel()


class _DutiesDone(Exception):
    """Ends the duties: a task group cancels its tasks only when one of them raises."""


def _check(group: ExceptionGroup[Exception], data_directory: Path) -> None:
    """Raises the error of a duty. Without a working disk a provider must not continue."""
    _, failures = group.split(_DutiesDone)
    if failures is None:
        return
    error = failures.exceptions[0]
    if isinstance(error, OSError):
        raise BadSettings(
            f"The data directory {data_directory} cannot be written: {error.strerror or error}.",
            "Free some space or fix its permissions, then start again: nothing is lost.",
        ) from error
    raise error


async def _settle(office: CommandContext) -> None:
    """Ends the runs, and waits a moment for the outcomes and receipts to reach the server."""
    bench = office.bench
    bench.tell([ShutdownRequested()])
    with suppress(TimeoutError):
        async with asyncio.timeout(office.settings.stop_grace_seconds):
            await bench.settled()
            await bench.receipts.deliver()


async def _leave(office: CommandContext, wish: int) -> None:
    """Leaves the pool, unless the server lacks an outcome: leaving gives up all held attempts."""
    ending, failure = office.ending, None
    if unsent := office.bench.held():
        log.warning("outcomes are kept for the next start", attempts=len(unsent))
        failure = Unavailable("The server lacks outcomes of this node; they are saved.", _AGAIN)
    else:
        try:
            await office.link.leave(wish=wish, is_for_good=ending.is_for_good)
        except PotluckError as error:
            log.warning("leaving failed", detail=error.detail)
            failure = Unavailable(error.detail, _AGAIN)
    if ending.is_for_good and failure is None:
        forget(office.settings.data_directory, office.settings.url)
    ending.end(failure)


_AGAIN = "The provider stopped and kept its key. When the server answers: potluck provider leave"
