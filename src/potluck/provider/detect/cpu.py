"""The processor as a device, so that everything can be tried on a machine without a GPU."""

import os
import platform
import re
from pathlib import Path
from typing import Any

import psutil

from potluck.model.device import DeviceKind
from potluck.provider.detect.types import FoundDevice, Sample, told

# Of Intel, AMD and ARM processors, as Linux names them.
_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")


def find() -> FoundDevice:
    """There is always one."""
    return FoundDevice(
        kind=DeviceKind.CPU,
        vendor=told(_field("vendor_id"), platform.machine() or "unknown"),
        model=told(_field("model name"), platform.processor() or "CPU"),
        memory_bytes=psutil.virtual_memory().total,
        compute_units=os.cpu_count() or 1,
        interface="plain",
        route="cpu",
    )


def sample() -> Sample:
    """Since the last look at it, whose busy moments it counts."""
    return Sample(
        utilisation_percent=psutil.cpu_percent(),
        memory_used_bytes=psutil.virtual_memory().used,
        temperature_celsius=_temperature_celsius(),
    )


def _temperature_celsius() -> float | None:
    """The hottest that the processor's own sensors tell; most virtual machines have none."""
    sensors: dict[str, list[Any]] = getattr(psutil, "sensors_temperatures", dict)()
    told = [each.current for name in _SENSORS for each in sensors.get(name, ())]
    return max((each for each in told if -50 < each < 150), default=None)


def _field(name: str) -> str:
    """A line of /proc/cpuinfo; empty where there is no such file or line (macOS, some ARM)."""
    path = Path("/proc/cpuinfo")
    text = path.read_text(errors="replace") if path.exists() else ""
    match = re.search(rf"^{name}\s*:\s*(.+)$", text, re.MULTILINE)
    return match.group(1) if match else ""
