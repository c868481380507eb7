"""Cards in the kernel's graphics subsystem: a render node, and a directory in /sys."""

import re
from pathlib import Path

from potluck.provider.detect.types import FoundDevice
from potluck.provider.expose.exposed import Exposed, HostPaths, open_nodes
from potluck.provider.sandbox.driver import Mount

# Directories of links, by which libraries find the exposed card; links of other cards are dangling.
_LINKS = ("/sys/class/drm", "/sys/dev/char", "/sys/bus/pci/devices")
_RENDER_NODE = re.compile(r"renderD[0-9]+")


def node(device: FoundDevice, machine: HostPaths) -> Exposed:
    """Its render node; never its display node."""
    path = render_node(device, machine)
    if path is None:
        missing = f"The node of {device.model} in /dev/dri cannot be identified."
        return Exposed(problems=(missing,))
    return open_nodes([machine.shown(path)])


def render_node(device: FoundDevice, machine: HostPaths) -> str | None:
    """From the kernel, else from its driver, else the only one there is."""
    directory = _directory(device, machine)
    names = sorted(path.name for path in directory.glob("drm/renderD*")) if directory else []
    names = [name for name in names if _RENDER_NODE.fullmatch(name)]
    if not names and device.minor is not None:
        names = [f"renderD{device.minor}"]
    if not names and len(all_nodes := list(machine.at("/dev/dri").glob("renderD*"))) == 1:
        names = [all_nodes[0].name]
    return f"/dev/dri/{names[0]}" if names else None


def facts(device: FoundDevice, machine: HostPaths) -> Exposed:
    """The card's data in /sys."""
    directory = _directory(device, machine)
    if directory is None:
        return Exposed()
    links = [machine.shown(path) for path in _LINKS if machine.at(path).is_dir()]
    inside = f"/{directory.relative_to(machine.root.resolve())}"
    return Exposed(mounts=(*links, Mount(directory, inside)))


def _directory(device: FoundDevice, machine: HostPaths) -> Path | None:
    """The card's directory in /sys. Addresses come with or without the domain."""
    address = device.bus_address.lower()
    if not address:
        return None
    for link in machine.at("/sys/bus/pci/devices").glob("*"):
        if link.name == address or (address.count(":") == 1 and link.name.endswith(f":{address}")):
            return link.resolve()
    return None
