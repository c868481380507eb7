"""A snapshot as text: the header of the screen, and the rows of its two tables."""

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct

from potluck.cli.gpus.device_text import device_name, pool_state_cell, price_text
from potluck.cli.tasks.items import percent_done
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.tasks.task_text import (
    TONES,
    describe_place,
    describe_reason,
    duration_seconds,
    last_attempt,
)
from potluck.cli.terminal.live_line import draw_short_bar
from potluck.cli.terminal.screen import Tone
from potluck.cli.terminal.table import Cell, TableColumn
from potluck.cli.top.snapshot import TopSnapshot
from potluck.model.device import WHOLE_DEVICE_MILLI
from potluck.model.units import show_amount, show_bytes, show_credits, show_milli, show_seconds
from potluck.wire.consumer import DeviceCounts, PoolDevice, TaskView

_WIDE = 100

TASK_COLUMNS = [
    TableColumn("ID"),
    TableColumn("NAME", shrinks=True),
    TableColumn("STATE"),
    TableColumn("PROGRESS"),
    TableColumn("RAN", is_number=True),
    TableColumn("COST", is_number=True, from_width=_WIDE),
    TableColumn("WHERE OR WHY", shrinks=True),
]
DEVICE_COLUMNS = [
    TableColumn("DEVICE", shrinks=True),
    TableColumn("NODE", shrinks=True),
    TableColumn("USE"),
    TableColumn("MEMORY", is_number=True, from_width=72),
    TableColumn("HEAT", is_number=True, from_width=72),
    TableColumn("POWER", is_number=True, from_width=_WIDE),
    TableColumn("PRICE/H", is_number=True),
    TableColumn("STATE"),
]


class TextRow(Struct, frozen=True):
    """One row of a table, and the id of its task or device."""

    key: str
    cells: list[Cell]


class TaskOrder(StrEnum):
    """The order of the tasks; unfinished ones come first in each."""

    AGE = "age"  # the newest
    NAME = "name"
    STATE = "state"
    TIME = "time"  # the longest
    COST = "cost"  # the most expensive


class DeviceOrder(StrEnum):
    NODE = "node"
    MODEL = "model"
    USE = "use"  # the busiest
    FREE = "free"  # the largest free share
    PRICE = "price"  # the cheapest


def head_lines(snapshot: TopSnapshot) -> list[list[Cell]]:
    """Two lines: the account and the server, and the pool."""
    me, pool = snapshot.me, snapshot.pool
    credit = show_amount(me.available_micro)
    held_suffix = f" + {show_credits(me.held_micro)} held" if me.held_micro else ""
    wallet = f"{me.address[:6]}…{me.address[-4:]}"
    silent = f" ({pool.silent_nodes} silent)" if pool.silent_nodes else ""
    queue = f"{_capped_count(pool.waiting_tasks, pool.counted_tasks)} waiting"
    return [
        [
            Cell("Potluck", Tone.STRONG),
            Cell(snapshot.url),
            Cell(wallet),
            Cell(credit + held_suffix),
        ],
        [
            Cell(f"{pool.nodes} {'node' if pool.nodes == 1 else 'nodes'}{silent}"),
            *_device_counts(pool.gpus, "GPU"),
            *_device_counts(pool.cpus, "CPU"),
            Cell(f"{pool.running_attempts:,} running", Tone.BUSY),
            Cell(queue, Tone.WAITING if pool.waiting_tasks else Tone.PLAIN),
        ],
    ]


def _device_counts(counts: DeviceCounts, noun: str) -> list[Cell]:
    total = counts.free + counts.busy + counts.away
    if not total:
        return []
    away = f", {counts.away} away" if counts.away else ""
    several = noun if total == 1 else f"{noun}s"
    return [
        Cell(
            f"{counts.free} of {total} {several} free{away}",
            Tone.GOOD if counts.free else Tone.PLAIN,
        )
    ]


def _capped_count(number: int, most: int) -> str:
    return f"{number:,}+" if number >= most else f"{number:,}"


def task_rows(snapshot: TopSnapshot, order: TaskOrder, filter_text: str) -> list[TextRow]:
    rank = _TASK_RANKS[order]
    ranked = sorted(snapshot.tasks, key=lambda task: rank(task, snapshot.at))
    ranked.sort(key=lambda task: task.state.is_final)
    rows = (TextRow(task.id, _task_cells(task, snapshot.at)) for task in ranked)
    return [row for row in rows if _matches(row, filter_text)]


def _newest(task: TaskView, _: datetime) -> Any:
    return -task.created_at.timestamp()


_TASK_RANKS: dict[TaskOrder, Callable[[TaskView, datetime], Any]] = {
    TaskOrder.AGE: _newest,
    TaskOrder.NAME: lambda task, now: (task.name.lower(), _newest(task, now)),
    TaskOrder.STATE: lambda task, now: (list(TONES).index(task.state), _newest(task, now)),
    TaskOrder.TIME: lambda task, now: -(duration_seconds(task, now) or 0.0),
    TaskOrder.COST: lambda task, now: (-task.charge_micro, _newest(task, now)),
}


def _task_cells(task: TaskView, now: datetime) -> list[Cell]:
    ran = duration_seconds(task, now)
    return [
        Cell(short_id(task.id), Tone.STRONG),
        Cell(task.name if task.items is None else f"{task.name} × {task.items.total:,}"),
        Cell(task.phase, TONES[task.state]),
        Cell(
            "" if task.items is None else draw_short_bar(percent_done(task.items)),
            TONES[task.state],
        ),
        Cell("" if ran is None else show_seconds(ran)),
        Cell(show_credits(task.charge_micro) if task.charge_micro else ""),
        _where_or_why(task),
    ]


def _where_or_why(task: TaskView) -> Cell:
    reason, attempt = describe_reason(task), last_attempt(task)
    if reason or attempt is None:
        return Cell(reason, Tone.FAINT if task.state.is_final else Tone.WAITING)
    return Cell(describe_place(attempt), Tone.FAINT if task.state.is_final else Tone.PLAIN)


def device_rows(snapshot: TopSnapshot, order: DeviceOrder, filter_text: str) -> list[TextRow]:
    ranked = sorted(snapshot.devices, key=lambda device: (device.node_name, device.id))
    ranked.sort(key=_DEVICE_RANKS[order])
    rows = (TextRow(device.id, _device_cells(device)) for device in ranked)
    return [row for row in rows if _matches(row, filter_text)]


_DEVICE_RANKS: dict[DeviceOrder, Callable[[PoolDevice], Any]] = {
    DeviceOrder.NODE: lambda device: not device.is_mine,
    DeviceOrder.MODEL: lambda device: device.description.model.lower(),
    DeviceOrder.USE: lambda device: -_use_percent(device),
    DeviceOrder.FREE: lambda device: -device.free_milli,
    DeviceOrder.PRICE: lambda device: device.description.terms.price_micro_per_hour,
}


def _device_cells(device: PoolDevice) -> list[Cell]:
    description, sample = device.description, device.sample
    heat = None if sample is None else sample.temperature_celsius
    watts = None if sample is None else sample.power_watts
    return [
        Cell(device_name(description), Tone.STRONG),
        Cell(device.node_name, Tone.STRONG if device.is_mine else Tone.PLAIN),
        Cell(draw_short_bar(int(_use_percent(device))) if sample else "", Tone.BUSY),
        Cell(_memory_text(device)),
        Cell(
            "" if heat is None else f"{heat:.0f} °C", Tone.BAD if (heat or 0) >= 85 else Tone.PLAIN
        ),
        Cell("" if watts is None else f"{watts:.0f} W"),
        Cell(price_text(description.terms.price_micro_per_hour)),
        _state_cell(device),
    ]


def _use_percent(device: PoolDevice) -> float:
    percent = None if device.sample is None else device.sample.utilisation_percent
    return percent or 0.0


def _memory_text(device: PoolDevice) -> str:
    """Used and total memory; only the total if usage is not reported."""
    total = device.description.memory_bytes
    used = None if device.sample is None else device.sample.memory_used_bytes
    return show_bytes(total) if used is None else f"{used / 2**30:.1f}/{show_bytes(total)}"


def _state_cell(device: PoolDevice) -> Cell:
    """Whether it is free, partly free or busy, or why it takes no work."""
    cell = pool_state_cell(device)
    if cell.tone is not Tone.GOOD:
        return cell
    if device.free_milli == WHOLE_DEVICE_MILLI:
        return Cell("free", Tone.GOOD)
    return Cell(f"{show_milli(device.free_milli)} free" if device.free_milli else "busy", Tone.BUSY)


def _matches(row: TextRow, filter_text: str) -> bool:
    """Whether the id or any cell contains the text."""
    words = filter_text.lower()
    return words in row.key or any(words in cell.text.lower() for cell in row.cells)
