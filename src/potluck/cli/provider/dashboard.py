"""A machine on one screen: what it offers, whether it takes work, what it does."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from potluck.cli.gpus.device_text import (
    device_name,
    part_of,
    price_text,
    state_cell,
)
from potluck.cli.provider.machine import NO_WALLS, DeviceShown, MachineView
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.terminal.screen import Pane, Tone, printable
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.cli.terminal.units import show_bytes, show_seconds
from potluck.model.device import Availability, Health, Standing
from potluck.provider.control.message import AttemptNow

_HEALTHS = {
    Health.THROTTLED: "is too hot or short of power, and slow",
    Health.MEMORY_ERRORS: "has errors in its memory",
    Health.LOST: "does not answer any more",
}


class _Figure(NamedTuple):
    """A column that is there only if some device has something in it."""

    column: TableColumn
    cell: Callable[[DeviceShown], Cell]


def show_machine(pane: Pane, machine: MachineView) -> None:
    facts = " · ".join(printable(fact) for fact in machine.facts)
    pane.line(f"{pane.paint(printable(machine.name), Tone.STRONG)} {facts}")
    for problem in machine.problems:
        pane.prose(printable(problem), Tone.BAD)
    if not machine.sandbox.is_safe_for_strangers:
        pane.prose(NO_WALLS, Tone.WAITING)
    pane.line()
    _show_devices(pane, machine.devices)
    _show_reasons(pane, machine.devices)
    if machine.attempts:
        pane.line()
        _show_attempts(pane, machine)
    for remark in machine.remarks:
        pane.line(printable(remark), Tone.FAINT)


def _show_devices(pane: Pane, devices: Sequence[DeviceShown]) -> None:
    kept = [figure for figure in _FIGURES if any(figure.cell(each).text for each in devices)]
    columns = [figure.column for figure in kept]
    show_table(pane, columns, [[figure.cell(each) for figure in kept] for each in devices])


def _show_reasons(pane: Pane, devices: Sequence[DeviceShown]) -> None:
    for device in devices:
        for reason in reasons(device):
            pane.prose(printable(reason), Tone.WAITING, first=f"{device.number}: ", rest="   ")


def reasons(device: DeviceShown) -> list[str]:
    """Why a device gets no work, or less than it might, or does otherwise, in sentences."""
    model, health = device.description.model, device.status.health
    said = [device.why] if device.availability is not Availability.AVAILABLE else []
    if device.standing is not Standing.BOUND:
        said.append(f"{model} is not this machine's to offer: {device.standing}.")
    if health in _HEALTHS and device.availability is not Availability.SICK:
        said.append(f"{model} {_HEALTHS[health]}.")
    said = [sentence or f"{model} takes no new work." for sentence in said]
    return [*said, device.refusal] if device.refusal else said


def _show_attempts(pane: Pane, machine: MachineView) -> None:
    numbers = {each.description.uuid: str(each.number) for each in machine.devices}
    columns = [
        TableColumn("TASK"),
        TableColumn("PHASE"),
        TableColumn("FOR", is_number=True),
        TableColumn("ON"),
    ]
    rows = [_attempt_row(pane, attempt, numbers) for attempt in machine.attempts]
    show_table(pane, columns, rows)


def _attempt_row(pane: Pane, attempt: AttemptNow, numbers: dict[str, str]) -> list[Cell]:
    on = ", ".join(numbers.get(uuid, uuid) for uuid in attempt.devices)
    return [
        Cell(short_id(attempt.task_id) if pane.is_terminal else attempt.task_id, Tone.STRONG),
        *(Cell(attempt.phase, Tone.BUSY), Cell(show_seconds(attempt.seconds)), Cell(on)),
    ]


def _state(device: DeviceShown) -> Cell:
    return state_cell(device.availability, device.standing, device.status.health)


def _memory(device: DeviceShown) -> Cell:
    total, used = device.description.memory_bytes, device.status.memory_used_bytes
    return Cell(show_bytes(total) if used is None else part_of(used, total))


def _unit(value: float | None, unit: str) -> Cell:
    return Cell("" if value is None else f"{value:.0f} {unit}")


_FIGURES = (
    _Figure(TableColumn("#", is_number=True), lambda each: Cell(str(each.number), Tone.FAINT)),
    _Figure(
        TableColumn("DEVICE", shrinks=True),
        lambda each: Cell(device_name(each.description), Tone.STRONG),
    ),
    _Figure(TableColumn("STATE"), _state),
    _Figure(
        TableColumn("PRICE", is_number=True),
        lambda each: Cell(price_text(each.description.terms.price_micro_per_hour)),
    ),
    _Figure(TableColumn("SERVES"), lambda each: Cell(each.serves, Tone.BUSY)),
    _Figure(
        TableColumn("LOAD", is_number=True),
        lambda each: _unit(each.status.utilisation_percent, "%"),
    ),
    _Figure(
        TableColumn("HEAT", is_number=True),
        lambda each: _unit(each.status.temperature_celsius, "°C"),
    ),
    _Figure(TableColumn("POWER", is_number=True), lambda each: _unit(each.status.power_watts, "W")),
    _Figure(TableColumn("MEMORY", is_number=True), _memory),
)
