"""What an attempt used, in words."""

from potluck.cli.units import show_bytes, show_seconds
from potluck.model.usage import Usage


def used(usage: Usage) -> str:
    """All that is known; what a device does not tell is left out."""
    return ", ".join(
        [
            f"{show_seconds(usage.cpu_seconds)} of processor",
            *_of_devices(usage),
            f"{show_bytes(usage.memory_peak_bytes)} of memory at most",
            f"{show_bytes(usage.log_bytes)} of log",
            *_of_files(usage),
        ]
    )


def used_in_short(usage: Usage) -> str:
    """For a column: the device's time where it is known, else the processor's, and memory."""
    computed = usage.device_seconds or usage.cpu_seconds
    return f"{show_seconds(computed)} · {show_bytes(usage.memory_peak_bytes)}"


def show_energy(joules: float) -> str:
    """Watt hours, as on a bill, once there are any."""
    return f"{joules / 3600:.3g} Wh" if joules >= 360 else f"{joules:.3g} J"


def _of_devices(usage: Usage) -> list[str]:
    busy = [f"{show_seconds(usage.device_seconds)} of device"] if usage.device_seconds else []
    joules = usage.energy_joules
    return busy if joules is None else [*busy, f"{show_energy(joules)} of energy"]


def _of_files(usage: Usage) -> list[str]:
    brought = [f"{show_bytes(usage.input_bytes)} of files in"] if usage.input_bytes else []
    left = [f"{show_bytes(usage.output_bytes)} out"] if usage.output_bytes else []
    return [*brought, *left]
