"""Combines what the granted devices of one task need, of all vendors.

Variables of vendors without a granted device are set to none, so that libraries do not search.
Devices are inspected in a detached thread, since the files of a driver that hangs block, too: it
takes no place in a pool, and shutdown does not wait for it. While it runs, the same devices are not
inspected again.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

from msgspec import Struct, field

from potluck.local.detached_thread import run_in_daemon_thread
from potluck.model.device import DeviceKind
from potluck.model.error import SandboxUnavailable
from potluck.provider.detect.types import FoundDevice
from potluck.provider.expose import amd, drm, intel, nvidia
from potluck.provider.expose.cdi import find_description
from potluck.provider.expose.exposed import Exposed, HostPaths, WantedDevices, merge_exposed
from potluck.provider.expose.unusable import UnusableDevices
from potluck.wire.provider import GrantedDevice

_PATIENCE_SECONDS = 30.0
_TOPOLOGY = "/sys/devices/system/cpu"


class ExposeFunctions(Struct, frozen=True):
    """How granted devices are exposed."""

    look: Callable[[Sequence[GrantedDevice]], Exposed]
    asks_drivers: Callable[[Sequence[GrantedDevice]], bool]  # whether `look` may block
    unusable: UnusableDevices = field(default_factory=UnusableDevices)


class DeviceExposer:
    def __init__(self, show: ExposeFunctions) -> None:
        self._show = show
        self._asked: dict[str, asyncio.Future[Exposed]] = {}

    async def show(self, granted: Sequence[GrantedDevice]) -> Exposed:
        exposed = await self._look(granted)
        self._show.unusable.note(granted, exposed.problems, self.show)
        return exposed

    async def _look(self, granted: Sequence[GrantedDevice]) -> Exposed:
        if not self._show.asks_drivers(granted):
            return self._show.look(granted)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return await self._shown(granted)
        except TimeoutError as error:
            raise SandboxUnavailable(
                "A device is not usable: its driver does not respond."
            ) from error

    async def _shown(self, granted: Sequence[GrantedDevice]) -> Exposed:
        uuids = {device.uuid for device in granted}
        while before := [self._asked[uuid] for uuid in uuids if not self._is_back(uuid)]:
            await asyncio.wait(before)
        answer = asyncio.wrap_future(run_in_daemon_thread(partial(self._show.look, granted)))
        self._asked |= dict.fromkeys(uuids, answer)
        return await asyncio.shield(answer)

    def _is_back(self, uuid: str) -> bool:
        return uuid not in self._asked or self._asked[uuid].done()


def topology(machine: HostPaths) -> Exposed:
    has_topology = machine.at(_TOPOLOGY).is_dir()
    return Exposed(mounts=(machine.shown(_TOPOLOGY),) if has_topology else ())


class VendorExposure(Protocol):
    CDI_KIND: str

    def variables(self, wanted: WantedDevices) -> dict[str, str]: ...

    def node_of(self, device: FoundDevice, machine: HostPaths) -> str | None: ...

    def nodes(self, device: FoundDevice, machine: HostPaths) -> Exposed: ...

    def facts(self, device: FoundDevice, machine: HostPaths) -> Exposed:
        """The kernel's read-only files about the device."""
        ...


_VENDORS: dict[str, VendorExposure] = {"nvidia": nvidia, "amd": amd, "intel": intel}


def expose(
    granted: Sequence[GrantedDevice],
    found: Mapping[str, FoundDevice],
    *,
    is_walled: bool = True,
    machine: HostPaths = HostPaths(),  # noqa: B008, a frozen value
) -> Exposed:
    """`is_walled`: whether devices that are not exposed are absent inside."""
    devices = [found[device.uuid] for device in granted if device.uuid in found]
    gone = [device.uuid for device in granted if device.uuid not in found]
    parts = [Exposed(problems=(f"This node no longer has the device {uuid}.",)) for uuid in gone]
    if is_walled:
        parts += [_show(device, machine) for device in devices if device.kind is DeviceKind.GPU]
        parts += [_one_for_all(parts, devices, found.values()), topology(machine)]
    # Our variables win: a CDI description may say that there is no device.
    return merge_exposed([*parts, _variables(devices, devices if is_walled else found.values())])


def asks_drivers(granted: Sequence[GrantedDevice], found: Mapping[str, FoundDevice]) -> bool:
    """Whether a GPU is among them; processors need no driver."""
    devices = (found.get(device.uuid) for device in granted)
    return any(device is not None and device.kind is DeviceKind.GPU for device in devices)


def _one_for_all(
    parts: Iterable[Exposed], granted: Iterable[FoundDevice], devices: Iterable[FoundDevice]
) -> Exposed:
    """A problem where one node gives access to all cards, and not all of them are granted."""
    nodes = [node.target for part in parts for node in part.device_nodes]
    has_others = any(device not in granted for device in devices if device.kind is DeviceKind.GPU)
    if nvidia.WINDOWS not in nodes or not has_others:
        return Exposed()
    return Exposed(problems=(f"{nvidia.WINDOWS} gives access to all cards of the machine.",))


def hide(granted: Sequence[GrantedDevice]) -> Exposed:
    """For a node without devices to expose."""
    del granted
    return _variables([], [])


def _variables(devices: Iterable[FoundDevice], countable: Iterable[FoundDevice]) -> Exposed:
    wanted = {name: WantedDevices(_of(name, devices), _of(name, countable)) for name in _VENDORS}
    environment: dict[str, str] = {}
    for name, vendor in _VENDORS.items():
        environment |= vendor.variables(wanted[name])
    if wanted["amd"].granted and not wanted["nvidia"].granted:
        # HIP also reads NVIDIA's variable.
        environment["CUDA_VISIBLE_DEVICES"] = environment["HIP_VISIBLE_DEVICES"]
    return Exposed(environment)


def _of(name: str, devices: Iterable[FoundDevice]) -> tuple[FoundDevice, ...]:
    return tuple(device for device in devices if _vendor_name(device) == name)


def _vendor_name(device: FoundDevice) -> str | None:
    """Also for a device that only OpenCL lists."""
    if device.kind is not DeviceKind.GPU:
        return None
    text = f"{device.route} {device.vendor}".lower().replace("advanced micro devices", "amd")
    words = re.findall(r"[a-z]+", text)
    return next((name for name in _VENDORS if name in words), None)


def _show(device: FoundDevice, machine: HostPaths) -> Exposed:
    name = _vendor_name(device)
    if name is None:
        return merge_exposed([drm.node(device, machine), drm.facts(device, machine)])
    vendor = _VENDORS[name]
    node = vendor.node_of(device, machine)
    by_owner = find_description(vendor.CDI_KIND, device.uuid, node, machine)
    return merge_exposed([by_owner or vendor.nodes(device, machine), vendor.facts(device, machine)])
