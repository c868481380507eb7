"""How a device does, told with every heartbeat of its node."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import (
    Count,
    LineText,
    ShortText,
    SmallCount,
)
from potluck.model.device import Availability, Health


class DeviceStatus(Struct, frozen=True, forbid_unknown_fields=True):
    """How a device does just now. What its driver does not tell is not said."""

    uuid: ShortText
    availability: Availability = Availability.AVAILABLE
    why: LineText = ""  # a sentence, where it is not available
    health: Health = Health.WELL
    utilisation_percent: Annotated[float, Meta(ge=0, le=100)] | None = None
    temperature_celsius: Annotated[float, Meta(ge=-100, le=300)] | None = None
    memory_used_bytes: Count | None = None
    power_watts: Annotated[float, Meta(ge=0, le=100_000)] | None = None
    memory_errors: Count | None = None  # that could not be corrected
    others: SmallCount | None = None  # processes on it that are not ours


class DeviceSample(Struct, frozen=True):
    """The same at a moment, as it is kept for a while and shown."""

    at: datetime
    health: Health = Health.WELL
    utilisation_percent: float | None = None
    temperature_celsius: float | None = None
    memory_used_bytes: int | None = None
    power_watts: float | None = None
    memory_errors: int | None = None
    others: int | None = None  # told to its owner alone
