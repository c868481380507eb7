"""The provider from start to goodbye; the one place where its parts are put together.

Start: lock the data directory, read the owner's file, end what an earlier life left behind, find
out what the sandbox enforces and which devices there are, register, take up the journal. Then the
duties run until somebody wants it to stop: no more work is taken, runs are ended and given back,
and outcomes are sent. A server that has them all is told goodbye; otherwise the journal keeps them
for the next start. All of that takes seconds, and kill -9 at any moment loses nothing. Drained, it
ends when what runs has ended; leaving for good, it also gives up its key and all that it kept.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import structlog
from msgspec import Struct

from potluck.model.error import BadSettings, PotluckError, Unavailable
from potluck.model.ids import AccountId, NodeId
from potluck.provider.announcement import (
    Announce,
    Draining,
    OptionsOverridden,
    RegistrationDone,
    Stopped,
    TermsWrong,
)
from potluck.provider.attempt.runner import Runner
from potluck.provider.change_counter import ChangeCounter
from potluck.provider.control.handler import Desk, Office
from potluck.provider.control.listener import listening
from potluck.provider.data_directory import (
    attempts_directory,
    hold,
    load_node_id,
    save_node_id,
    tidy,
)
from potluck.provider.detect.devices import detect_devices
from potluck.provider.detect.report import Detection
from potluck.provider.detect.sampler import Sampler
from potluck.provider.devices.contest_watch import DeviceWatch
from potluck.provider.devices.offer import NodeOffer, measure_devices, offer_forever
from potluck.provider.effects import Workbench
from potluck.provider.event import ShutdownAsked
from potluck.provider.execution import Workshop, open_workshop, sandbox_named
from potluck.provider.owner.file import terms_file
from potluck.provider.owner.live_rules import OwnerRules
from potluck.provider.owner.observations import Observations
from potluck.provider.owner.owner_duties import AvailabilityDuty, Doings
from potluck.provider.owner.power import PowerCaps
from potluck.provider.owner.remote_requests import RemoteRequests
from potluck.provider.sandbox.sandbox_switch import Refit, refit_of, suit_sandbox
from potluck.provider.server.heartbeat import (
    Pulse,
    Tidings,
    beat_forever,
    watch_silence,
)
from potluck.provider.server.lease_poll import Rhythm, acquire_forever
from potluck.provider.server.leave import forget
from potluck.provider.server.node_key import load_key
from potluck.provider.server.server_client import Link, open_link
from potluck.provider.server.throttle import Throttle
from potluck.provider.settings import ProviderSettings
from potluck.provider.shutdown_request import ShutdownRequest
from potluck.wire.provider import HeartbeatAnswer, NodeRegistered

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

    _on_signals(asked)
    await provide(settings, announce, stop)


def _on_signals(asked: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, asked)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(asked))


async def provide(settings: ProviderSettings, announce: Announce, stop: asyncio.Event) -> None:
    """Provides until `stop` is set, or until what runs has ended, if the owner asks for that."""
    with hold(settings.data_directory):
        tidy(settings.data_directory)
        rules = OwnerRules(terms_file(settings.data_directory), settings)
        throttle = Throttle(rules.limits.bandwidth_bytes_per_second)
        open_named = partial(open_workshop, settings, throttle, lambda: rules.limits.pulls_images)
        workshop, detection = await asyncio.gather(
            open_named(sandbox_named(settings, rules.limits.sandbox)),
            detect_devices(settings.data_directory, settings.detect_seconds),
        )
        await workshop.reap()
        rules.know(detection.devices)
        await _serve(
            _LocalFacts(settings, announce, rules, throttle, workshop, detection, open_named), stop
        )
    announce(Stopped())


class _LocalFacts(Struct, frozen=True):
    """What is known before the server is asked."""

    settings: ProviderSettings
    announce: Announce
    rules: OwnerRules
    throttle: Throttle
    workshop: Workshop
    detection: Detection
    open_named: Callable[[str], Awaitable[Workshop]]


async def _serve(found: _LocalFacts, stop: asyncio.Event) -> None:
    settings = found.settings
    workshop = found.workshop
    offer = NodeOffer(
        settings, found.detection.devices, workshop.report, found.rules, workshop.containers
    )

    def keep(node_id: NodeId) -> None:
        save_node_id(settings.data_directory, settings.url, node_id)

    key = load_key(settings.data_directory)
    async with open_link(settings, key, offer.registration, found.announce, keep) as link:
        parts = _assemble(found, offer, link, await link.sign_in())
        answer = await link.register()
        async with (
            _sampling(parts),
            listening(settings.data_directory, Desk(parts.office).handle),
        ):
            found.announce(_registered(settings, offer, answer.node_id))
            _introduce(found, parts, answer)
            await _work(parts, answer, stop)
            # The duties have ended: one that still called could bring the node back to life.
            await _leave(parts.office, parts.wishes.number())


class _ProviderParts(Struct, frozen=True):
    """Everything that works together while the provider runs."""

    office: Office
    devices: DeviceWatch
    seen: Observations
    wishes: RemoteRequests
    sampler: Sampler
    refit: Refit
    announce: Announce
    detection: Detection


def _assemble(
    found: _LocalFacts, offer: NodeOffer, link: Link, account_id: AccountId
) -> _ProviderParts:
    settings, rules, announce = found.settings, found.rules, found.announce
    news, ending, sampler = ChangeCounter(), ShutdownRequest(), Sampler(found.detection.found)

    def runner_of(workshop: Workshop) -> Runner:
        return workshop.runner(settings, found.detection, rules.may_run, account_id, sampler.spent)

    bench = Workbench(
        attempts_directory(settings.data_directory, settings.url),
        link,
        runner_of(found.workshop),
        announce,
        settings,
        found.throttle,
    )
    bench.reports.let_pass(news.until_known)
    devices = DeviceWatch(link, found.detection.found, announce)
    seen = Observations(found.detection.devices, sampler)
    doings = Doings(
        bench.busy, bench.used, bench.tell, announce, news, offer.told, found.throttle.limit
    )
    watch = AvailabilityDuty(found.detection.devices, rules, seen, doings)

    def drain(is_for_good: bool) -> None:
        announce(Draining(len(bench.held()), is_for_good))
        watch.drain()
        ending.ask(is_for_good)

    power = PowerCaps(sampler, announce, found.detection.found, settings.data_directory)
    office = Office(
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
        seen,
        wishes,
        sampler,
        refit_of(office, announce, found.open_named, runner_of),
        announce,
        found.detection,
    )


def _introduce(found: _LocalFacts, parts: _ProviderParts, answer: NodeRegistered) -> None:
    """What the owner should know of the devices and of the file from the start."""
    parts.devices.note(answer.unbound)
    detail, hint = found.rules.trouble()
    if detail:
        found.announce(TermsWrong(detail, hint))
    if options := found.rules.overridden():
        found.announce(OptionsOverridden(tuple(options), str(found.rules.path)))
    parts.office.watch.introduce()


@asynccontextmanager
async def _sampling(parts: _ProviderParts) -> AsyncIterator[None]:
    """At the end the devices are as they were, and nothing of ours looks at them any more."""
    try:
        yield
    finally:
        await parts.office.power.release()
        await parts.sampler.close()


def _registered(settings: ProviderSettings, offer: NodeOffer, node_id: NodeId) -> RegistrationDone:
    described = offer.describe()
    return RegistrationDone(
        node_id,
        settings.url,
        described.name,
        described.devices,
        described.sandbox,
        offer.own_tasks_only,
        described.containers,
    )


async def _work(parts: _ProviderParts, answer: NodeRegistered, stop: asyncio.Event) -> None:
    """The duties, side by side; a mistake in one of them ends the provider, and says so."""
    office = parts.office
    try:
        async with asyncio.TaskGroup() as duties:
            office.bench.begin(duties)
            office.watch.judge()
            polling = _begin_duties(parts, answer, duties)
            await _until_the_end(office, stop)
            polling.cancel()
            await _settle(office.settings, office.bench)
            raise _DutiesDone
    except ExceptionGroup as group:
        _check(group, office.settings.data_directory)
    finally:
        await office.bench.close()


def _begin_duties(
    parts: _ProviderParts, answer: NodeRegistered, duties: asyncio.TaskGroup
) -> asyncio.Task[None]:
    """All that runs until the end; the poll for work is handed back, as it ends first."""
    office, settings = parts.office, parts.office.settings
    bench, link, watch, news = office.bench, office.link, office.watch, office.news
    tidings = Tidings(bench.held, watch.statuses, parts.wishes.number, news)

    def hear(heard: HeartbeatAnswer) -> None:
        parts.devices.hear(heard)
        parts.wishes.hear(heard.wishes)

    def registered(again: NodeRegistered) -> None:
        parts.devices.note(again.unbound)

    beat_seconds = min(settings.heartbeat_seconds, answer.heartbeat_seconds)
    poll_seconds = min(settings.poll_seconds, answer.poll_seconds)
    for duty in (
        beat_forever(link, tidings, bench.tell, hear, beat_seconds, office.pulse),
        watch_silence(office.pulse, bench.shortest_silence_seconds, bench.tell),
        offer_forever(link, office.offer, registered, parts.announce),
        watch.run(settings.terms_seconds),
        watch.run_looks(parts.office.power, settings.sample_seconds),
        suit_sandbox(parts.refit, settings.terms_seconds),
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
    return duties.create_task(acquire_forever(link, bench.held, bench.tell, news, rhythm))


async def _until_the_end(office: Office, stop: asyncio.Event) -> None:
    """Somebody stops us, or wants us to end after what runs and all of it has been reported."""

    async def drained() -> None:
        await office.ending.asked()
        await office.bench.settled()

    ends = {asyncio.create_task(stop.wait()), asyncio.create_task(drained())}
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in ends:
            each.cancel()


class _DutiesDone(Exception):
    """Ends the duties; a task group ends its tasks only when one of them raises."""


def _check(group: ExceptionGroup[Exception], data_directory: Path) -> None:
    """Only `_Done` is a good end. Without its disk a provider can not keep its promises."""
    _, failures = group.split(_DutiesDone)
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


async def _leave(office: Office, wish: int) -> None:
    """Says goodbye, unless the server lacks an outcome: whoever leaves gives all it holds back."""
    ending, failure = office.ending, None
    if held := office.bench.held():
        log.warning("outcomes are kept for the next start", attempts=len(held))
        failure = Unavailable("The server lacks outcomes of this node; they are kept.", _AGAIN)
    else:
        try:
            await office.link.leave(wish=wish, is_for_good=ending.is_for_good)
        except PotluckError as error:
            log.warning("no goodbye", detail=error.detail)
            failure = Unavailable(error.detail, _AGAIN)
    if ending.is_for_good and failure is None:
        forget(office.settings.data_directory, office.settings.url)
    ending.end(failure)


_AGAIN = "The provider has ended and kept its key. When the server answers: potluck provider leave"
