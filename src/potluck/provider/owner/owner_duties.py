"""The duties that enforce the owner's terms: which devices take work, and which tasks must end.

One checks the clock, the owner's file and the last sample every second or so, and immediately after
a reported change. The other samples the devices and the owner's presence; a slow driver delays
nothing else. Results go to the state machine (closed devices, recalls) and into the next heartbeat,
which is sent early if they changed.
"""

import asyncio
from collections.abc import Callable, Iterable, Set
from datetime import datetime

from msgspec import Struct

from potluck.model.device import Availability, DeviceDescription, Health
from potluck.model.task import EndReason
from potluck.model.terms import TermsChange
from potluck.provider.announcement import Announce, AvailabilityChanged, TermsRead, TermsWrong
from potluck.provider.change_counter import ChangeCounter
from potluck.provider.event import DevicesClosed, DevicesWanted, Event, GrantRefusal
from potluck.provider.owner.availability import (
    AvailabilityVerdict,
    Moment,
    availability,
    is_wanted_back,
    refusal,
)
from potluck.provider.owner.live_rules import OwnerRules
from potluck.provider.owner.observations import Observations
from potluck.provider.owner.power import PowerCaps
from potluck.wire.device_status import DeviceStatus


class ProviderHooks(Struct, frozen=True):
    """What the duty calls in the rest of the provider."""

    busy: Callable[[], Set[str]]  # devices that this node's tasks are on
    used: Callable[[], Set[str]]  # or were on, since the last call
    tell: Callable[[list[Event]], bool]
    announce: Announce
    beats: ChangeCounter  # of the content of heartbeats
    offer: ChangeCounter  # of the content of registrations
    limit_bandwidth: Callable[[int | None], None]


class AvailabilityDuty:
    """Decides continuously whether each device takes work."""

    def __init__(
        self,
        devices: Iterable[DeviceDescription],
        rules: OwnerRules,
        observations: Observations,
        doings: ProviderHooks,
    ) -> None:
        self._models = {device.uuid: device.model for device in devices}
        self._rules = rules
        self._seen = observations
        self._doings = doings
        self._closed: dict[str, GrantRefusal] = {}
        self.is_draining = False
        self._refit = ""
        self._verdicts = self._judged()

    def introduce(self) -> None:
        """Announces at the start which devices take no work."""
        for uuid, verdict in self._verdicts.items():
            if verdict.availability is not Availability.AVAILABLE:
                self._announce(uuid, verdict)

    def is_free(self, uuid: str) -> bool:
        """Whether it takes work and has none."""
        is_available = self._verdicts[uuid].availability is Availability.AVAILABLE
        return is_available and uuid not in self._doings.busy()

    def statuses(self) -> tuple[DeviceStatus, ...]:
        return tuple(self._status(uuid) for uuid in self._models)

    def drain(self) -> None:
        """Takes no new work from now on."""
        self.is_draining = True
        self.judge()

    def refit(self, why: str) -> None:
        """Takes no new work while the sandbox is not the one the owner wants; "": it is."""
        if why != self._refit:
            self._refit = why
            self.judge()

    def reclaim(self, uuids: tuple[str, ...]) -> None:
        """Pauses the devices, even if the file cannot be written, and recalls their tasks."""
        try:
            self.change(TermsChange(devices=uuids, is_paused=True))
        finally:
            self.want_back(uuids)  # also on a disk that is full

    def want_back(self, uuids: Iterable[str]) -> None:
        """Recalls the tasks on these devices, with the devices' grace; on all if none is named."""
        named = set(uuids) or set(self._models)
        grace = {
            uuid: terms.grace_seconds for uuid, terms in self._rules.terms.items() if uuid in named
        }
        self._doings.tell([DevicesWanted(grace, EndReason.RECLAIMED)])

    async def run(self, interval_seconds: float) -> None:
        while True:
            if self._rules.reread_if_changed():
                self._take_over()
            self.judge()
            await asyncio.sleep(interval_seconds)

    async def run_looks(self, power: PowerCaps, interval_seconds: float) -> None:
        while True:
            await self._seen.look(self._rules.terms, self._doings.used)
            self.judge()
            await power.apply(self._rules.terms)
            await asyncio.sleep(interval_seconds)

    def change(self, change: TermsChange) -> None:
        """Applies an owner's change immediately; OSError if a crash would lose it."""
        try:
            self._rules.change(change)
        finally:
            self._take_over()
            self.judge()

    def reread(self) -> None:
        """Applies a file that was just changed."""
        if self._rules.reread():
            self._take_over()
        self.judge()

    def _take_over(self) -> None:
        detail, hint = self._rules.trouble()
        self._doings.announce(TermsWrong(detail, hint) if detail else TermsRead())
        self._doings.limit_bandwidth(self._rules.limits.bandwidth_bytes_per_second)
        self._doings.offer.change()

    def judge(self) -> None:
        """Evaluates the terms now, and announces what changed."""
        before, self._verdicts = self._verdicts, self._judged()
        if self._verdicts != before:
            self._doings.beats.change()
            for uuid, verdict in self._verdicts.items():
                if verdict != before[uuid]:
                    self._announce(uuid, verdict)
        self._close()
        self._call_back()

    def _judged(self) -> dict[str, AvailabilityVerdict]:
        return {
            uuid: availability(terms, self._moment(uuid))
            for uuid, terms in self._rules.terms.items()
        }

    def _announce(self, uuid: str, verdict: AvailabilityVerdict) -> None:
        model = self._models[uuid]
        self._doings.announce(AvailabilityChanged(uuid, model, verdict.availability, verdict.why))

    def _close(self) -> None:
        refusals = {
            uuid: refusal(self._rules.terms[uuid], verdict)
            for uuid, verdict in self._verdicts.items()
        }
        closed = {uuid: reason for uuid, reason in refusals.items() if reason is not None}
        if closed != self._closed:
            self._closed = closed
            self._doings.tell([DevicesClosed(closed)])

    def _call_back(self) -> None:
        """Repeated while the devices are busy; the state machine recalls an attempt only once."""
        lost: dict[str, float] = {}
        wanted: dict[str, float] = {}
        for uuid in self._doings.busy() & self._models.keys():
            terms = self._rules.terms[uuid]
            if self._seen.sample(uuid).health is Health.LOST:
                lost[uuid] = 0.0
            elif is_wanted_back(terms, self._moment(uuid)):
                wanted[uuid] = terms.grace_seconds
        if lost:
            self._doings.tell([DevicesWanted(lost, EndReason.DEVICE_LOST)])
        if wanted:
            self._doings.tell([DevicesWanted(wanted, EndReason.RECLAIMED, is_by_terms=True)])

    def _moment(self, uuid: str) -> Moment:
        sample = self._seen.sample(uuid)
        return Moment(
            local=datetime.now().astimezone(),
            health=sample.health,
            health_detail=sample.detail,
            unusable=self._seen.unusable.why(uuid),
            unused_seconds=self._seen.unused_seconds(uuid),
            is_use_known=self._seen.is_use_known,
            is_draining=self.is_draining,
            refit=self._refit,
            has_terms=self._rules.has_terms,
        )

    def _status(self, uuid: str) -> DeviceStatus:
        sample, verdict = self._seen.sample(uuid), self._verdicts[uuid]
        return DeviceStatus(
            uuid=uuid,
            availability=verdict.availability,
            why=verdict.why,
            health=sample.health,
            utilisation_percent=sample.utilisation_percent,
            temperature_celsius=sample.temperature_celsius,
            memory_used_bytes=sample.memory_used_bytes,
            power_watts=sample.power_watts,
            memory_errors=sample.memory_errors,
            others=self._seen.others(uuid),
        )
