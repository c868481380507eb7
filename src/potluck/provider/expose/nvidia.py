"""NVIDIA cards and their MIG instances.

The driver's libraries are below /usr, which every sandbox contains. `nvidia-uvm` is created by its
first privileged user, so it may be missing after a boot, and a sandbox cannot create it. The
driver's files in /proc are exposed for granted cards only.
"""

import re
from contextlib import suppress

from potluck.provider.detect.types import FoundDevice
from potluck.provider.expose import drm
from potluck.provider.expose.exposed import (
    Exposed,
    HostPaths,
    WantedDevices,
    merge_exposed,
    open_nodes,
)

CDI_KIND = "nvidia.com/gpu"
_CONTROL, _MEMORY, _TOOLS = "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"
_DRIVER = "/proc/driver/nvidia"
WINDOWS = "/dev/dxg"  # the single node of all cards in WSL
_CAPABILITY = re.compile(r"DeviceFileMinor:\s*([0-9]+)")
_MINOR = re.compile(r"Device Minor:\s*([0-9]+)")
_NO_MEMORY_NODE = (
    "/dev/nvidia-uvm does not exist, and CUDA finds no card without it; create it with "
    "`sudo nvidia-modprobe -u -c=0`."
)


def variables(wanted: WantedDevices) -> dict[str, str]:
    uuids = [device.uuid for device in wanted.granted]
    names = ",".join(uuids) if all(uuids) else wanted.numbers
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": names,
        "NVIDIA_VISIBLE_DEVICES": names or "void",
    }


def node_of(device: FoundDevice, machine: HostPaths) -> str | None:
    minor = device.minor
    if minor is None and device.bus_address:
        minor = _read_number(_MINOR, f"{_DRIVER}/gpus/{device.bus_address}/information", machine)
    return None if minor is None else f"/dev/nvidia{minor}"


def nodes(device: FoundDevice, machine: HostPaths) -> Exposed:
    if not machine.at(_CONTROL).exists() and machine.at(WINDOWS).exists():
        return open_nodes([machine.shown(WINDOWS)])
    own = node_of(device, machine)
    if own is None:
        return Exposed(problems=(f"The driver does not report the node of {device.model}.",))
    paths = [_CONTROL, own, *_capabilities(device, machine)]
    paths += [path for path in (_MEMORY, _TOOLS) if machine.at(path).exists()]
    shown = open_nodes(map(machine.shown, paths))
    if _MEMORY in paths:
        return shown
    return merge_exposed([shown, Exposed(problems=(_NO_MEMORY_NODE,))])


def facts(device: FoundDevice, machine: HostPaths) -> Exposed:
    paths = [f"{_DRIVER}/{name}" for name in ("params", "registry", "version")]
    paths.append(f"{_DRIVER}/gpus/{device.bus_address}")
    if device.gpu_instance is not None:
        paths.append(_instance(device))
    mounts = [machine.shown(path) for path in paths if machine.at(path).exists()]
    return merge_exposed([drm.facts(device, machine), Exposed(mounts=tuple(mounts))])


def _capabilities(device: FoundDevice, machine: HostPaths) -> list[str]:
    """A MIG instance needs two more nodes: its GPU instance and its compute instance."""
    if device.gpu_instance is None:
        return []
    minors = [_read_number(_CAPABILITY, f"{_instance(device)}/access", machine)]
    if device.compute_instance is not None:
        path = f"{_instance(device)}/ci{device.compute_instance}/access"
        minors.append(_read_number(_CAPABILITY, path, machine))
    return [f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in minors if minor is not None]


def _instance(device: FoundDevice) -> str:
    return f"{_DRIVER}/capabilities/gpu{device.minor}/mig/gi{device.gpu_instance}"


def _read_number(number: re.Pattern[str], path: str, machine: HostPaths) -> int | None:
    with suppress(OSError):
        match = number.search(machine.at(path).read_text())
        return int(match[1]) if match else None
    return None
