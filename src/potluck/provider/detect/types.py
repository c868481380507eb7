"""What a route to devices found, before it is named for good."""

import hashlib
import re
from pathlib import Path

from msgspec import Struct

from potluck.model.device import DeviceKind, Health
from potluck.provider.one_line import one_line


class Sample(Struct, frozen=True):
    """One look at one device."""

    health: Health = Health.WELL
    detail: str = ""  # a sentence, where it is not well
    utilisation_percent: float | None = None
    temperature_celsius: float | None = None
    memory_used_bytes: int | None = None
    power_watts: float | None = None
    memory_errors: int | None = None  # that could not be corrected, since its driver was loaded
    pids: tuple[int, ...] | None = None  # of processes on it, ours among them; none: not told


# What the wire takes for a short text.
_NAME_CHARACTERS = 200
_MACHINE_ID_FILES = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


class FoundDevice(Struct, frozen=True):
    """One device as a driver describes it."""

    kind: DeviceKind
    vendor: str
    model: str
    memory_bytes: int
    interface: str
    compute_units: int = 0
    driver: str = ""
    uuid: str = ""  # the vendor's own, if it has one
    compute_capability: str | None = None  # NVIDIA's
    bus_address: str = ""  # such as 0000:01:00.0, to recognise a card that two routes found
    route: str = ""  # that knows it best: nvidia, amd, intel, apple, opencl, cpu
    platform: str = ""  # of OpenCL, through which it was found
    opencl_uuid: str = ""  # by which OpenCL can be asked for it, if it knows it
    ordinal: int = 0  # among those of one route that nothing else tells apart
    minor: int | None = None  # N of /dev/nvidiaN, or of /dev/dri/renderDN
    pcie: str | None = None  # such as "4.0 x16", the most that card and slot can do together
    power_watts: int | None = None  # the most it draws, as it is set
    is_partition: bool = False
    parent_uuid: str | None = None  # of a partition
    gpu_instance: int | None = None  # of a partition that MIG made: which of its card
    compute_instance: int | None = None  # and which within that

    @property
    def slot(self) -> str:
        """The bus address in one spelling, without its domain; nothing if unknown."""
        match = re.search(r"([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-9a-f])$", self.bus_address.lower())
        return ":".join(f"{int(part, 16):02x}" for part in match.groups()) if match else ""

    @property
    def domain(self) -> int | None:
        """Of the bus address, where it is told: machines with many cards have several."""
        match = re.match(r"([0-9a-f]{1,8}):[0-9a-f]{1,2}:", self.bus_address.lower())
        return int(match[1], 16) if match else None


def stable_uuid(device: FoundDevice, salt: str = "") -> str:
    """The vendor's uuid, or a hash that stays the same over restarts of this machine."""
    if device.uuid:
        return device.uuid
    parts = [machine_id(), device.bus_address, device.vendor, device.model, salt]
    if device.ordinal:
        parts.append(str(device.ordinal))
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return f"{device.kind}-{digest[:32]}"


def machine_id() -> str:
    for path in _MACHINE_ID_FILES:
        if path.exists():
            return path.read_text().strip()
    import uuid

    return f"{uuid.getnode():x}"


def told(text: str, otherwise: str = "unknown") -> str:
    """Text of a driver as a clean name; drivers pad, colour and NUL-terminate at will."""
    return one_line(text, _NAME_CHARACTERS) or otherwise
