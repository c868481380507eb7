"""Who uses a device beside us, and since when nobody did.

A process on a device that is not ours uses it, unless it only lives there, as a desktop or an open
notebook does: that was there while the device had nothing to do. While something of ours keeps the
device busy, such a one is taken to work when it takes the processor's time. Without names of
processes, a device that is busy while nothing of ours runs on it is used by somebody else.
"""

from collections.abc import Collection, Iterable

import psutil
from msgspec import Struct

from potluck.model.device import DeviceKind
from potluck.provider.detect.types import Sample

# A desktop alone keeps a card or a processor less busy than this.
_BUSY_PERCENT = {DeviceKind.GPU: 5.0, DeviceKind.CPU: 25.0}
# Of one core: whoever keeps a card at work takes more, and whoever waits for a key takes less.
_WORKING_SHARE = 0.1


class Beside(Struct):
    """What is known of the others on one device."""

    kind: DeviceKind
    residents: frozenset[int] = frozenset()
    last_used_at: float | None = None  # none where nothing tells, or nothing was ever seen

    def note(
        self,
        sample: Sample,
        is_ours: bool,
        ours: Collection[int],
        now: float,
        working: Collection[int] = (),
    ) -> None:
        """Takes one look into account. `is_ours`: we had something on it since the last one;
        `ours` are the processes that we started, `working` those that took the processor's time.
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


class Efforts:
    """How much of the processor's time processes take from look to look."""

    def __init__(self) -> None:
        self._taken: dict[int, tuple[float, float]] = {}  # seconds, and when that was so

    def working(self, pids: Iterable[int], now: float) -> set[int]:
        """Those that have worked since the last look; who is seen for the first time has not."""
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
        return 0.0  # it has ended, or is not ours to ask
    return float(taken.user + taken.system)


def strangers_in(sample: Sample, ours: Collection[int]) -> frozenset[int] | None:
    """Processes on the device that are not ours; none where the driver does not say."""
    return None if sample.pids is None else frozenset(sample.pids) - frozenset(ours)
