"""Reads Linux' data about the cards on the PCI bus from /sys.

Every value has a file of its own; a file that is missing or unreadable is a missing value.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from potluck.provider.detect import plausible

SYSFS = Path("/sys")
AMD, INTEL, NVIDIA = 0x1002, 0x8086, 0x10DE
_DISPLAY = 0x03
# The content of the configuration space of a card that is gone.
_ALL_BITS = b"\xff\xff\xff\xff"
# GT/s of each generation of PCI Express.
_GENERATIONS = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5, "64": 6}


def cards_of(vendor: int, root: Path = SYSFS) -> list[Path]:
    """The directories of a vendor's graphics cards and accelerators, by bus address."""
    return [
        path
        for path in sorted((root / "bus/pci/devices").glob("*:*:*.*"))
        if whole(path / "vendor") == vendor and (whole(path / "class") or 0) >> 16 == _DISPLAY
    ]


def text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def whole(path: Path) -> int | None:
    """An integer, decimal or as 0x…"""
    try:
        return int(text(path), 0)
    except ValueError:
        return None


def scaled(path: Path | None, divisor: int) -> float | None:
    """The kernel uses thousandths and millionths."""
    value = whole(path) if path else None
    return value / divisor if value is not None else None


def is_lost(card: Path) -> bool:
    """Whether it is gone, or does not respond."""
    if not card.exists():
        return True
    try:
        with (card / "config").open("rb") as config:
            return config.read(4) == _ALL_BITS
    except OSError:
        return False


def sensors(card: Path) -> Path | None:
    """The directory of its temperature and power sensors."""
    return next(iter(sorted((card / "hwmon").glob("hwmon*"))), None)


def render_minor(card: Path) -> int | None:
    """N of /dev/dri/renderDN."""
    nodes = (re.fullmatch(r"renderD(\d+)", path.name) for path in (card / "drm").glob("renderD*"))
    return next((int(match[1]) for match in nodes if match), None)


def link(card: Path) -> str | None:
    """The fastest link of the card and its slot, such as "4.0 x16"."""
    speed = re.match(r"([\d.]+?)(?:\.0)? GT/s", text(card / "max_link_speed"))
    generation = _GENERATIONS.get(speed[1]) if speed else None
    return plausible.pcie(generation, whole(card / "max_link_width"))


def drivers(card: Path, root: Path = SYSFS) -> Iterator[str]:
    """The name of its kernel driver, and the driver's version, if it has one."""
    module = (card / "driver").resolve().name if (card / "driver").exists() else ""
    if module:
        yield module
        if version := text(root / "module" / module / "version"):
            yield version
