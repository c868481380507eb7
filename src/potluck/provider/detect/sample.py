"""How a device does at one moment. What its driver does not tell, or can not mean, is not said."""

from msgspec import Struct

from potluck.model.device import Health


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
