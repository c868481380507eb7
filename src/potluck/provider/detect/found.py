"""What a route to devices found, before it is named for good."""

import hashlib
import re
from pathlib import Path

from msgspec import Struct

from potluck.model.device import DeviceKind
from potluck.provider.line import one_line

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
    bus_address: str = ""  # such as 01:00.0, to recognise a card that two routes found

    @property
    def slot(self) -> str:
        """The bus address in one spelling; nothing if unknown. Drivers differ in the domain."""
        match = re.search(r"([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-9a-f])$", self.bus_address.lower())
        return ":".join(f"{int(part, 16):02x}" for part in match.groups()) if match else ""


def stable_uuid(device: FoundDevice, salt: str = "") -> str:
    """The vendor's uuid, or a hash that stays the same over restarts of this machine."""
    if device.uuid:
        return device.uuid
    parts = (machine_id(), device.bus_address, device.vendor, device.model, salt)
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
