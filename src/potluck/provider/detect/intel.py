"""Intel cards, from the kernel's drivers i915 and xe; OpenCL finds integrated graphics.

Runs in a child process (see query_process.py).
"""

import re
from pathlib import Path

from potluck.model.device import DeviceKind, Health
from potluck.provider.detect import plausible, sysfs
from potluck.provider.detect.question import DeviceSamples, serve
from potluck.provider.detect.report import RouteAnswer, answer_with
from potluck.provider.detect.types import FoundDevice, Sample, clean_name, stable_uuid

# Integrated graphics are on the first bus.
_BUILT_IN = re.compile(r"[0-9a-f]+:00:")
# The card's memory is the third window; each line has its first and its last byte.
_MEMORY_WINDOW = 2


class Intel:
    """The Intel cards below one /sys."""

    def __init__(self, root: Path = sysfs.SYSFS) -> None:
        self._root = root

    def find(self) -> RouteAnswer:
        return answer_with(tuple(self._device(card) for card in self._cards()))

    def look(self) -> DeviceSamples:
        return DeviceSamples(
            {stable_uuid(self._device(card)): self._sample(card) for card in self._cards()}
        )

    def set_power(self, uuid: str, watts: int | None) -> str | None:
        return f"{uuid} does not support a power limit." if watts else None

    def _cards(self) -> list[Path]:
        cards = sysfs.cards_of(sysfs.INTEL, self._root)
        return [card for card in cards if not _BUILT_IN.match(card.name)]

    def _device(self, card: Path) -> FoundDevice:
        sensors = sysfs.sensors(card)
        watts = plausible.watts(sysfs.scaled(sensors / "power1_max" if sensors else None, 10**6))
        code = sysfs.text(card / "device").removeprefix("0x")
        return FoundDevice(
            kind=DeviceKind.GPU,
            vendor="Intel",
            model=clean_name(sysfs.text(card / "product_name"), f"Intel GPU {code}"),
            memory_bytes=_memory_bytes(card),
            interface="opencl",
            driver=clean_name(" ".join(sysfs.drivers(card, self._root))),
            bus_address=card.name,
            route="intel",
            minor=sysfs.render_minor(card),
            pcie=sysfs.link(card),
            power_watts=round(watts) if watts else None,
        )

    def _sample(self, card: Path) -> Sample:
        if sysfs.is_lost(card):
            return Sample(Health.LOST, f"{card.name} is no longer on the bus.")
        at = sysfs.sensors(card) or card
        readings = [plausible.celsius(sysfs.scaled(path, 1_000)) for path in at.glob("temp*_input")]
        return Sample(
            temperature_celsius=max(
                (celsius for celsius in readings if celsius is not None), default=None
            ),
            power_watts=plausible.watts(sysfs.scaled(at / "power1_input", 10**6)),
        )


def _memory_bytes(card: Path) -> int:
    """From the file of either driver, else the size of the memory window."""
    paths = (
        *sorted((card / "drm").glob("card*/lmem_total_bytes")),
        *sorted(card.glob("tile*/physical_vram_size_bytes")),
    )
    for path in paths:
        if size := plausible.memory_bytes(sysfs.whole(path)):
            return size
    return _window_bytes(sysfs.text(card / "resource"))


def _window_bytes(resource: str) -> int:
    lines = resource.splitlines()
    numbers = lines[_MEMORY_WINDOW].split() if len(lines) > _MEMORY_WINDOW else []
    try:
        first, last = int(numbers[0], 16), int(numbers[1], 16)
    except (IndexError, ValueError):
        return 0
    return plausible.memory_bytes(last - first + 1) or 0 if last else 0


if __name__ == "__main__":
    serve(Intel())
