"""The latest look at the devices, and at the seat of their owner."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager

import psutil

from potluck.model.device import DeviceDescription, DeviceKind
from potluck.model.terms import DeviceTerms
from potluck.provider.detect.sampler import Sampler
from potluck.provider.detect.types import Sample
from potluck.provider.owner.foreign_use import Beside, Efforts, strangers_in
from potluck.provider.owner.presence import look


class Observations:
    """What was seen last; nothing where nobody has looked yet, or nothing can be told."""

    def __init__(self, devices: Iterable[DeviceDescription], sampler: Sampler) -> None:
        self._sampler = sampler
        self._samples: Mapping[str, Sample] = {}
        self._beside = {device.uuid: Beside(device.kind) for device in devices}
        self._others: dict[str, int | None] = {}
        self._efforts = Efforts()
        self._owner_seen_at: float | None = None
        self.is_use_known = False  # whether the last look was also at the owner's seat
        # What has kept the processor busy before the first look is how we began.
        self._own_doing = {uuid for uuid, one in self._beside.items() if _is_processor(one)}
        self._own_done = set(self._own_doing)

    @contextmanager
    def own_doing(self, uuid: str) -> Iterator[None]:
        """Whatever keeps the device busy meanwhile is ours, though it is no attempt."""
        self._own_doing.add(uuid)
        try:
            yield
        finally:
            self._own_done.add(uuid)

    async def look(self, terms: Mapping[str, DeviceTerms], used: Callable[[], Set[str]]) -> None:
        """Asks only what somebody's terms depend on, and what the driver tells anyway.

        `used` answers which devices anything of ours was on since it was last asked: how busy a
        device is said to be is how busy it was since the last look.
        """
        is_asked = any(each.idle_minutes for each in terms.values())
        if is_asked:
            await self._look_at_seat()
        # Before and after: what has ended meanwhile may still be named.
        ours = self._own_processes()
        self._samples = await self._sampler.sample()
        ours |= self._own_processes()
        now, own_use = time.monotonic(), used() | self._own_doing
        self._own_doing -= self._own_done
        self._own_done.clear()
        strangers = {uuid: strangers_in(one, ours) for uuid, one in self._samples.items()}
        working = self._efforts.working(
            {pid for pids in strangers.values() for pid in pids or ()}, now
        )
        for uuid, sample in self._samples.items():
            beside, others = self._beside[uuid], strangers[uuid]
            self._others[uuid] = None if others is None else len(others)
            # Whatever runs on a card keeps the processor busy, too.
            is_ours = bool(own_use) if _is_processor(beside) else uuid in own_use
            beside.note(sample, is_ours, ours, now, working)
        self.is_use_known = is_asked

    async def _look_at_seat(self) -> None:
        """Whoever was seen once was there: what can not be told this time takes nothing back."""
        idle_seconds = (await look()).idle_seconds
        if idle_seconds is not None:
            seen_at = time.monotonic() - idle_seconds
            self._owner_seen_at = max(self._owner_seen_at or seen_at, seen_at)

    def _own_processes(self) -> set[int]:
        return own_processes() if any(one.pids for one in self._samples.values()) else set()

    def sample(self, uuid: str) -> Sample:
        return self._samples.get(uuid, Sample())

    def others(self, uuid: str) -> int | None:
        """Processes on it that are not ours."""
        return self._others.get(uuid)

    def unused_seconds(self, uuid: str) -> float | None:
        """Since its owner was at the machine, or anybody but us on the device."""
        last_used = (self._owner_seen_at, self._beside[uuid].last_used_at)
        known = [moment for moment in last_used if moment is not None]
        return time.monotonic() - max(known) if known else None


def _is_processor(beside: Beside) -> bool:
    return beside.kind is DeviceKind.CPU


def own_processes() -> set[int]:
    """Ours, and all that we started, tasks among them."""
    own = psutil.Process()
    return {own.pid, *(child.pid for child in own.children(recursive=True))}
