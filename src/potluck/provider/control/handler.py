"""Carries out the owner's commands in the running provider."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress

import structlog
from msgspec import Struct

import potluck
from potluck.model.device import Standing
from potluck.provider.change_counter import ChangeCounter
from potluck.provider.control.message import (
    Answer,
    CommandRefused,
    DeviceNow,
    Drain,
    InEffect,
    Leave,
    ProviderStatus,
    Reclaim,
    Request,
    Reread,
    ShowStatus,
)
from potluck.provider.devices.offer import NodeOffer
from potluck.provider.effects import AttemptEffects
from potluck.provider.owner.live_rules import OwnerRules
from potluck.provider.owner.owner_duties import AvailabilityDuty
from potluck.provider.owner.power import PowerCaps
from potluck.provider.server.heartbeat import Pulse
from potluck.provider.server.server_client import NodeServerClient
from potluck.provider.settings import ProviderSettings
from potluck.provider.shutdown_request import ShutdownRequest

log = structlog.get_logger()

# How long a command waits for the server, and how often it gets a status meanwhile.
_KNOWN_SECONDS = 3.0
_PROGRESS_SECONDS = 1.0


class CommandContext(Struct, frozen=True):
    """The parts of the provider that commands use."""

    settings: ProviderSettings
    rules: OwnerRules
    offer: NodeOffer
    link: NodeServerClient
    bench: AttemptEffects
    watch: AvailabilityDuty
    power: PowerCaps
    pulse: Pulse
    news: ChangeCounter
    ending: ShutdownRequest
    standings: Callable[[], Mapping[str, Standing]]  # of devices that get no work
    drain: Callable[[bool], None]  # the argument: whether the node leaves for good


class CommandHandler:
    """Handles requests, any number at a time."""

    def __init__(self, office: CommandContext) -> None:
        self._office = office
        self._began_at = time.monotonic()

    async def handle(self, request: Request) -> AsyncGenerator[Answer]:
        office = self._office
        match request:
            case ShowStatus():
                yield self.status()
            case Reread():
                office.watch.reread()
                yield await self._reread()
            case Reclaim(devices):
                try:
                    office.watch.reclaim(devices)
                except OSError as error:  # it is in effect until the provider stops
                    log.warning("a pause cannot be saved", detail=str(error))
                async for answer in self._until(
                    lambda: self._is_free(devices), office.bench.changed
                ):
                    yield answer
                yield InEffect(await self._is_known())
            case Drain() | Leave():
                office.drain(isinstance(request, Leave))
                if isinstance(request, Leave) and request.is_now:
                    office.watch.want_back(())
                async for answer in self._until(lambda: office.ending.is_over, office.ending.over):
                    yield answer
                yield self._farewell()

    def status(self) -> ProviderStatus:
        office = self._office
        description = office.offer.describe()
        standings = office.standings()
        statuses = {status.uuid: status for status in office.watch.statuses()}
        return ProviderStatus(
            node_id=office.link.node_id,
            name=description.name,
            url=office.settings.url,
            pid=os.getpid(),
            version=potluck.__version__,
            server_version=office.link.server_version,
            up_seconds=time.monotonic() - self._began_at,
            silent_seconds=office.pulse.seconds_since_answer(),
            problem=self._problem(),
            is_draining=office.watch.is_draining,
            terms_file=str(office.rules.path),
            sandbox=description.sandbox,
            devices=tuple(
                DeviceNow(
                    device,
                    statuses[device.uuid],
                    standings.get(device.uuid, Standing.BOUND),
                    office.power.refusals.get(device.uuid, ""),
                )
                for device in description.devices
            ),
            attempts=office.bench.now(),
            warm=office.bench.warm(),
            limits=office.rules.limits,
            network_used_bytes=office.rules.network_used_bytes(),
            disk_bytes=description.disk_bytes,
            pythons_problem=office.offer.pythons.problem(),
        )

    def _problem(self) -> str:
        """Local problems first, then a rejection by the server, then the connection."""
        detail, _ = self._office.rules.trouble()
        offer = self._office.offer
        errors = (offer.misfit, offer.refusal, self._office.link.problem)
        return detail or next((error.detail for error in errors if error), "")

    async def _reread(self) -> Answer:
        office = self._office
        if office.rules.problem is not None:
            return CommandRefused(office.rules.problem.detail, office.rules.problem.hint)
        if not await self._is_known():
            return InEffect(is_known_to_server=False)
        refusal = office.offer.refusal
        return InEffect() if refusal is None else CommandRefused(refusal.detail, refusal.hint)

    async def _is_known(self) -> bool:
        """Whether the server learns of all changes within a few seconds."""
        try:
            async with asyncio.timeout(_KNOWN_SECONDS):
                await self._office.offer.change_counter.until_known()
                await self._office.news.until_known()
        except TimeoutError:
            return False
        return True

    def _is_free(self, devices: tuple[str, ...]) -> bool:
        busy = self._office.bench.busy()
        return not (busy & set(devices) if devices else busy)

    async def _until(
        self, is_done: Callable[[], bool], changed: Callable[[], Awaitable[None]]
    ) -> AsyncGenerator[Answer]:
        """Yields the status regularly until it is done."""
        while not is_done():
            yield self.status()
            with suppress(TimeoutError):
                async with asyncio.timeout(_PROGRESS_SECONDS):
                    while not is_done():
                        await changed()

    def _farewell(self) -> Answer:
        failure = self._office.ending.failure
        return InEffect() if failure is None else CommandRefused(failure.detail, failure.hint)
