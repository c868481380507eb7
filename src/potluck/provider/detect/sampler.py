"""How the devices of this machine do, one look at all of them at a time.

A vendor's library is asked in a process that lives as long as the sampler, and only where one of
its devices is here. One that hangs is ended and asked anew the next time; only when it has not
answered several times in a row are its devices taken for lost.
"""

import asyncio
import time
from collections.abc import Mapping

from msgspec.structs import replace

from potluck.model.device import DeviceKind, Health
from potluck.provider.attempt.usage_meter import DeviceSpent, DeviceUsage
from potluck.provider.detect import cpu
from potluck.provider.detect.query_process import Child, Unanswered
from potluck.provider.detect.question import (
    Looks,
    PowerSet,
    SampleQuestion,
    SetPower,
)
from potluck.provider.detect.routes import child_of
from potluck.provider.detect.types import FoundDevice, Sample

_WITH_CHILD = {"nvidia", "amd", "intel"}
# A library that is merely slow, because its card is busy, is no reason to end what runs there.
_PATIENCE = 3


class Sampler:
    """Looks at devices, and sets what can be set on them."""

    def __init__(self, found: Mapping[str, FoundDevice], timeout_seconds: float = 10.0) -> None:
        self._found = found
        self._timeout_seconds = timeout_seconds
        routes = {device.route for device in found.values()} & _WITH_CHILD
        self._children: dict[str, Child] = {route: child_of(route) for route in routes}
        self._unanswered = dict.fromkeys(routes, 0)
        # How many errors each had met when it was first looked at, which is nobody's fault here.
        self._first_errors: dict[str, int] = {}
        self._last: dict[str, Sample] = {}
        # What a processor does for a task is known to the second, whoever else keeps it busy.
        cards = (uuid for uuid, device in found.items() if device.kind is not DeviceKind.CPU)
        self._tallies = {uuid: DeviceUsage() for uuid in cards}

    async def sample(self) -> Mapping[str, Sample]:
        """By uuid; of a device about which nothing can be told it says nothing but that."""
        looks = await asyncio.gather(*(self._look(route) for route in self._children))
        by_route = dict(zip(self._children, looks, strict=True))
        self._last = {
            uuid: self._judged(uuid, self._told(uuid, device, by_route.get(device.route)))
            for uuid, device in self._found.items()
        }
        now = time.monotonic()
        for uuid, tally in self._tallies.items():
            tally.note(self._last[uuid], now)
        return self._last

    def spent(self, uuid: str) -> DeviceSpent:
        """What a card has computed and taken up to now."""
        tally = self._tallies.get(uuid)
        return DeviceSpent() if tally is None else tally.read(time.monotonic())

    async def set_power(self, uuid: str, watts: int | None) -> str | None:
        """None when it is so, else the sentence why not. No watts: as its vendor set it."""
        device = self._found[uuid]
        child = self._children.get(device.route)
        if child is None:
            return f"{device.model} can not be told how much power to draw." if watts else None
        try:
            answer = await child.ask(SetPower(uuid, watts), PowerSet, self._timeout_seconds)
        except Unanswered as error:
            return f"{device.model} could not be told how much power to draw. {error.detail}"
        return answer.refusal

    async def close(self) -> None:
        """Ends what it started."""
        await asyncio.gather(*(child.close() for child in self._children.values()))

    async def _look(self, route: str) -> Looks | None:
        try:
            looks = await self._children[route].ask(SampleQuestion(), Looks, self._timeout_seconds)
        except Unanswered as error:
            self._unanswered[route] += 1
            has_patience = self._unanswered[route] < _PATIENCE
            return (
                None if has_patience else Looks({}, f"Its driver does not answer. {error.detail}")
            )
        self._unanswered[route] = 0
        return looks

    def _told(self, uuid: str, device: FoundDevice, looks: Looks | None) -> Sample:
        if device.kind is DeviceKind.CPU:
            return cpu.sample()
        if looks is None:
            # Nothing is known of now; whether it is well is not decided by that.
            last = self._last.get(uuid, Sample())
            return Sample(last.health, last.detail)
        lost = Sample(Health.LOST, f"{device.model} is not there any more. {looks.detail}".strip())
        return looks.samples.get(uuid, lost)

    def _judged(self, uuid: str, sample: Sample) -> Sample:
        """Errors in its memory since it was first looked at; a reset of the card forgives them."""
        if sample.memory_errors is None:
            return sample
        first = min(self._first_errors.get(uuid, sample.memory_errors), sample.memory_errors)
        self._first_errors[uuid] = first
        if sample.memory_errors == first or sample.health is Health.LOST:
            return sample
        more = sample.memory_errors - first
        detail = f"Its memory has met {more} errors that could not be corrected."
        return replace(sample, health=Health.MEMORY_ERRORS, detail=detail)
