"""Samples all devices of this machine.

A vendor's library is queried in a child process that lives as long as the sampler, and only if one
of its devices is here. A process that hangs is ended and restarted for the next sample; its devices
count as lost after several failures in a row.
"""

import asyncio
import time
from collections.abc import Mapping

from msgspec.structs import replace

from potluck.model.device import DeviceKind, Health
from potluck.provider.attempt.usage_meter import DeviceSpent, DeviceUsage
from potluck.provider.detect import cpu
from potluck.provider.detect.query_process import Child, Unanswered
from potluck.provider.detect.question import DeviceSamples, PowerSet, SampleQuestion, SetPower
from potluck.provider.detect.routes import child_of
from potluck.provider.detect.types import FoundDevice, Sample

_WITH_CHILD = {"nvidia", "amd", "intel"}
# A library that is slow because its card is busy must not end the tasks there.
_PATIENCE = 3


class Sampler:
    def __init__(self, devices: Mapping[str, FoundDevice], timeout_seconds: float = 10.0) -> None:
        self._found = devices
        self._timeout_seconds = timeout_seconds
        routes = {device.route for device in devices.values()} & _WITH_CHILD
        self._children: dict[str, Child] = {route: child_of(route) for route in routes}
        self._unanswered = dict.fromkeys(routes, 0)
        # Memory errors at the first sample, which are not counted.
        self._first_errors: dict[str, int] = {}
        self._last: dict[str, Sample] = {}
        # Not for the processor: its time is accounted for each task.
        cards = (uuid for uuid, device in devices.items() if device.kind is not DeviceKind.CPU)
        self._tallies = {uuid: DeviceUsage() for uuid in cards}

    async def sample(self) -> Mapping[str, Sample]:
        """By uuid; a device without data has an empty sample."""
        looks = await asyncio.gather(*(self._look(route) for route in self._children))
        by_route = dict(zip(self._children, looks, strict=True))
        self._last = {
            uuid: self._judged(uuid, self._sample(uuid, device, by_route.get(device.route)))
            for uuid, device in self._found.items()
        }
        now = time.monotonic()
        for uuid, tally in self._tallies.items():
            tally.note(self._last[uuid], now)
        return self._last

    def spent(self, uuid: str) -> DeviceSpent:
        """The running totals of a card; zero for the processor."""
        tally = self._tallies.get(uuid)
        return DeviceSpent() if tally is None else tally.read(time.monotonic())

    async def set_power(self, uuid: str, watts: int | None) -> str | None:
        """None on success, else a sentence. None for watts: the vendor's default."""
        device = self._found[uuid]
        child = self._children.get(device.route)
        if child is None:
            return f"{device.model} does not support a power limit." if watts else None
        try:
            answer = await child.ask(SetPower(uuid, watts), PowerSet, self._timeout_seconds)
        except Unanswered as error:
            return f"The power limit of {device.model} could not be set. {error.detail}"
        return answer.refusal

    async def close(self) -> None:
        """Ends the child processes."""
        await asyncio.gather(*(child.close() for child in self._children.values()))

    async def _look(self, route: str) -> DeviceSamples | None:
        try:
            looks = await self._children[route].ask(
                SampleQuestion(), DeviceSamples, self._timeout_seconds
            )
        except Unanswered as error:
            self._unanswered[route] += 1
            has_patience = self._unanswered[route] < _PATIENCE
            return (
                None
                if has_patience
                else DeviceSamples({}, f"Its driver does not answer. {error.detail}")
            )
        self._unanswered[route] = 0
        return looks

    def _sample(self, uuid: str, device: FoundDevice, looks: DeviceSamples | None) -> Sample:
        if device.kind is DeviceKind.CPU:
            return cpu.sample()
        if looks is None:
            # No data now: the health stays as it was.
            last = self._last.get(uuid, Sample())
            return Sample(last.health, last.detail)
        lost = Sample(Health.LOST, f"{device.model} is no longer there. {looks.detail}".strip())
        return looks.samples.get(uuid, lost)

    def _judged(self, uuid: str, sample: Sample) -> Sample:
        """Counts memory errors since the first sample; a reset of the card clears them."""
        if sample.memory_errors is None:
            return sample
        first = min(self._first_errors.get(uuid, sample.memory_errors), sample.memory_errors)
        self._first_errors[uuid] = first
        if sample.memory_errors == first or sample.health is Health.LOST:
            return sample
        more = sample.memory_errors - first
        detail = f"Its memory has {more} new uncorrectable errors."
        return replace(sample, health=Health.MEMORY_ERRORS, detail=detail)
