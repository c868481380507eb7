"""The latest samples of the devices, their use by others, and the owner's presence at the machine.

A foreign process on a device uses it, unless it is a resident: a desktop or an open notebook that
was there while the device was idle. While our own tasks keep the device busy, a resident counts as
working if it takes processor time. Where the driver lists no processes, a device that is busy
without one of this node's tasks is in foreign use.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager

import psutil
from msgspec import Struct

from potluck.model.device import DeviceDescription, DeviceKind
from potluck.model.terms import DeviceTerms
from potluck.provider.detect.sampler import Sampler
from potluck.provider.detect.types import Sample
from potluck.provider.expose.unusable import UnusableDevices
from potluck.provider.owner.presence import look

# A desktop alone stays below this.
_BUSY_PERCENT = {DeviceKind.GPU: 5.0, DeviceKind.CPU: 25.0}
# Of one core: a process that keeps a card busy takes more, one that waits for input takes less.
_WORKING_SHARE = 0.1


class ForeignUse(Struct):
    """The foreign use of one device."""

    kind: DeviceKind
    residents: frozenset[int] = frozenset()
    last_used_at: float | None = None  # None: no use was seen, or the driver cannot tell

    def note(
        self,
        sample: Sample,
        is_ours: bool,
        ours: Collection[int],
        now: float,
        working: Collection[int] = (),
    ) -> None:
        """Adds one sample. `is_ours`: a task of this node was on the device since the last sample;
        `ours`: the processes that we started; `working`: processes that took processor time.
        """
        strangers = strangers_in(sample, ours)
        is_busy = None if is_ours else self._is_busy(sample)
        if is_busy is False and strangers is not None:
            self.residents = strangers
        quiet = self.residents.difference(working) if is_ours else self.residents
        if is_busy or (strangers or frozenset()) - quiet:
            self.last_used_at = now

    def _is_busy(self, sample: Sample) -> bool | None:
        percent = sample.utilisation_percent
        return None if percent is None else percent >= _BUSY_PERCENT[self.kind]


class ProcessorTimes:
    """Processor time that processes take between samples."""

    def __init__(self) -> None:
        self._taken: dict[int, tuple[float, float]] = {}  # seconds, and when they were read

    def working(self, pids: Iterable[int], now: float) -> set[int]:
        """The processes that worked since the last call; a new process does not count."""
        before = self._taken
        self._taken = {pid: (_processor_seconds(pid), now) for pid in pids}
        return {
            pid
            for pid, (seconds, _) in self._taken.items()
            if pid in before and seconds - before[pid][0] > _WORKING_SHARE * (now - before[pid][1])
        }


def _processor_seconds(pid: int) -> float:
    try:
        taken = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0  # it has ended, or may not be inspected
    return float(taken.user + taken.system)


def strangers_in(sample: Sample, ours: Collection[int]) -> frozenset[int] | None:
    """Processes on the device that are not ours; None if the driver does not list them."""
    return None if sample.pids is None else frozenset(sample.pids) - frozenset(ours)


class Observations:
    """The last sample; empty before the first one, or if the drivers tell nothing."""

    def __init__(self, devices: Iterable[DeviceDescription], sampler: Sampler) -> None:
        self._sampler = sampler
        self._samples: Mapping[str, Sample] = {}
        self.unusable = UnusableDevices()
        self._beside = {device.uuid: ForeignUse(device.kind) for device in devices}
        self._others: dict[str, int | None] = {}
        self._efforts = ProcessorTimes()
        self._owner_seen_at: float | None = None
        self.is_use_known = False  # whether the last look included the owner's presence
        # Our own start has kept the processor busy before the first sample.
        self._own_doing = {
            uuid for uuid, observation in self._beside.items() if _is_processor(observation)
        }
        self._own_done = set(self._own_doing)

    @contextmanager
    def own_doing(self, uuid: str) -> Iterator[None]:
        """Load on the device inside this context is ours, though it is no attempt."""
        self._own_doing.add(uuid)
        try:
            yield
        finally:
            self._own_done.add(uuid)

    async def look(self, terms: Mapping[str, DeviceTerms], used: Callable[[], Set[str]]) -> None:
        """Samples the devices, and checks the owner's presence only if a device's terms need it.

        `used` returns the devices that this node's tasks were on since its last call: a utilisation
        covers the time since the last sample.
        """
        has_idle_terms = any(device.idle_minutes for device in terms.values())
        if has_idle_terms:
            await self._check_presence()
        # Before and after: a sample may still name processes that have ended meanwhile.
        ours = self._own_processes()
        self._samples = await self._sampler.sample()
        ours |= self._own_processes()
        now, own_use = time.monotonic(), used() | self._own_doing
        self._own_doing -= self._own_done
        self._own_done.clear()
        strangers = {uuid: strangers_in(sample, ours) for uuid, sample in self._samples.items()}
        working = self._efforts.working(
            {pid for pids in strangers.values() for pid in pids or ()}, now
        )
        for uuid, sample in self._samples.items():
            beside, others = self._beside[uuid], strangers[uuid]
            self._others[uuid] = None if others is None else len(others)
            # A task on a card keeps the processor busy, too.
            is_ours = bool(own_use) if _is_processor(beside) else uuid in own_use
            beside.note(sample, is_ours, ours, now, working)
        self.is_use_known = has_idle_terms
        await self.unusable.look_again()

    async def _check_presence(self) -> None:
        """A look that fails does not clear what an earlier one saw."""
        idle_seconds = (await look()).idle_seconds
        if idle_seconds is not None:
            seen_at = time.monotonic() - idle_seconds
            self._owner_seen_at = max(self._owner_seen_at or seen_at, seen_at)

    def _own_processes(self) -> set[int]:
        has_pids = any(sample.pids for sample in self._samples.values())
        return own_processes() if has_pids else set()

    def sample(self, uuid: str) -> Sample:
        return self._samples.get(uuid, Sample())

    def others(self, uuid: str) -> int | None:
        """How many foreign processes are on the device."""
        return self._others.get(uuid)

    def unused_seconds(self, uuid: str) -> float | None:
        """Time since the owner was active, or a foreign process used the device."""
        last_used = (self._owner_seen_at, self._beside[uuid].last_used_at)
        moments = [moment for moment in last_used if moment is not None]
        return time.monotonic() - max(moments) if moments else None


def _is_processor(beside: ForeignUse) -> bool:
    return beside.kind is DeviceKind.CPU


def own_processes() -> set[int]:
    """This process and all its descendants, tasks included."""
    own = psutil.Process()
    return {own.pid, *(child.pid for child in own.children(recursive=True))}
