"""The processor as a device, so that everything can be tried on a machine without a GPU."""

import os
import platform
import re
from pathlib import Path

import psutil

from potluck.model.device import DeviceKind
from potluck.provider.detect.found import FoundDevice, told


def find() -> FoundDevice:
    """There is always one."""
    return FoundDevice(
        kind=DeviceKind.CPU,
        vendor=told(_field("vendor_id"), platform.machine() or "unknown"),
        model=told(_field("model name"), platform.processor() or "CPU"),
        memory_bytes=psutil.virtual_memory().total,
        compute_units=os.cpu_count() or 1,
        interface="plain",
    )


def _field(name: str) -> str:
    """A line of /proc/cpuinfo; empty where there is no such file or line (macOS, some ARM)."""
    path = Path("/proc/cpuinfo")
    text = path.read_text(errors="replace") if path.exists() else ""
    match = re.search(rf"^{name}\s*:\s*(.+)$", text, re.MULTILINE)
    return match.group(1) if match else ""
