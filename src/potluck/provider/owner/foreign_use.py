"""Detects use of a device by other processes, and when it was last used.

A foreign process on a device uses it, unless it is a resident: a desktop or an open notebook that
was there while the device was idle. While our own tasks keep the device busy, a resident counts as
working if it takes processor time. Where the driver lists no processes, a device that is busy
without a task of ours is in foreign use.
"""

from collections.abc import Collection, Iterable

import psutil
from msgspec import Struct

from potluck.model.device import DeviceKind
from potluck.provider.detect.types import Sample

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
        """Adds one sample. `is_ours`: a task of ours was on the device since the last sample;
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
