"""What Linux itself says about the cards on the PCI bus, below /sys. In the child: see child.py.

Every number stands in a file of its own; a file that is not there, or can not be read, is a number
that is not told.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from potluck.provider.detect import plausible

SYSFS = Path("/sys")
AMD, INTEL, NVIDIA = 0x1002, 0x8086, 0x10DE
_DISPLAY = 0x03
# What reading a card gives that is not on the bus any more.
_ALL_BITS = b"\xff\xff\xff\xff"
# Transfers a second, in thousands of millions, of each generation of PCI Express.
_GENERATIONS = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5, "64": 6}


def cards_of(vendor: int, root: Path = SYSFS) -> list[Path]:
    """The directories of all its graphics cards and accelerators, by their address."""
    listed = sorted((root / "bus/pci/devices").glob("*:*:*.*"))
    return [
        path
        for path in listed
        if whole(path / "vendor") == vendor and (whole(path / "class") or 0) >> 16 == _DISPLAY
    ]


def text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def whole(path: Path) -> int | None:
    """A number, in tens or as 0x…"""
    said = text(path)
    try:
        return int(said, 0)
    except ValueError:
        return None


def scaled(path: Path | None, divisor: int) -> float | None:
    """The kernel counts in thousandths and millionths."""
    said = whole(path) if path else None
    return said / divisor if said is not None else None


def is_lost(card: Path) -> bool:
    """Not there any more, or there and not answering."""
    if not card.exists():
        return True
    try:
        with (card / "config").open("rb") as config:
            return config.read(4) == _ALL_BITS
    except OSError:
        return False


def sensors(card: Path) -> Path | None:
    """Where its temperature and power are told."""
    return next(iter(sorted((card / "hwmon").glob("hwmon*"))), None)


def render_minor(card: Path) -> int | None:
    """N of /dev/dri/renderDN."""
    nodes = (re.fullmatch(r"renderD(\d+)", path.name) for path in (card / "drm").glob("renderD*"))
    return next((int(match[1]) for match in nodes if match), None)


def link(card: Path) -> str | None:
    """The most that the card and its slot can do, such as "4.0 x16"."""
    speed = re.match(r"([\d.]+?)(?:\.0)? GT/s", text(card / "max_link_speed"))
    generation = _GENERATIONS.get(speed[1]) if speed else None
    return plausible.pcie(generation, whole(card / "max_link_width"))


def drivers(card: Path, root: Path = SYSFS) -> Iterator[str]:
    """The name of the kernel's driver for it, and its version, where it has one of its own."""
    module = (card / "driver").resolve().name if (card / "driver").exists() else ""
    if module:
        yield module
        if version := text(root / "module" / module / "version"):
            yield version
