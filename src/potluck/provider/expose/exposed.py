"""The nodes, files and variables of a task's devices, and the machine that they come from.

Isolation is by absence: a device node that was not granted does not exist inside, and no task can
create one. The variables are for libraries that would search for more devices, and for runs without
a sandbox, where nothing is absent.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from potluck.provider.detect.types import FoundDevice
from potluck.provider.sandbox.driver import Mount

_OTHERS, _GROUP = 0o006, 0o060  # may read and write


class Exposed(Struct, frozen=True):
    """`problems`: sentences about what is missing, and how the owner can fix it."""

    environment: dict[str, str] = {}
    device_nodes: tuple[Mount, ...] = ()
    mounts: tuple[Mount, ...] = ()
    problems: tuple[str, ...] = ()


class HostPaths(Struct, frozen=True):
    """The root of /dev, /sys, /proc and device descriptions; tests use other trees."""

    root: Path = Path("/")

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def shown(self, path: str) -> Mount:
        """Mounted at the same path inside."""
        return Mount(self.at(path), path)


class WantedDevices(Struct, frozen=True):
    """Granted devices of one vendor, and those that libraries number: in a sandbox the granted
    ones, otherwise all of the machine.
    """

    granted: tuple[FoundDevice, ...]
    countable: tuple[FoundDevice, ...]

    @property
    def numbers(self) -> str:
        order = sorted(
            self.countable, key=lambda device: (device.bus_address.lower(), device.ordinal)
        )
        return ",".join(str(order.index(device)) for device in self.granted)


def merge_exposed(parts: Iterable[Exposed]) -> Exposed:
    """Merges parts without duplicates; later variables win."""
    environment: dict[str, str] = {}
    nodes: dict[str, Mount] = {}
    mounts: dict[str, Mount] = {}
    problems: list[str] = []
    for part in parts:
        environment |= part.environment
        nodes |= {node.target: node for node in part.device_nodes}
        mounts |= {mount.target: mount for mount in part.mounts}
        problems += [problem for problem in part.problems if problem not in problems]
    return Exposed(environment, tuple(nodes.values()), tuple(mounts.values()), tuple(problems))


def open_nodes(nodes: Iterable[Mount]) -> Exposed:
    """These nodes, and the problems of those that cannot be opened."""
    nodes = tuple(nodes)
    problems = (_problem(node) for node in nodes)
    return Exposed(device_nodes=nodes, problems=tuple(filter(None, problems)))


def _problem(node: Mount) -> str | None:
    try:
        may_open = _may_be_opened(node.source)
    except OSError:
        return f"{node.target} does not exist; the driver of the device may not be loaded."
    if may_open:
        return None
    group = _group_name(node.source)
    return (
        f"Only the group {group} may open {node.target}; add the user that runs the "
        f"provider to it (`sudo usermod -aG {group} USER`) and log in again."
    )


def _may_be_opened(node: Path) -> bool:
    """Under root, a task runs as another user, which only gets the node's group."""
    if os.geteuid() != 0:
        node.stat()
        return os.access(node, os.R_OK | os.W_OK)
    status = node.stat()
    for_group = status.st_mode & _GROUP == _GROUP and status.st_gid != 0
    return status.st_mode & _OTHERS == _OTHERS or for_group


def _group_name(node: Path) -> str:
    try:
        return node.group()
    except KeyError:
        return str(node.stat().st_gid)
