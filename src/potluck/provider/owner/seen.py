"""The latest look at the devices, and at the seat of their owner."""

import time
from collections.abc import Iterable, Mapping, Set

import psutil

from potluck.model.device import DeviceDescription
from potluck.model.terms import DeviceTerms
from potluck.provider.detect.sample import Sample
from potluck.provider.detect.sampler import Sampler
from potluck.provider.owner.presence import Presence, look
from potluck.provider.owner.use import Beside, strangers_in


class Seen:
    """What was seen last; nothing where nobody has looked yet, or nothing can be told."""

    def __init__(self, devices: Iterable[DeviceDescription], sampler: Sampler) -> None:
        self._sampler = sampler
        self._samples: Mapping[str, Sample] = {}
        self._beside = {device.uuid: Beside(device.kind) for device in devices}
        self._others: dict[str, int | None] = {}
        self._presence = Presence(None)
        self._looked_at = time.monotonic()

    async def look(self, terms: Mapping[str, DeviceTerms], busy: Set[str]) -> None:
        """Asks only what somebody's terms depend on, and what the driver tells anyway."""
        if any(each.idle_minutes for each in terms.values()):
            self._presence = await look()
        self._samples = await self._sampler.sample()
        self._looked_at = now = time.monotonic()
        ours = own_processes() if any(one.pids for one in self._samples.values()) else set[int]()
        for uuid, sample in self._samples.items():
            strangers = strangers_in(sample, ours)
            self._others[uuid] = None if strangers is None else len(strangers)
            self._beside[uuid].note(sample, uuid in busy, ours, now)

    def sample(self, uuid: str) -> Sample:
        return self._samples.get(uuid, Sample())

    def others(self, uuid: str) -> int | None:
        """Processes on it that are not ours."""
        return self._others.get(uuid)

    def unused_seconds(self, uuid: str) -> float | None:
        """Since its owner was at the machine, or anybody but us on the device."""
        now = time.monotonic()
        at_seat = self._presence.idle_seconds
        if at_seat is not None:
            at_seat += now - self._looked_at
        ways = (at_seat, self._beside[uuid].unused_seconds(now))
        return min((seconds for seconds in ways if seconds is not None), default=None)


def own_processes() -> set[int]:
    """Ours, and all that we started, tasks among them."""
    own = psutil.Process()
    return {own.pid, *(child.pid for child in own.children(recursive=True))}
