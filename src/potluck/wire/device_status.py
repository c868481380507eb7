"""Status of a device, sent with every heartbeat of its node."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import Count, LineText, ShortText, SmallCount
from potluck.model.device import Availability, Health


class DeviceStatus(Struct, frozen=True, forbid_unknown_fields=True):
    """The current status of a device. Values that its driver does not report are omitted."""

    uuid: ShortText
    availability: Availability = Availability.AVAILABLE
    why: LineText = ""  # a sentence, if it is not available
    health: Health = Health.WELL
    utilisation_percent: Annotated[float, Meta(ge=0, le=100)] | None = None
    temperature_celsius: Annotated[float, Meta(ge=-100, le=300)] | None = None
    memory_used_bytes: Count | None = None
    power_watts: Annotated[float, Meta(ge=0, le=100_000)] | None = None
    memory_errors: Count | None = None  # uncorrectable errors
    others: SmallCount | None = None  # other processes on the device


class DeviceSample(Struct, frozen=True):
    """A status with its time, as it is stored for a while and shown."""

    at: datetime
    health: Health = Health.WELL
    utilisation_percent: float | None = None
    temperature_celsius: float | None = None
    memory_used_bytes: int | None = None
    power_watts: float | None = None
    memory_errors: int | None = None
    others: int | None = None  # only its owner sees it
