"""Short texts about a device: its name, price, usage and state."""

from potluck.cli.gpus.offer import is_offered
from potluck.cli.terminal.screen import Tone
from potluck.cli.terminal.table import Cell
from potluck.local.network.presets import load_presets
from potluck.model.device import Availability, DeviceDescription, DeviceKind, Health, Standing
from potluck.model.network.patterns import shorten
from potluck.model.node import NodeState
from potluck.model.units import show_bytes, show_credits
from potluck.wire.consumer import PoolDevice

_TONES = {
    Availability.AVAILABLE: Tone.GOOD,
    Availability.PAUSED: Tone.WAITING,
    Availability.OUTSIDE_HOURS: Tone.WAITING,
    Availability.IN_USE: Tone.WAITING,
    Availability.SICK: Tone.BAD,
    Availability.DRAINING: Tone.WAITING,
}


def device_name(device: DeviceDescription) -> str:
    """The model without its vendor; processors are marked."""
    model = device.model.removeprefix(f"{device.vendor} ")
    return f"CPU {model}" if device.kind is DeviceKind.CPU else model


def price_text(price_micro: int) -> str:
    return show_credits(price_micro) if price_micro else "free"


def network_text(hosts: tuple[str, ...]) -> str:
    """The hosts that tasks of others may reach, by the names of presets where these have names."""
    return " ".join(shorten(hosts, load_presets())) if hosts else ""


def part_text(part_bytes: int, total_bytes: int) -> str:
    """`3 of 24 GiB`: names the unit once if both are the same."""
    part, total = show_bytes(part_bytes), show_bytes(total_bytes)
    number, unit = part.split(" ")
    return f"{number if total.endswith(f' {unit}') else part} of {total}"


def state_cell(availability: Availability, standing: Standing, health: Health) -> Cell:
    if standing is not Standing.BOUND:
        return Cell(standing, Tone.BAD)
    if availability is Availability.AVAILABLE and health is not Health.WELL:
        return Cell(health.replace("_", " "), Tone.WAITING)
    return Cell(availability.replace("_", " "), _TONES[availability])


def pool_state_cell(device: PoolDevice) -> Cell:
    """The state of a device in the pool, whose node may be offline."""
    if device.node_state is not NodeState.ONLINE:
        return Cell(device.node_state, Tone.WAITING)
    health = device.sample.health if device.sample else Health.WELL
    cell = state_cell(device.availability, device.standing, health)
    if cell.tone is Tone.GOOD and not is_offered(device):
        return Cell("owner's tasks only", Tone.WAITING)
    return cell
