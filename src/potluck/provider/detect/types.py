"""A device as a route has found it, and one sample of a device."""

import hashlib
import re
from pathlib import Path

from msgspec import Struct

from potluck.model.device import DeviceKind, Health
from potluck.provider.one_line import one_line


class Sample(Struct, frozen=True):
    """The state of one device at one moment; None: the driver does not report it."""

    health: Health = Health.WELL
    detail: str = ""  # a sentence, if it is not well
    utilisation_percent: float | None = None
    temperature_celsius: float | None = None
    memory_used_bytes: int | None = None
    power_watts: float | None = None
    memory_errors: int | None = None  # uncorrectable, since the driver was loaded
    pids: tuple[int, ...] | None = None  # of all processes on it, including ours


# The limit of short texts on the wire.
_NAME_CHARACTERS = 200
_MACHINE_ID_FILES = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


class FoundDevice(Struct, frozen=True):
    kind: DeviceKind
    vendor: str
    model: str
    memory_bytes: int
    interface: str
    compute_units: int = 0
    driver: str = ""
    uuid: str = ""  # the vendor's own, if it has one
    compute_capability: str | None = None  # NVIDIA's
    bus_address: str = ""  # such as 0000:01:00.0, to match a card that two routes found
    route: str = ""  # the best one: nvidia, amd, intel, apple, opencl, cpu
    platform: str = ""  # the OpenCL platform that lists it
    opencl_uuid: str = ""  # identifies it in OpenCL, if OpenCL lists it
    ordinal: int = 0  # among identical devices of one route
    minor: int | None = None  # N of /dev/nvidiaN, or of /dev/dri/renderDN
    pcie: str | None = None  # such as "4.0 x16", the fastest link of card and slot
    power_watts: int | None = None  # the current power limit
    is_partition: bool = False
    parent_uuid: str | None = None  # of a partition
    gpu_instance: int | None = None  # of a MIG partition: its number on the card
    compute_instance: int | None = None  # and within the GPU instance

    @property
    def slot(self) -> str:
        """The normalised bus address without its domain; empty if unknown."""
        match = re.search(r"([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-9a-f])$", self.bus_address.lower())
        return ":".join(f"{int(part, 16):02x}" for part in match.groups()) if match else ""

    @property
    def domain(self) -> int | None:
        """The domain of the bus address, if known: machines with many cards have several."""
        match = re.match(r"([0-9a-f]{1,8}):[0-9a-f]{1,2}:", self.bus_address.lower())
        return int(match[1], 16) if match else None


def stable_uuid(device: FoundDevice, salt: str = "") -> str:
    """The vendor's uuid, or a hash that is stable across restarts of this machine."""
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


def clean_name(text: str, otherwise: str = "unknown") -> str:
    """A driver's text as a clean name: some pad, colour or NUL-terminate it."""
    return one_line(text, _NAME_CHARACTERS) or otherwise
