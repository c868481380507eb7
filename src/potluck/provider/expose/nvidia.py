"""NVIDIA's cards and the parts that MIG makes of them.

The driver's libraries lie below /usr, which every sandbox shows. `nvidia-uvm` is made when somebody
with rights first asks for it, so it may be missing after a boot, and nobody inside could make it.
What the driver tells in /proc is shown of the granted cards alone.
"""

import re
from contextlib import suppress

from potluck.provider.detect.types import FoundDevice
from potluck.provider.expose import drm
from potluck.provider.expose.exposed import (
    Exposed,
    HostPaths,
    WantedDevices,
    open_nodes,
    together,
)

CDI_KIND = "nvidia.com/gpu"
_CONTROL, _MEMORY, _TOOLS = "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"
_DRIVER = "/proc/driver/nvidia"
WINDOWS = "/dev/dxg"  # the one way to all cards in a Linux that runs inside of Windows
_CAPABILITY = re.compile(r"DeviceFileMinor:\s*([0-9]+)")
_MINOR = re.compile(r"Device Minor:\s*([0-9]+)")
_NO_MEMORY_NODE = (
    "/dev/nvidia-uvm is not there, without which CUDA finds no card; make it with "
    "`sudo nvidia-modprobe -u -c=0`."
)


def variables(wanted: WantedDevices) -> dict[str, str]:
    are_named = all(one.uuid for one in wanted.granted)
    names = ",".join(one.uuid for one in wanted.granted) if are_named else wanted.numbers
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": names,
        "NVIDIA_VISIBLE_DEVICES": names or "void",
    }


def node_of(device: FoundDevice, machine: HostPaths) -> str | None:
    minor = device.minor
    if minor is None and device.bus_address:
        minor = _told(_MINOR, f"{_DRIVER}/gpus/{device.bus_address}/information", machine)
    return None if minor is None else f"/dev/nvidia{minor}"


def nodes(device: FoundDevice, machine: HostPaths) -> Exposed:
    if not machine.at(_CONTROL).exists() and machine.at(WINDOWS).exists():
        return open_nodes([machine.shown(WINDOWS)])
    own = node_of(device, machine)
    if own is None:
        return Exposed(problems=(f"The driver does not say which node is {device.model}'s.",))
    paths = [_CONTROL, own, *_capabilities(device, machine)]
    paths += [path for path in (_MEMORY, _TOOLS) if machine.at(path).exists()]
    shown = open_nodes(map(machine.shown, paths))
    if _MEMORY in paths:
        return shown
    return together([shown, Exposed(problems=(_NO_MEMORY_NODE,))])


def facts(device: FoundDevice, machine: HostPaths) -> Exposed:
    paths = [f"{_DRIVER}/{name}" for name in ("params", "registry", "version")]
    paths.append(f"{_DRIVER}/gpus/{device.bus_address}")
    if device.gpu_instance is not None:
        paths.append(_instance(device))
    told = [machine.shown(path) for path in paths if machine.at(path).exists()]
    return together([drm.facts(device, machine), Exposed(mounts=tuple(told))])


def _capabilities(device: FoundDevice, machine: HostPaths) -> list[str]:
    """A part of a card is opened with two nodes more: of its memory, and of its processors."""
    if device.gpu_instance is None:
        return []
    found = [_told(_CAPABILITY, f"{_instance(device)}/access", machine)]
    if device.compute_instance is not None:
        path = f"{_instance(device)}/ci{device.compute_instance}/access"
        found.append(_told(_CAPABILITY, path, machine))
    return [f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in found if minor is not None]


def _instance(device: FoundDevice) -> str:
    return f"{_DRIVER}/capabilities/gpu{device.minor}/mig/gi{device.gpu_instance}"


def _told(number: re.Pattern[str], path: str, machine: HostPaths) -> int | None:
    with suppress(OSError):
        match = number.search(machine.at(path).read_text())
        return int(match[1]) if match else None
    return None
