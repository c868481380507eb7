"""AMD cards: /dev/kfd, which all share and which alone opens none of them, and a render node."""

from potluck.provider.detect.types import FoundDevice
from potluck.provider.expose import drm
from potluck.provider.expose.exposed import (
    Exposed,
    HostPaths,
    WantedDevices,
    merge_exposed,
    open_nodes,
)

CDI_KIND = "amd.com/gpu"
_COMPUTE = "/dev/kfd"
# The libraries list cards from here, and skip those that they cannot open.
_TOPOLOGY = ("/sys/class/kfd", "/sys/devices/virtual/kfd")
_NONE = "-1"  # an empty list would mean all


def variables(wanted: WantedDevices) -> dict[str, str]:
    numbers = wanted.numbers or _NONE
    return {"ROCR_VISIBLE_DEVICES": numbers, "HIP_VISIBLE_DEVICES": _after(wanted)}


def node_of(device: FoundDevice, machine: HostPaths) -> str | None:
    return drm.render_node(device, machine)


def nodes(device: FoundDevice, machine: HostPaths) -> Exposed:
    return merge_exposed([open_nodes([machine.shown(_COMPUTE)]), drm.node(device, machine)])


def facts(device: FoundDevice, machine: HostPaths) -> Exposed:
    topology = [machine.shown(path) for path in _TOPOLOGY if machine.at(path).is_dir()]
    return merge_exposed([drm.facts(device, machine), Exposed(mounts=tuple(topology))])


def _after(wanted: WantedDevices) -> str:
    """HIP numbers the devices that ROCR has left over."""
    return ",".join(str(number) for number in range(len(wanted.granted))) or _NONE
