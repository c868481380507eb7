"""Measures the usage of an attempt and of its devices, and the load of the machine.

Busy time and energy of a device are integrated from samples: each one stands for the time until the
next, up to a minute. An attempt is charged its share of the device for the time of its run.
"""

from collections.abc import Callable, Sequence

import psutil
from msgspec import Struct

from potluck.model.device import WHOLE_DEVICE_MILLI
from potluck.model.usage import Usage
from potluck.provider.attempt.kinds import PreparedAttempt
from potluck.provider.detect.types import Sample
from potluck.provider.sandbox.driver import RunOutcome
from potluck.wire.provider import GrantedDevice

_LONGEST_SECONDS = 60.0  # that one sample stands for


class DeviceSpent(Struct, frozen=True):
    """Running totals of a device; only the difference of two is meaningful."""

    busy_seconds: float = 0.0
    joules: float | None = None  # None: it does not report its power

    def since(self, before: "DeviceSpent") -> "DeviceSpent":
        is_known = self.joules is not None and before.joules is not None
        joules = max(0.0, (self.joules or 0.0) - (before.joules or 0.0))
        return DeviceSpent(
            max(0.0, self.busy_seconds - before.busy_seconds), joules if is_known else None
        )


class DeviceUsage:
    """Integrates the samples of one device. `now` is monotonic."""

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


# The running totals of a device, by its uuid.
ReadSpent = Callable[[str], DeviceSpent]


class NodeLoad(Struct, frozen=True):
    load_percent: float
    memory_used_bytes: int


def measure_node() -> NodeLoad:
    """The load since the last call, over all cores, and the memory in use now."""
    percent = min(max(psutil.cpu_percent(interval=None), 0.0), 100.0)
    return NodeLoad(percent, psutil.virtual_memory().used)


def no_usage(_: str) -> DeviceSpent:
    """For devices that are not sampled."""
    return DeviceSpent()


class DeviceMeter:
    """An attempt's shares of its devices' usage, since the meter was last started."""

    def __init__(self, read: ReadSpent, devices: Sequence[GrantedDevice]) -> None:
        self._read = read
        self._devices = devices
        self.restart()

    def restart(self) -> None:
        self._before = [(device, self._read(device.uuid)) for device in self._devices]

    def spent(self) -> DeviceSpent:
        shares = [
            (device.milli / WHOLE_DEVICE_MILLI, self._read(device.uuid).since(before))
            for device, before in self._before
        ]
        joules = [share * spent.joules for share, spent in shares if spent.joules is not None]
        busy_seconds = sum(share * spent.busy_seconds for share, spent in shares)
        return DeviceSpent(busy_seconds, sum(joules) if joules else None)


def usage_of(
    job: PreparedAttempt,
    ended: RunOutcome,
    prepare_seconds: float,
    devices: DeviceSpent,
    network_bytes: int = 0,
) -> Usage:
    return Usage(
        prepare_seconds=prepare_seconds,
        run_seconds=max(ended.run_seconds, 0.0),
        cpu_seconds=max(ended.cpu_seconds, 0.0),
        memory_peak_bytes=max(ended.memory_peak_bytes, 0),
        log_bytes=max(ended.log_bytes, 0),
        device_seconds=devices.busy_seconds,
        energy_joules=devices.joules,
        input_bytes=job.inputs.fetched_bytes,
        output_bytes=job.freight.outbox.size_bytes,
        network_bytes=network_bytes,
    )
