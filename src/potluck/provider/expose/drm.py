"""Cards as the kernel's graphics subsystem shows them: a render node, and a directory in /sys."""

import re
from pathlib import Path

from potluck.provider.detect.types import FoundDevice
from potluck.provider.expose.exposed import Exposed, HostPaths, open_nodes
from potluck.provider.sandbox.driver import Mount

# Directories of nothing but links, by which libraries find the one card that is there; the others'
# links lead nowhere.
_LINKS = ("/sys/class/drm", "/sys/dev/char", "/sys/bus/pci/devices")
_RENDER_NODE = re.compile(r"renderD[0-9]+")


def node(device: FoundDevice, machine: HostPaths) -> Exposed:
    """Its render node; never its other node, by which a screen is controlled."""
    path = render_node(device, machine)
    if path is None:
        missing = f"None of the nodes in /dev/dri can be told to be the one of {device.model}."
        return Exposed(problems=(missing,))
    return open_nodes([machine.shown(path)])


def render_node(device: FoundDevice, machine: HostPaths) -> str | None:
    """By the kernel's word, else by its driver's; the only one there is has no rival."""
    place = _place(device, machine)
    names = sorted(each.name for each in place.glob("drm/renderD*")) if place else []
    names = [name for name in names if _RENDER_NODE.fullmatch(name)]
    if not names and device.minor is not None:
        names = [f"renderD{device.minor}"]
    if not names and len(all_there := list(machine.at("/dev/dri").glob("renderD*"))) == 1:
        names = [all_there[0].name]
    return f"/dev/dri/{names[0]}" if names else None


def facts(device: FoundDevice, machine: HostPaths) -> Exposed:
    """What /sys tells of this card."""
    place = _place(device, machine)
    if place is None:
        return Exposed()
    links = [machine.shown(path) for path in _LINKS if machine.at(path).is_dir()]
    inside = f"/{place.relative_to(machine.root.resolve())}"
    return Exposed(mounts=(*links, Mount(place, inside)))


def _place(device: FoundDevice, machine: HostPaths) -> Path | None:
    """The card's own directory. Addresses are spelt with or without the domain."""
    wanted = device.bus_address.lower()
    if not wanted:
        return None
    for link in machine.at("/sys/bus/pci/devices").glob("*"):
        if link.name == wanted or (wanted.count(":") == 1 and link.name.endswith(f":{wanted}")):
            return link.resolve()
    return None
