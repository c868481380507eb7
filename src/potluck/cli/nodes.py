"""`potluck nodes`: what is in the pool."""

from datetime import UTC, datetime

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.screen import Pane, Screen, Tone
from potluck.cli.table import Cell, Column, show_table
from potluck.cli.units import show_bytes, show_since
from potluck.model.device import WHOLE_DEVICE_MILLI
from potluck.model.node import NodeState
from potluck.wire.consumer import NodeView


def nodes(server: ServerOption = None, json: JsonOption = False) -> None:
    """Show the machines in the pool and their devices."""
    screen = Screen(json)
    with connect(server) as potluck:
        found, url = potluck.nodes(), potluck.url
    if json:
        screen.emit({"nodes": found})
    elif found:
        _show(screen.out, found)
    else:
        screen.err.line(f"The pool is empty. Bring a machine with `potluck provide {url}`.")


def _show(pane: Pane, found: list[NodeView]) -> None:
    columns = [
        Column("NODE", shrinks=True),
        Column("STATE"),
        Column("DEVICES", shrinks=True),
        Column("CORES", is_number=True),
        Column("MEMORY", is_number=True),
        Column("SANDBOX"),
        Column("HEARD", is_number=True),
    ]
    now = datetime.now(UTC)
    show_table(pane, columns, [_row(node, now) for node in found])


def _row(node: NodeView, now: datetime) -> list[Cell]:
    tone = {NodeState.ONLINE: Tone.GOOD, NodeState.SILENT: Tone.WAITING, NodeState.LEFT: Tone.FAINT}
    return [
        Cell(f"{node.name} (mine)" if node.is_mine else node.name, Tone.STRONG),
        Cell(node.state, tone[node.state]),
        Cell(_devices(node)),
        Cell(str(node.cores)),
        Cell(show_bytes(node.memory_bytes)),
        Cell(node.sandbox.driver),
        Cell(show_since(node.heartbeat_at, now)),
    ]


def _devices(node: NodeView) -> str:
    """Each kind of device once, with its number and how many are free."""
    counted: dict[str, list[int]] = {}
    for device in node.devices:
        name = f"{device.description.kind.upper()} {device.description.model}"
        counted.setdefault(name, []).append(device.free_milli)
    return ", ".join(
        f"{len(free)} × {name}, {sum(milli == WHOLE_DEVICE_MILLI for milli in free)} free"
        for name, free in counted.items()
    )
