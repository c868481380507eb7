"""Who uses a device beside us, and since when nobody did.

A process on a device that is not ours uses it, unless it only lives there, as a desktop does: that
was there while the device had nothing to do. Without names of processes, a device that is busy
while nothing of ours runs on it is used by somebody else.
"""

from collections.abc import Collection

from msgspec import Struct

from potluck.model.device import DeviceKind
from potluck.provider.detect.sample import Sample

# A desktop alone keeps a card or a processor less busy than this.
_BUSY_PERCENT = {DeviceKind.GPU: 5.0, DeviceKind.CPU: 25.0}


class Beside(Struct):
    """What is known of the others on one device."""

    kind: DeviceKind
    residents: frozenset[int] = frozenset()
    last_used_at: float | None = None  # none where nothing tells, or nothing was ever seen

    def note(self, sample: Sample, is_ours: bool, ours: Collection[int], now: float) -> None:
        """Takes one look into account. `is_ours`: we had something on it since the last one;
        `ours` are the processes that we started.
        """
        strangers = strangers_in(sample, ours)
        is_busy = None if is_ours else self._is_busy(sample)
        if is_busy is False and strangers is not None:
            self.residents = strangers
        if is_busy or (strangers or frozenset()) - self.residents:
            self.last_used_at = now

    def _is_busy(self, sample: Sample) -> bool | None:
        percent = sample.utilisation_percent
        return None if percent is None else percent >= _BUSY_PERCENT[self.kind]


def strangers_in(sample: Sample, ours: Collection[int]) -> frozenset[int] | None:
    """Processes on the device that are not ours; none where the driver does not say."""
    return None if sample.pids is None else frozenset(sample.pids) - frozenset(ours)
