"""How long a device has computed and what energy it took, added up from one look to the next.

A driver tells how busy a device was since it was last asked, and its power now. Between two looks
the last one is taken to hold on, for a while.
"""

from msgspec import Struct

from potluck.provider.detect.sample import Sample

_LONGEST_SECONDS = 60.0  # that one look stands for


class DeviceSpent(Struct, frozen=True):
    """Up to now, from some beginning: of interest is what came between two of them."""

    busy_seconds: float = 0.0
    joules: float | None = None  # none: it does not tell its power

    def since(self, before: "DeviceSpent") -> "DeviceSpent":
        is_told = self.joules is not None and before.joules is not None
        joules = max(0.0, (self.joules or 0.0) - (before.joules or 0.0))
        return DeviceSpent(
            max(0.0, self.busy_seconds - before.busy_seconds), joules if is_told else None
        )


class Tally:
    """Of one device. `now` is a time that only ever grows."""

    def __init__(self) -> None:
        self._total = DeviceSpent()
        self._last = Sample()
        self._noted_at: float | None = None

    def note(self, sample: Sample, now: float) -> None:
        self._last = sample
        self._total, self._noted_at = self.read(now), now

    def read(self, now: float) -> DeviceSpent:
        seconds = 0.0 if self._noted_at is None else now - self._noted_at
        seconds = min(max(0.0, seconds), _LONGEST_SECONDS)
        busy_seconds = seconds * (self._last.utilisation_percent or 0.0) / 100
        joules = self._total.joules
        if self._last.power_watts is not None:
            joules = (joules or 0.0) + seconds * self._last.power_watts
        return DeviceSpent(self._total.busy_seconds + busy_seconds, joules)
