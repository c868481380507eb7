"""The processor as a device, for machines without a GPU."""

import os
import platform
import re
from pathlib import Path
from typing import Any

import psutil

from potluck.model.device import DeviceKind
from potluck.provider.detect.types import FoundDevice, Sample, clean_name

# Linux' names of the sensors of Intel, AMD and ARM processors.
_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")


def find() -> FoundDevice:
    return FoundDevice(
        kind=DeviceKind.CPU,
        vendor=clean_name(_field("vendor_id"), platform.machine() or "unknown"),
        model=clean_name(_field("model name"), platform.processor() or "CPU"),
        memory_bytes=psutil.virtual_memory().total,
        compute_units=os.cpu_count() or 1,
        interface="plain",
        route="cpu",
    )


def sample() -> Sample:
    """The utilisation covers the time since the last call."""
    return Sample(
        utilisation_percent=psutil.cpu_percent(),
        memory_used_bytes=psutil.virtual_memory().used,
        temperature_celsius=_temperature_celsius(),
    )


def _temperature_celsius() -> float | None:
    """The maximum of the processor's sensors; most virtual machines have none."""
    sensors: dict[str, list[Any]] = getattr(psutil, "sensors_temperatures", dict)()
    readings = [sensor.current for name in _SENSORS for sensor in sensors.get(name, ())]
    return max((celsius for celsius in readings if -50 < celsius < 150), default=None)


def _field(name: str) -> str:
    """A field of /proc/cpuinfo; empty without such a file or field (macOS, some ARM)."""
    path = Path("/proc/cpuinfo")
    text = path.read_text(errors="replace") if path.exists() else ""
    match = re.search(rf"^{name}\s*:\s*(.+)$", text, re.MULTILINE)
    return match.group(1) if match else ""
