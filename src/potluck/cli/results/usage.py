"""Texts about the resources that attempts used."""

from potluck.model.units import show_bytes, show_seconds
from potluck.model.usage import Usage
from potluck.wire.own_machines import UsedInAll


def show_usage(usage: Usage) -> str:
    """Leaves out what the devices did not report."""
    return ", ".join(
        [
            f"{show_seconds(usage.cpu_seconds)} of CPU time",
            *_of_devices(usage),
            f"{show_bytes(usage.memory_peak_bytes)} of memory at its peak",
            f"{show_bytes(usage.log_bytes)} of log",
            *_of_files(usage),
        ]
    )


def show_total_usage(used: UsedInAll) -> str:
    """The total of many attempts on a machine, for its owner."""
    parts = [f"{show_seconds(used.cpu_seconds)} of CPU time", *_of_devices(used), *_of_files(used)]
    return ", ".join(parts)


def show_short_usage(usage: Usage) -> str:
    """For a column: the device's time if known, else the processor's, and memory."""
    seconds = usage.device_seconds or usage.cpu_seconds
    return f"{show_seconds(seconds)} · {show_bytes(usage.memory_peak_bytes)}"


def show_energy(joules: float) -> str:
    """In watt hours, or in joules if it is very little."""
    hours = joules / 3600
    if hours >= 1000:
        return f"{hours / 1000:.3g} kWh"
    return f"{hours:.3g} Wh" if hours >= 0.1 else f"{joules:.3g} J"


def _of_devices(usage: Usage | UsedInAll) -> list[str]:
    busy = [f"{show_seconds(usage.device_seconds)} of device time"] if usage.device_seconds else []
    joules = usage.energy_joules
    return busy if joules is None else [*busy, f"{show_energy(joules)} of energy"]


def _of_files(usage: Usage | UsedInAll) -> list[str]:
    inputs = [f"{show_bytes(usage.input_bytes)} of files in"] if usage.input_bytes else []
    outputs = [f"{show_bytes(usage.output_bytes)} out"] if usage.output_bytes else []
    moved = usage.network_bytes if isinstance(usage, Usage) else 0
    network = [f"{show_bytes(moved)} of network"] if moved else []
    return [*inputs, *outputs, *network]
