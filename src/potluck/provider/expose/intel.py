"""Intel cards: a render node each."""

from potluck.provider.detect.types import FoundDevice
from potluck.provider.expose import drm
from potluck.provider.expose.exposed import Exposed, HostPaths, WantedDevices

CDI_KIND = "intel.com/gpu"


def variables(wanted: WantedDevices) -> dict[str, str]:
    """An empty mask would mean all cards, so it is left out if none is granted."""
    if not wanted.granted:
        return {"ONEAPI_DEVICE_SELECTOR": "*:cpu"}
    return {
        "ZE_AFFINITY_MASK": wanted.numbers,
        # Of the cards in the mask.
        "ONEAPI_DEVICE_SELECTOR": "level_zero:*;opencl:*",
    }


def node_of(device: FoundDevice, machine: HostPaths) -> str | None:
    return drm.render_node(device, machine)


def nodes(device: FoundDevice, machine: HostPaths) -> Exposed:
    return drm.node(device, machine)


def facts(device: FoundDevice, machine: HostPaths) -> Exposed:
    return drm.facts(device, machine)
