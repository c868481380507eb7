"""Intel's cards (not what is built into processors, which OpenCL finds), as the kernel tells.

In a process of its own, see child.py. Both of the kernel's drivers are known: i915 and xe.
"""

import re
from pathlib import Path

from potluck.model.device import DeviceKind, Health
from potluck.provider.detect import plausible, sysfs
from potluck.provider.detect.question import Looks, serve
from potluck.provider.detect.report import RouteAnswer, answered
from potluck.provider.detect.types import FoundDevice, Sample, stable_uuid, told

# What is built into a processor is on its first bus.
_BUILT_IN = re.compile(r"[0-9a-f]+:00:")
# The window to the card's own memory is the third; each line has its first and its last byte.
_MEMORY_WINDOW = 2


class Intel:
    """Its cards, below one /sys."""

    def __init__(self, root: Path = sysfs.SYSFS) -> None:
        self._root = root

    def find(self) -> RouteAnswer:
        return answered(tuple(self._device(card) for card in self._cards()))

    def look(self) -> Looks:
        return Looks(
            {stable_uuid(self._device(card)): self._sample(card) for card in self._cards()}
        )

    def set_power(self, uuid: str, watts: int | None) -> str | None:
        return f"{uuid} can not be told how much power to draw." if watts else None

    def _cards(self) -> list[Path]:
        known = sysfs.cards_of(sysfs.INTEL, self._root)
        return [card for card in known if not _BUILT_IN.match(card.name)]

    def _device(self, card: Path) -> FoundDevice:
        sensors = sysfs.sensors(card)
        watts = plausible.watts(sysfs.scaled(sensors / "power1_max" if sensors else None, 10**6))
        code = sysfs.text(card / "device").removeprefix("0x")
        return FoundDevice(
            kind=DeviceKind.GPU,
            vendor="Intel",
            model=told(sysfs.text(card / "product_name"), f"Intel GPU {code}"),
            memory_bytes=_memory_bytes(card),
            interface="opencl",
            driver=told(" ".join(sysfs.drivers(card, self._root))),
            bus_address=card.name,
            route="intel",
            minor=sysfs.render_minor(card),
            pcie=sysfs.link(card),
            power_watts=round(watts) if watts else None,
        )

    def _sample(self, card: Path) -> Sample:
        if sysfs.is_lost(card):
            return Sample(Health.LOST, f"{card.name} is not on the bus any more.")
        at = sysfs.sensors(card) or card
        heat = [sysfs.scaled(path, 1_000) for path in sorted(at.glob("temp*_input"))]
        return Sample(
            temperature_celsius=max(
                (told for each in heat if (told := plausible.celsius(each)) is not None),
                default=None,
            ),
            power_watts=plausible.watts(sysfs.scaled(at / "power1_input", 10**6)),
        )


def _memory_bytes(card: Path) -> int:
    """The drivers tell it in different places; all else failing, the window to it is as large."""
    told_by = (
        *sorted((card / "drm").glob("card*/lmem_total_bytes")),
        *sorted(card.glob("tile*/physical_vram_size_bytes")),
    )
    for path in told_by:
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
