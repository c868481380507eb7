"""What the pool offers of one model: how many, how dear, and how wanted."""

from msgspec import Struct

from potluck.model.device import DeviceKind


class PriceRange(Struct, frozen=True):
    """Devices whose price is from `from_micro_per_hour` up to `to_micro_per_hour`."""

    from_micro_per_hour: int
    to_micro_per_hour: int
    devices: int


class ModelOffer(Struct, frozen=True):
    """The devices of one model. Prices are for a whole device and an hour."""

    kind: DeviceKind
    model: str
    memory_bytes: int  # of the largest
    devices: int
    free: int  # completely free, and would take work now
    lowest_micro_per_hour: int
    median_micro_per_hour: int  # half of them are as cheap or cheaper; a price to begin with
    highest_micro_per_hour: int
    prices: list[PriceRange]  # without empty ranges
    waiting_tasks: int = 0  # that would take such a device; a task may count for several models
