"""What an attempt used, and how busy the machine is."""

from collections.abc import Callable, Sequence

import psutil
from msgspec import Struct

from potluck.model.device import WHOLE_DEVICE_MILLI
from potluck.model.usage import Usage
from potluck.provider.detect.device_usage import DeviceSpent
from potluck.provider.kinds.types import Job
from potluck.provider.sandbox.driver import Ended
from potluck.wire.provider import GrantedDevice

# What a device has computed and taken, by its uuid, from some beginning up to now.
ReadSpent = Callable[[str], DeviceSpent]


class NodeLoad(Struct, frozen=True):
    load_percent: float
    memory_used_bytes: int


def measure_node() -> NodeLoad:
    """The load since the last call, over all cores, and the memory in use now."""
    percent = min(max(psutil.cpu_percent(interval=None), 0.0), 100.0)
    return NodeLoad(percent, psutil.virtual_memory().used)


def untold(_: str) -> DeviceSpent:
    """For devices that nobody looks at."""
    return DeviceSpent()


class DeviceMeter:
    """From when it is made: what an attempt's shares of its devices came to."""

    def __init__(self, read: ReadSpent, devices: Sequence[GrantedDevice]) -> None:
        self._read = read
        self._before = [(device, read(device.uuid)) for device in devices]

    def spent(self) -> DeviceSpent:
        """Of those that tell it."""
        shares = [
            (device.milli / WHOLE_DEVICE_MILLI, self._read(device.uuid).since(before))
            for device, before in self._before
        ]
        joules = [share * one.joules for share, one in shares if one.joules is not None]
        busy_seconds = sum(share * one.busy_seconds for share, one in shares)
        return DeviceSpent(busy_seconds, sum(joules) if joules else None)


def usage_of(job: Job, ended: Ended, prepare_seconds: float, devices: DeviceSpent) -> Usage:
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
    )
