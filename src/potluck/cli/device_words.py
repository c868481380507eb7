"""A device in few words: its name, its price, what is used or free of it, whether it takes work."""

from potluck.cli.screen import Tone
from potluck.cli.table import Cell
from potluck.cli.units import show_bytes, show_credits
from potluck.model.device import Availability, DeviceDescription, DeviceKind, Health, Standing

_TONES = {
    Availability.AVAILABLE: Tone.GOOD,
    Availability.PAUSED: Tone.WAITING,
    Availability.OUTSIDE_HOURS: Tone.WAITING,
    Availability.IN_USE: Tone.WAITING,
    Availability.SICK: Tone.BAD,
    Availability.DRAINING: Tone.WAITING,
}


def device_name(device: DeviceDescription) -> str:
    """Short: whose it is tells nothing, and only a processor has to be told from a card."""
    model = device.model.removeprefix(f"{device.vendor} ")
    return f"CPU {model}" if device.kind is DeviceKind.CPU else model


def price_text(price_micro: int) -> str:
    """Of an hour."""
    return show_credits(price_micro) if price_micro else "free"


def part_of(part_bytes: int, total_bytes: int) -> str:
    """`3 of 24 GiB`: the unit once, where it is the same."""
    part, total = show_bytes(part_bytes), show_bytes(total_bytes)
    number, unit = part.split(" ")
    return f"{number if total.endswith(f' {unit}') else part} of {total}"


def state_cell(availability: Availability, standing: Standing, health: Health) -> Cell:
    """Whether it takes work, in a word or two."""
    if standing is not Standing.BOUND:
        return Cell(standing, Tone.BAD)
    if availability is Availability.AVAILABLE and health is not Health.WELL:
        return Cell(health.replace("_", " "), Tone.WAITING)
    return Cell(availability.replace("_", " "), _TONES[availability])
