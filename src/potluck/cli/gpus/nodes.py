"""`potluck nodes`: the machines in the pool."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from potluck.cli.gpus.device_text import device_name
from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Pane, Screen, Tone, printable
from potluck.cli.terminal.table import Cell, TableColumn, show_list, show_table
from potluck.model.device import WHOLE_DEVICE_MILLI, Availability
from potluck.model.node import NodeState
from potluck.model.units import show_bytes, show_since
from potluck.wire.consumer import DeviceView, NodeView


def nodes(server: ServerOption = None, json: JsonOption = False) -> None:
    """Show the machines in the pool and their devices."""
    screen = Screen(json)
    with connect(server) as potluck:
        pool_nodes, url = potluck.resources.nodes(), potluck.url
    show_list(
        screen,
        "nodes",
        pool_nodes,
        _show,
        f"The pool is empty. Add a machine with `potluck provide {url}`.",
    )


def _show(pane: Pane, nodes: Sequence[NodeView]) -> None:
    columns = [
        TableColumn("NODE", shrinks=True),
        TableColumn("STATE", wraps=True),
        TableColumn("DEVICES", shrinks=True, wraps=True),
        TableColumn("CORES", is_number=True),
        TableColumn("MEMORY", is_number=True),
        TableColumn("SANDBOX"),
        TableColumn("LAST CONTACT", is_number=True),
    ]
    now = datetime.now(UTC)
    show_table(pane, columns, [_row(node, now) for node in nodes])


def _row(node: NodeView, now: datetime) -> list[Cell]:
    tone = {NodeState.ONLINE: Tone.GOOD, NodeState.SILENT: Tone.WAITING, NodeState.LEFT: Tone.FAINT}
    return [
        Cell(f"{node.name} (mine)" if node.is_mine else node.name, Tone.STRONG),
        _state(node, tone[node.state]),
        Cell(_devices_text(node)),
        Cell(str(node.cores)),
        Cell(show_bytes(node.memory_bytes)),
        Cell(node.sandbox.driver),
        Cell(show_since(node.heartbeat_at, now)),
    ]


def _state(node: NodeView, tone: Tone) -> Cell:
    if node.cordoned_at is None:
        return Cell(node.state, tone)
    why = f" ({printable(node.cordoned_for)})" if node.cordoned_for else ""
    return Cell(f"{node.state}, cordoned{why}", Tone.WAITING)


def _devices_text(node: NodeView) -> str:
    """Each model once, with its count, how many are free and how many take no work."""
    models: dict[str, list[DeviceView]] = {}
    for device in node.devices:
        models.setdefault(device_name(device.description), []).append(device)
    return ", ".join(
        f"{len(devices)} × {name}, {_counts_text(devices)}" for name, devices in models.items()
    )


def _counts_text(devices: list[DeviceView]) -> str:
    away = Counter(device.availability for device in devices if _is_away(device))
    free = sum(
        device.free_milli == WHOLE_DEVICE_MILLI for device in devices if not _is_away(device)
    )
    parts = [f"{count} {availability.replace('_', ' ')}" for availability, count in away.items()]
    return ", ".join([f"{free} free", *parts])


def _is_away(device: DeviceView) -> bool:
    return device.availability is not Availability.AVAILABLE
