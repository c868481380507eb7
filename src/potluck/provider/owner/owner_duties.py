"""The duties that keep the owner's word: what may run now, and what has to go.

One looks at the clock, the owner's file and what was seen last, every second or so, and at once
when somebody says that something has changed. The other asks the devices and the owner's seat how
they do; a driver that takes its time holds nothing else up. What comes of it goes to the state
machine (what takes nothing new, what is wanted back) and into the next heartbeat, early if it
matters.
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
from potluck.provider.event import (
    DevicesClosed,
    DevicesWanted,
    Event,
    GrantRefusal,
)
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


class Doings(Struct, frozen=True):
    """What the watch asks of the rest of the provider, and whom it tells."""

    busy: Callable[[], Set[str]]  # the devices that something of ours is on
    used: Callable[[], Set[str]]  # or was, since this was last asked
    tell: Callable[[list[Event]], bool]
    announce: Announce
    beats: ChangeCounter  # what heartbeats say
    offer: ChangeCounter  # what registrations say
    limit_bandwidth: Callable[[int | None], None]


class AvailabilityDuty:
    """Whether each device takes work, from moment to moment."""

    def __init__(
        self,
        devices: Iterable[DeviceDescription],
        rules: OwnerRules,
        seen: Observations,
        doings: Doings,
    ) -> None:
        self._models = {device.uuid: device.model for device in devices}
        self._rules = rules
        self._seen = seen
        self._doings = doings
        self._closed: dict[str, GrantRefusal] = {}
        self.is_draining = False
        self._refit = ""
        self._verdicts = self._judged()

    def introduce(self) -> None:
        """Says at the start which devices take no work."""
        for uuid, verdict in self._verdicts.items():
            if verdict.availability is not Availability.AVAILABLE:
                self._announce(uuid, verdict)

    def is_free(self, uuid: str) -> bool:
        """Whether it takes work, and has none."""
        is_available = self._verdicts[uuid].availability is Availability.AVAILABLE
        return is_available and uuid not in self._doings.busy()

    def statuses(self) -> tuple[DeviceStatus, ...]:
        return tuple(self._status(uuid) for uuid in self._models)

    def drain(self) -> None:
        """From now on nothing new is taken."""
        self.is_draining = True
        self.judge()

    def refit(self, why: str) -> None:
        """Nothing new is taken while the sandbox is not as its owner wants it; "": it is."""
        if why != self._refit:
            self._refit = why
            self.judge()

    def reclaim(self, uuids: tuple[str, ...]) -> None:
        """Their owner needs them now: paused, also where the file does not take it, and freed."""
        try:
            self.change(TermsChange(devices=uuids, is_paused=True))
        finally:
            self.want_back(uuids)  # also on a disk that is full

    def want_back(self, uuids: Iterable[str]) -> None:
        """What runs on these devices ends, after their grace; on all, if none is named."""
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
        """What the owner wants from elsewhere, from this moment on; OSError if a crash would lose
        it.
        """
        try:
            self._rules.change(change)
        finally:
            self._take_over()
            self.judge()

    def reread(self) -> None:
        """The file was changed just now: what is said from here on is said by it."""
        if self._rules.reread():
            self._take_over()
        self.judge()

    def _take_over(self) -> None:
        detail, hint = self._rules.trouble()
        self._doings.announce(TermsWrong(detail, hint) if detail else TermsRead())
        self._doings.limit_bandwidth(self._rules.limits.bandwidth_bytes_per_second)
        self._doings.offer.change()

    def judge(self) -> None:
        """Holds the terms against the moment, and says what has changed."""
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
        closed = {uuid: each for uuid, each in refusals.items() if each is not None}
        if closed != self._closed:
            self._closed = closed
            self._doings.tell([DevicesClosed(closed)])

    def _call_back(self) -> None:
        """Said as long as something is on them; what has been called back is not called twice."""
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
