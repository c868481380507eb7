"""Offers and devices as tables."""

from potluck.cli.gpus.device_text import (
    device_name,
    network_text,
    part_text,
    pool_state_cell,
    price_text,
)
from potluck.cli.gpus.offer import DeviceOffer, usable_milli
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.terminal.screen import Pane, Tone
from potluck.cli.terminal.table import Cell, TableColumn, drop_empty_columns, show_table
from potluck.model.device import WHOLE_DEVICE_MILLI
from potluck.model.units import show_bytes, show_milli
from potluck.wire.consumer import PoolDevice

_NAMED_NODES = 3
_WIDE = 110


def show_offers(pane: Pane, offers: list[DeviceOffer]) -> None:
    columns = [
        TableColumn("MODEL", shrinks=True),
        TableColumn("MEMORY", is_number=True),
        TableColumn("PRICE/H", is_number=True),
        TableColumn("FREE", is_number=True),
        TableColumn("RELIABLE", is_number=True),
        TableColumn("NODES", shrinks=True),
        TableColumn("LABELS", shrinks=True),
        TableColumn("NETWORK", shrinks=True),
    ]
    show_table(pane, *drop_empty_columns(columns, [_offer_cells(offer) for offer in offers]))


def _offer_cells(offer: DeviceOffer) -> list[Cell]:
    description = offer.first.description
    free, total = offer.free_milli, len(offer.devices)
    return [
        Cell(device_name(description), Tone.STRONG),
        Cell(show_bytes(description.offered_bytes)),
        Cell(price_text(description.terms.price_micro_per_hour)),
        Cell(f"{show_milli(free)} of {total}", Tone.GOOD if free else Tone.BUSY),
        Cell(_reliability_text(*offer.reliabilities)),
        Cell(_node_names(offer.nodes)),
        Cell(_common_labels(offer), Tone.FAINT),
        Cell(_common_network(offer), Tone.FAINT),
    ]


def _reliability_text(worst: float, best: float) -> str:
    """Rounds down, so that 100 % means no failure."""
    low, high = int(worst * 100), int(best * 100)
    return f"{low} %" if low == high else f"{low}-{high} %"


def _node_names(names: list[str]) -> str:
    more = len(names) - _NAMED_NODES
    return ", ".join(names[:_NAMED_NODES]) + (f" and {more} more" if more > 0 else "")


def _common_labels(offer: DeviceOffer) -> str:
    """The labels that all its devices have."""
    first, *rest = (labels.labels for labels in offer.devices)
    return " ".join(label for label in first if all(label in labels for labels in rest))


def _common_network(offer: DeviceOffer) -> str:
    """The hosts that tasks may reach on all its devices."""
    first, *rest = (device.description.terms.network for device in offer.devices)
    return network_text(tuple(host for host in first if all(host in hosts for hosts in rest)))


def show_devices(pane: Pane, devices: list[PoolDevice]) -> None:
    columns = [
        TableColumn("DEVICE"),
        TableColumn("MODEL", shrinks=True),
        TableColumn("MEMORY", is_number=True),
        TableColumn("PRICE/H", is_number=True),
        TableColumn("FREE", is_number=True),
        TableColumn("RELIABLE", is_number=True, from_width=_WIDE),
        TableColumn("NODE", shrinks=True),
        TableColumn("LABELS", shrinks=True, from_width=_WIDE),
        TableColumn("NETWORK", shrinks=True, from_width=_WIDE),
        TableColumn("STATE"),
        TableColumn("SERVES", shrinks=True),
        TableColumn("WHY", shrinks=True, wraps=True),
    ]
    rows = [_device_cells(device, pane.is_terminal) for device in devices]
    show_table(pane, *drop_empty_columns(columns, rows))


def _device_cells(device: PoolDevice, is_short: bool) -> list[Cell]:
    description = device.description
    free = usable_milli(device)
    tone = Tone.GOOD if free == WHOLE_DEVICE_MILLI else Tone.BUSY
    return [
        Cell(short_id(device.id) if is_short else device.id, Tone.STRONG),
        Cell(device_name(description)),
        Cell(part_text(device.free_memory_bytes, description.offered_bytes)),
        Cell(price_text(description.terms.price_micro_per_hour)),
        Cell(show_milli(free), tone),
        Cell(_reliability_text(device.reliability, device.reliability)),
        Cell(f"{device.node_name} (mine)" if device.is_mine else device.node_name),
        Cell(" ".join(device.labels), Tone.FAINT),
        Cell(network_text(description.terms.network), Tone.FAINT),
        pool_state_cell(device),
        Cell(_tasks_text(device, is_short), Tone.FAINT),
        Cell(device.why, Tone.WAITING),
    ]


def _tasks_text(device: PoolDevice, is_short: bool) -> str:
    """Our tasks by id, and the number of other tasks."""
    own = [
        f"{short_id(use.task_id) if is_short else use.task_id} ({show_milli(use.milli)})"
        for use in device.uses
        if use.task_id is not None
    ]
    others = len(device.uses) - len(own)
    return ", ".join([*own, *([f"{others} of other accounts"] if others else [])])
