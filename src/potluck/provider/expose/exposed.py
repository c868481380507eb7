"""What a task is shown of its devices, and the machine on which that is looked for.

The wall is what is absent: a device node that was not granted does not exist inside, and no task
can make one. The variables are for libraries that would otherwise look for more than is there, and
for runs without a sandbox, where nothing is absent.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from potluck.provider.detect.types import FoundDevice
from potluck.provider.sandbox.driver import Mount

_OTHERS, _GROUP = 0o006, 0o060  # may read and write


class Exposed(Struct, frozen=True):
    """`problems` are sentences that say what is missing, and what the owner can do about it."""

    environment: dict[str, str] = {}
    device_nodes: tuple[Mount, ...] = ()
    mounts: tuple[Mount, ...] = ()
    problems: tuple[str, ...] = ()


class HostPaths(Struct, frozen=True):
    """Where /dev, /sys, /proc and descriptions of devices are; tests make trees of their own."""

    root: Path = Path("/")

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def shown(self, path: str) -> Mount:
        """Under the same name inside."""
        return Mount(self.at(path), path)


class WantedDevices(Struct, frozen=True):
    """Devices of one vendor that are to be shown, among all that the machine has of it.

    In a sandbox only the granted ones are there, so libraries count these; elsewhere, all of them.
    """

    granted: tuple[FoundDevice, ...]
    countable: tuple[FoundDevice, ...]

    @property
    def numbers(self) -> str:
        order = sorted(self.countable, key=lambda one: (one.bus_address.lower(), one.ordinal))
        return ",".join(str(order.index(one)) for one in self.granted)


def together(parts: Iterable[Exposed]) -> Exposed:
    """What several need, each thing once. The later ones have the last word on variables."""
    environment: dict[str, str] = {}
    nodes: dict[str, Mount] = {}
    mounts: dict[str, Mount] = {}
    problems: list[str] = []
    for part in parts:
        environment |= part.environment
        nodes |= {node.target: node for node in part.device_nodes}
        mounts |= {mount.target: mount for mount in part.mounts}
        problems += [each for each in part.problems if each not in problems]
    return Exposed(environment, tuple(nodes.values()), tuple(mounts.values()), tuple(problems))


def open_nodes(nodes: Iterable[Mount]) -> Exposed:
    """These nodes, and what keeps a task from using them."""
    nodes = tuple(nodes)
    problems = (_problem(node) for node in nodes)
    return Exposed(device_nodes=nodes, problems=tuple(filter(None, problems)))


def _problem(node: Mount) -> str | None:
    try:
        may_open = _may_be_opened(node.source)
    except OSError:
        return f"{node.target} is not there; the driver of the device may not be loaded."
    if may_open:
        return None
    group = _group_name(node.source)
    return (
        f"{node.target} may be opened by the group {group} only; add the user that runs the "
        f"provider to it (`sudo usermod -aG {group} USER`) and log in again."
    )


def _may_be_opened(node: Path) -> bool:
    """A task of root's provider is a user of its own, who is only given the node's group."""
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
