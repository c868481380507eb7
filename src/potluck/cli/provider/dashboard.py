"""A machine on one screen: its devices, whether they take work, and what runs."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from potluck.cli.gpus.device_text import device_name, part_text, price_text, state_cell
from potluck.cli.provider.machine import DeviceShown, MachineView, own_tasks_only_sentence
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.terminal.screen import Pane, Tone, printable
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.model.device import Availability, Health, Standing
from potluck.model.units import show_bytes, show_seconds
from potluck.provider.control.message import AttemptNow

_HEALTHS = {
    Health.THROTTLED: "is throttled: too hot, or short of power",
    Health.MEMORY_ERRORS: "has errors in its memory",
    Health.LOST: "no longer answers",
}


class _Figure(NamedTuple):
    """A column that is shown only if it has a value for some device."""

    column: TableColumn
    cell: Callable[[DeviceShown], Cell]


def show_machine(pane: Pane, machine: MachineView) -> None:
    facts = " · ".join(printable(fact) for fact in machine.facts)
    pane.line(f"{pane.paint(printable(machine.name), Tone.STRONG)} {facts}")
    for problem in machine.problems:
        pane.prose(printable(problem), Tone.BAD)
    if sentence := own_tasks_only_sentence(machine.sandbox):
        pane.prose(printable(sentence), Tone.WAITING)
    pane.line()
    _show_devices(pane, machine.devices)
    _show_reasons(pane, machine.devices)
    if machine.attempts:
        pane.line()
        _show_attempts(pane, machine)
    for remark in machine.remarks:
        pane.line(printable(remark), Tone.FAINT)


def _show_devices(pane: Pane, devices: Sequence[DeviceShown]) -> None:
    shown = [figure for figure in _FIGURES if any(figure.cell(device).text for device in devices)]
    columns = [figure.column for figure in shown]
    show_table(pane, columns, [[figure.cell(device) for figure in shown] for device in devices])


def _show_reasons(pane: Pane, devices: Sequence[DeviceShown]) -> None:
    for device in devices:
        for reason in device_reasons(device):
            pane.prose(printable(reason), Tone.WAITING, first=f"{device.number}: ", rest="   ")


def device_reasons(device: DeviceShown) -> list[str]:
    """Sentences that explain why a device gets no work, or less than it could."""
    model, health = device.description.model, device.status.health
    sentences = [device.why] if device.availability is not Availability.AVAILABLE else []
    if device.standing is not Standing.BOUND:
        sentences.append(f"This machine may not offer {model}: {device.standing}.")
    if health in _HEALTHS and device.availability is not Availability.SICK:
        sentences.append(f"{model} {_HEALTHS[health]}.")
    sentences = [sentence or f"{model} takes no new work." for sentence in sentences]
    return [*sentences, device.refusal] if device.refusal else sentences


def _show_attempts(pane: Pane, machine: MachineView) -> None:
    numbers = {device.description.uuid: str(device.number) for device in machine.devices}
    columns = [
        TableColumn("TASK"),
        TableColumn("PHASE"),
        TableColumn("FOR", is_number=True),
        TableColumn("ON"),
    ]
    rows = [_attempt_row(pane, attempt, numbers) for attempt in machine.attempts]
    show_table(pane, columns, rows)


def _attempt_row(pane: Pane, attempt: AttemptNow, numbers: dict[str, str]) -> list[Cell]:
    devices = ", ".join(numbers.get(uuid, uuid) for uuid in attempt.devices)
    return [
        Cell(short_id(attempt.task_id) if pane.is_terminal else attempt.task_id, Tone.STRONG),
        *(Cell(attempt.phase, Tone.BUSY), Cell(show_seconds(attempt.seconds)), Cell(devices)),
    ]


def _state(device: DeviceShown) -> Cell:
    return state_cell(device.availability, device.standing, device.status.health)


def _memory(device: DeviceShown) -> Cell:
    total, used = device.description.memory_bytes, device.status.memory_used_bytes
    return Cell(show_bytes(total) if used is None else part_text(used, total))


def _unit(value: float | None, unit: str) -> Cell:
    return Cell("" if value is None else f"{value:.0f} {unit}")


_FIGURES = (
    _Figure(TableColumn("#", is_number=True), lambda device: Cell(str(device.number), Tone.FAINT)),
    _Figure(
        TableColumn("DEVICE", shrinks=True),
        lambda device: Cell(device_name(device.description), Tone.STRONG),
    ),
    _Figure(TableColumn("STATE"), _state),
    _Figure(
        TableColumn("PRICE", is_number=True),
        lambda device: Cell(price_text(device.description.terms.price_micro_per_hour)),
    ),
    _Figure(TableColumn("SERVES"), lambda device: Cell(device.serves, Tone.BUSY)),
    _Figure(
        TableColumn("LOAD", is_number=True),
        lambda device: _unit(device.status.utilisation_percent, "%"),
    ),
    _Figure(
        TableColumn("HEAT", is_number=True),
        lambda device: _unit(device.status.temperature_celsius, "°C"),
    ),
    _Figure(
        TableColumn("POWER", is_number=True), lambda device: _unit(device.status.power_watts, "W")
    ),
    _Figure(TableColumn("MEMORY", is_number=True), _memory),
)
