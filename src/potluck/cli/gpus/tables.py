"""Offers and devices as tables."""

from potluck.cli.gpus.device_text import (
    device_name,
    part_of,
    pool_state_cell,
    price_text,
)
from potluck.cli.gpus.offer import DeviceOffer
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.terminal.screen import Pane, Tone
from potluck.cli.terminal.table import (
    Cell,
    TableColumn,
    filled,
    show_table,
)
from potluck.cli.terminal.units import show_bytes, show_milli
from potluck.model.device import WHOLE_DEVICE_MILLI
from potluck.wire.consumer import PoolDevice

_NAMED_NODES = 3
_WIDE = 110


def show_offers(pane: Pane, found: list[DeviceOffer]) -> None:
    columns = [
        TableColumn("MODEL", shrinks=True),
        TableColumn("MEMORY", is_number=True),
        TableColumn("PRICE/H", is_number=True),
        TableColumn("FREE", is_number=True),
        TableColumn("RELIABLE", is_number=True),
        TableColumn("NODES", shrinks=True),
        TableColumn("LABELS", shrinks=True),
    ]
    show_table(pane, *filled(columns, [_offer(each) for each in found]))


def _offer(offer: DeviceOffer) -> list[Cell]:
    said = offer.first.description
    free, total = offer.free, len(offer.devices)
    return [
        Cell(device_name(said), Tone.STRONG),
        Cell(show_bytes(said.offered_bytes)),
        Cell(price_text(said.terms.price_micro_per_hour)),
        Cell(f"{free} of {total}", Tone.GOOD if free else Tone.BUSY),
        Cell(_reliable(*offer.reliabilities)),
        Cell(_nodes(offer.nodes)),
        Cell(_common_labels(offer), Tone.FAINT),
    ]


def _reliable(worst: float, best: float) -> str:
    """Rounded down, so that 100 % means all of them."""
    low, high = int(worst * 100), int(best * 100)
    return f"{low} %" if low == high else f"{low}-{high} %"


def _nodes(names: list[str]) -> str:
    more = len(names) - _NAMED_NODES
    return ", ".join(names[:_NAMED_NODES]) + (f" and {more} more" if more > 0 else "")


def _common_labels(offer: DeviceOffer) -> str:
    """That all of them have."""
    first, *rest = (each.labels for each in offer.devices)
    return " ".join(label for label in first if all(label in each for each in rest))


def show_each(pane: Pane, found: list[PoolDevice]) -> None:
    columns = [
        TableColumn("DEVICE"),
        TableColumn("MODEL", shrinks=True),
        TableColumn("MEMORY", is_number=True),
        TableColumn("PRICE/H", is_number=True),
        TableColumn("FREE", is_number=True),
        TableColumn("RELIABLE", is_number=True, from_width=_WIDE),
        TableColumn("NODE", shrinks=True),
        TableColumn("LABELS", shrinks=True, from_width=_WIDE),
        TableColumn("STATE"),
        TableColumn("SERVES", shrinks=True),
        TableColumn("WHY", shrinks=True, wraps=True),
    ]
    rows = [_device(device, pane.is_terminal) for device in found]
    show_table(pane, *filled(columns, rows))


def _device(device: PoolDevice, is_short: bool) -> list[Cell]:
    said = device.description
    tone = Tone.GOOD if device.free_milli == WHOLE_DEVICE_MILLI else Tone.BUSY
    return [
        Cell(short_id(device.id) if is_short else device.id, Tone.STRONG),
        Cell(device_name(said)),
        Cell(part_of(device.free_memory_bytes, said.offered_bytes)),
        Cell(price_text(said.terms.price_micro_per_hour)),
        Cell(show_milli(device.free_milli), tone),
        Cell(_reliable(device.reliability, device.reliability)),
        Cell(f"{device.node_name} (mine)" if device.is_mine else device.node_name),
        Cell(" ".join(device.labels), Tone.FAINT),
        pool_state_cell(device),
        Cell(_serves(device, is_short), Tone.FAINT),
        Cell(device.why, Tone.WAITING),
    ]


def _serves(device: PoolDevice, is_short: bool) -> str:
    """Tasks that we may know of by name, the others by number."""
    named = [
        f"{short_id(use.task_id) if is_short else use.task_id} ({show_milli(use.milli)})"
        for use in device.uses
        if use.task_id is not None
    ]
    others = len(device.uses) - len(named)
    return ", ".join([*named, *([f"{others} of others"] if others else [])])
