"""AMD cards: their data and samples come from the kernel, their names from amdsmi, if installed.

Runs in a child process (see query_process.py). amdsmi comes with ROCm; Potluck does not install it.
"""

import sys
from pathlib import Path
from typing import Any

from potluck.model.device import DeviceKind, Health
from potluck.provider.detect import plausible, sysfs
from potluck.provider.detect.question import DeviceSamples, serve
from potluck.provider.detect.report import RouteAnswer, answer_with
from potluck.provider.detect.types import FoundDevice, Sample, clean_name, stable_uuid

_KFD = "class/kfd/kfd"


class Amd:
    """The AMD cards below one /sys."""

    def __init__(self, root: Path = sysfs.SYSFS) -> None:
        self._root = root

    def find(self) -> RouteAnswer:
        names = _names()
        devices = tuple(self._device(card, names) for card in self._cards())
        return answer_with(
            devices, "" if names else "amdsmi is not installed; the kernel was read."
        )

    def look(self) -> DeviceSamples:
        samples = {}
        for card in self._cards():
            device = self._device(card, {})
            samples[stable_uuid(device)] = self._sample(card, device)
        return DeviceSamples(samples)

    def set_power(self, uuid: str, watts: int | None) -> str | None:
        cards = [card for card in self._cards() if stable_uuid(self._device(card, {})) == uuid]
        sensors = sysfs.sensors(cards[0]) if cards else None
        if sensors is None or not (sensors / "power1_cap").exists():
            return f"{uuid} does not support a power limit."
        limit = sysfs.whole(sensors / "power1_cap_default") if watts is None else watts * 10**6
        least = sysfs.whole(sensors / "power1_cap_min") or 0
        most = sysfs.whole(sensors / "power1_cap_max") or sys.maxsize
        if limit is None or not least <= limit <= most:
            return f"It takes a power limit from {least // 10**6} to {most // 10**6} W."
        # Read first: keeping the current limit needs no permission.
        is_set = sysfs.whole(sensors / "power1_cap") == limit
        return None if is_set else _write(sensors / "power1_cap", limit)

    def _cards(self) -> list[Path]:
        """The cards that can compute: the driver reports their memory."""
        cards = sysfs.cards_of(sysfs.AMD, self._root)
        return [card for card in cards if sysfs.whole(card / "mem_info_vram_total")]

    def _device(self, card: Path, names: dict[str, str]) -> FoundDevice:
        minor = sysfs.render_minor(card)
        cap = sysfs.sensors(card)
        watts = plausible.watts(sysfs.scaled(cap / "power1_cap" if cap else None, 10**6))
        unique = sysfs.text(card / "unique_id")
        code = sysfs.text(card / "device").removeprefix("0x")
        model = names.get(card.name) or sysfs.text(card / "product_name")
        return FoundDevice(
            kind=DeviceKind.GPU,
            vendor="AMD",
            model=clean_name(model, f"AMD GPU {code}"),
            memory_bytes=plausible.memory_bytes(sysfs.whole(card / "mem_info_vram_total")) or 0,
            # Without the kernel's compute driver, only OpenCL can use it.
            interface="hip" if self._node(minor) else "opencl",
            driver=clean_name(" ".join(sysfs.drivers(card, self._root))),
            # ROCm's form, which ROCR_VISIBLE_DEVICES accepts.
            uuid=f"GPU-{unique}" if unique.strip("0") else "",
            bus_address=card.name,
            route="amd",
            minor=minor,
            pcie=sysfs.link(card),
            power_watts=round(watts) if watts else None,
        )

    def _sample(self, card: Path, device: FoundDevice) -> Sample:
        if sysfs.is_lost(card):
            return Sample(Health.LOST, f"{device.model} is no longer on the bus.")
        at = sysfs.sensors(card) or card
        drawn = sysfs.scaled(at / "power1_average", 10**6)
        if drawn is None:
            drawn = sysfs.scaled(at / "power1_input", 10**6)
        return Sample(
            utilisation_percent=plausible.percent(sysfs.whole(card / "gpu_busy_percent")),
            temperature_celsius=plausible.celsius(sysfs.scaled(at / "temp1_input", 1_000)),
            memory_used_bytes=plausible.memory_bytes(sysfs.whole(card / "mem_info_vram_used")),
            power_watts=plausible.watts(drawn),
            memory_errors=_memory_errors(card),
            pids=self._pids(device),
        )

    def _node(self, minor: int | None) -> Path | None:
        """The compute driver has its own numbering of cards; the render node links the two."""
        if minor is None:
            return None
        nodes = sorted((self._root / _KFD / "topology/nodes").glob("*"))
        line = f"drm_render_minor {minor}"
        return next((n for n in nodes if line in sysfs.text(n / "properties").splitlines()), None)

    def _pids(self, device: FoundDevice) -> tuple[int, ...] | None:
        node = self._node(device.minor)
        if node is None:
            return None
        name = f"vram_{sysfs.text(node / 'gpu_id')}"
        using = (self._root / _KFD / "proc").glob(f"*/{name}")
        return plausible.pids([_pid(path) for path in using if sysfs.whole(path)])


def _pid(path: Path) -> object:
    """The parent directory is named after the process."""
    return int(path.parent.name) if path.parent.name.isdecimal() else None


def _memory_errors(card: Path) -> int | None:
    """Uncorrected errors; the file has a line for each kind."""
    for line in sysfs.text(card / "ras/umc_err_count").splitlines():
        kind, _, number = line.partition(":")
        if kind.strip() == "ue" and number.strip().isdecimal():
            return plausible.count(int(number))
    return None


def _write(path: Path, value: int) -> str | None:
    try:
        path.write_text(str(value))
    except PermissionError:
        return "Only root may set the power limit of an AMD card."
    except OSError as error:
        return f"The power limit could not be set: {error.strerror}."
    return None


def _names() -> dict[str, str]:
    """By bus address; empty if amdsmi is missing or does not work."""
    try:
        import amdsmi  # type: ignore[import-not-found]
    except (ImportError, OSError, KeyError, AttributeError):
        # The bindings load ROCm's library on import; each version fails differently.
        return {}
    return _named(amdsmi)


def _named(amdsmi: Any) -> dict[str, str]:
    names: dict[str, str] = {}
    try:
        amdsmi.amdsmi_init()
        for handle in amdsmi.amdsmi_get_processor_handles():
            address = str(amdsmi.amdsmi_get_gpu_device_bdf(handle)).lower()
            name = amdsmi.amdsmi_get_gpu_asic_info(handle)["market_name"]
            if isinstance(name, str) and name not in ("", "N/A"):
                names[address] = name
        amdsmi.amdsmi_shut_down()
    except (amdsmi.AmdSmiException, AttributeError, KeyError):
        pass
    return names


if __name__ == "__main__":
    serve(Amd())
