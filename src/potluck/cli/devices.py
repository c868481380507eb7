"""`potluck devices`: every device of the pool, what is free of it and what it serves."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.device_words import device_name, part_of, price_text, state_cell
from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.pick import short_id
from potluck.cli.screen import Pane, Screen, Tone
from potluck.cli.table import Cell, Column, show_table
from potluck.cli.units import show_milli
from potluck.model.device import WHOLE_DEVICE_MILLI, DeviceKind, Health
from potluck.model.node import NodeState
from potluck.model.units import parse_milli
from potluck.wire.consumer import PoolDevice

if TYPE_CHECKING:
    from potluck.consumer import Potluck


def devices(
    kind: Annotated[DeviceKind | None, typer.Option(help="Only this kind.")] = None,
    model: Annotated[
        str | None, typer.Option(metavar="PATTERN", help='Such as "RTX 40*|A100".')
    ] = None,
    free: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="With so much free for a task now: 1, 0.25, 250m."),
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show the devices of the pool, what is free of each, and what it serves."""
    screen = Screen(json)
    free_milli = parse_milli(free, "--free") if free else None
    with connect(server) as potluck:
        found = list(_all(potluck, kind, model, free_milli))
    if json:
        screen.emit({"devices": found})
    elif found:
        _show(screen.out, found)
    else:
        screen.err.line("There is no such device. `potluck nodes` shows what there is.")


def _all(
    potluck: "Potluck", kind: DeviceKind | None, model: str | None, free_milli: int | None
) -> Iterator[PoolDevice]:
    cursor: str | None = None
    while True:
        page = potluck.resources.devices(cursor, kind=kind, model=model, free_milli=free_milli)
        yield from page.devices
        cursor = page.next_cursor
        if cursor is None:
            return


def _show(pane: Pane, found: list[PoolDevice]) -> None:
    columns = [
        Column("DEVICE"),
        Column("MODEL", shrinks=True),
        Column("NODE", shrinks=True),
        Column("FREE", is_number=True),
        Column("MEMORY", is_number=True),
        Column("PRICE", is_number=True),
        Column("STATE"),
        Column("SERVES", shrinks=True),
        Column("WHY", shrinks=True, wraps=True),
    ]
    rows = [_row(device, pane.is_terminal) for device in found]
    show_table(pane, *_filled(columns, rows))


def _filled(columns: list[Column], rows: list[list[Cell]]) -> tuple[list[Column], list[list[Cell]]]:
    """Without the columns in which nobody has anything to say."""
    kept = [place for place in range(len(columns)) if any(row[place].text for row in rows)]
    return [columns[place] for place in kept], [[row[place] for place in kept] for row in rows]


def _row(device: PoolDevice, is_short: bool) -> list[Cell]:
    said = device.description
    tone = Tone.GOOD if device.free_milli == WHOLE_DEVICE_MILLI else Tone.BUSY
    return [
        Cell(short_id(device.id) if is_short else device.id, Tone.STRONG),
        Cell(device_name(said)),
        Cell(f"{device.node_name} (mine)" if device.is_mine else device.node_name),
        Cell(show_milli(device.free_milli), tone),
        Cell(part_of(device.free_memory_bytes, said.offered_bytes)),
        Cell(price_text(said.terms.price_micro_per_hour)),
        _state(device),
        Cell(_serves(device, is_short), Tone.FAINT),
        Cell(device.why, Tone.WAITING),
    ]


def _state(device: PoolDevice) -> Cell:
    """Whether it gets work, and if not, why."""
    if device.node_state is not NodeState.ONLINE:
        return Cell(device.node_state, Tone.WAITING)
    health = device.sample.health if device.sample else Health.WELL
    return state_cell(device.availability, device.standing, health)


def _serves(device: PoolDevice, is_short: bool) -> str:
    """Tasks that we may know of by name, the others by number."""
    named = [
        f"{short_id(use.task_id) if is_short else use.task_id} ({show_milli(use.milli)})"
        for use in device.uses
        if use.task_id is not None
    ]
    others = len(device.uses) - len(named)
    return ", ".join([*named, *([f"{others} of others"] if others else [])])
