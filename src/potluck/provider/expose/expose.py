"""Puts together what the granted devices of one task need, whoever made them.

Variables of vendors of whom nothing was granted say so, so that a library does not go looking.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from potluck.model.device import DeviceKind
from potluck.provider.detect.types import FoundDevice
from potluck.provider.expose import amd, drm, intel, nvidia
from potluck.provider.expose.cdi import described
from potluck.provider.expose.exposed import (
    Exposed,
    HostPaths,
    WantedDevices,
    together,
)
from potluck.wire.provider import GrantedDevice

_TOPOLOGY = "/sys/devices/system/cpu"


def topology(machine: HostPaths) -> Exposed:
    is_told = machine.at(_TOPOLOGY).is_dir()
    return Exposed(mounts=(machine.shown(_TOPOLOGY),) if is_told else ())


class VendorExposure(Protocol):
    """What is known here of one vendor's devices."""

    CDI_KIND: str

    def variables(self, wanted: WantedDevices) -> dict[str, str]: ...

    def node_of(self, device: FoundDevice, machine: HostPaths) -> str | None: ...

    def nodes(self, device: FoundDevice, machine: HostPaths) -> Exposed: ...

    def facts(self, device: FoundDevice, machine: HostPaths) -> Exposed:
        """What the kernel tells of the device, in files that can be read only."""
        ...


_VENDORS: dict[str, VendorExposure] = {"nvidia": nvidia, "amd": amd, "intel": intel}


def expose(
    granted: Sequence[GrantedDevice],
    found: Mapping[str, FoundDevice],
    *,
    is_walled: bool = True,
    machine: HostPaths = HostPaths(),  # noqa: B008, a frozen value
) -> Exposed:
    """`is_walled`: whether what is not shown is absent."""
    devices = [found[one.uuid] for one in granted if one.uuid in found]
    gone = [one.uuid for one in granted if one.uuid not in found]
    parts = [Exposed(problems=(f"This node has no device {uuid} any more.",)) for uuid in gone]
    if is_walled:
        parts += [_show(device, machine) for device in devices if device.kind is DeviceKind.GPU]
        parts += [_one_for_all(parts, devices, found.values()), topology(machine)]
    # The last word on variables is ours: a description may say that there is no device.
    return together([*parts, _variables(devices, devices if is_walled else found.values())])


def asks_drivers(granted: Sequence[GrantedDevice], found: Mapping[str, FoundDevice]) -> bool:
    """Whether there is any among them; of processors the kernel itself tells."""
    devices = (found.get(one.uuid) for one in granted)
    return any(device is not None and device.kind is DeviceKind.GPU for device in devices)


def _one_for_all(
    parts: Iterable[Exposed], granted: Iterable[FoundDevice], found: Iterable[FoundDevice]
) -> Exposed:
    """Where one node leads to all cards, whoever has not been granted all would see others'."""
    shown = [node.target for part in parts for node in part.device_nodes]
    has_others = any(one not in granted for one in found if one.kind is DeviceKind.GPU)
    if nvidia.WINDOWS not in shown or not has_others:
        return Exposed()
    return Exposed(problems=(f"{nvidia.WINDOWS} shows all cards of the machine, or none.",))


def hide(granted: Sequence[GrantedDevice]) -> Exposed:
    """For a node that has nothing to show."""
    del granted
    return _variables([], [])


def _variables(devices: Iterable[FoundDevice], countable: Iterable[FoundDevice]) -> Exposed:
    wanted = {name: WantedDevices(_of(name, devices), _of(name, countable)) for name in _VENDORS}
    environment: dict[str, str] = {}
    for name, vendor in _VENDORS.items():
        environment |= vendor.variables(wanted[name])
    if wanted["amd"].granted and not wanted["nvidia"].granted:
        # HIP obeys NVIDIA's variable too, where programs were written for both.
        environment["CUDA_VISIBLE_DEVICES"] = environment["HIP_VISIBLE_DEVICES"]
    return Exposed(environment)


def _of(name: str, devices: Iterable[FoundDevice]) -> tuple[FoundDevice, ...]:
    return tuple(one for one in devices if _vendor_name(one) == name)


def _vendor_name(device: FoundDevice) -> str | None:
    """Whose it is, also where nobody but OpenCL knows it."""
    if device.kind is not DeviceKind.GPU:
        return None
    told = f"{device.route} {device.vendor}".lower().replace("advanced micro devices", "amd")
    words = re.findall(r"[a-z]+", told)
    return next((name for name in _VENDORS if name in words), None)


def _show(device: FoundDevice, machine: HostPaths) -> Exposed:
    name = _vendor_name(device)
    if name is None:
        return together([drm.node(device, machine), drm.facts(device, machine)])
    vendor = _VENDORS[name]
    node = vendor.node_of(device, machine)
    by_owner = described(vendor.CDI_KIND, device.uuid, node, machine)
    return together([by_owner or vendor.nodes(device, machine), vendor.facts(device, machine)])
