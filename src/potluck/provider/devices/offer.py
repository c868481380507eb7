"""The node's offer to the pool: its description, registered again whenever it changes."""

import asyncio
import os
import platform
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
from msgspec.structs import replace

import potluck
from potluck.model.device import DeviceDescription, Measured
from potluck.model.error import Conflict, InvalidInput, PotluckError
from potluck.model.ids import NodeId
from potluck.model.node import NodeDescription, SandboxReport
from potluck.model.terms import TaskKind
from potluck.provider.announcement import Announce, OfferRefused, RegistrationDone
from potluck.provider.change_counter import ChangeCounter
from potluck.provider.data_directory import load_node_id
from potluck.provider.detect.report import Detection
from potluck.provider.measure.measure import measure, measured_before
from potluck.provider.owner.live_rules import OwnerRules
from potluck.provider.server.server_client import NodeServerClient
from potluck.provider.settings import ProviderSettings
from potluck.wire.device_status import DeviceStatus
from potluck.wire.provider import NodeRegistered, RegisterNode
from potluck.wire.version import PROTOCOL

# A task's disk is in memory, so both shares together leave a fifth for the owner.
MEMORY_SHARE = 0.6
DISK_SHARE = 0.2

# The memory limit of a surrounding container: cgroup v2, then v1.
_LIMIT_FILES = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


class NodeOffer:
    """The current offer, and whether the server knows it."""

    def __init__(
        self,
        settings: ProviderSettings,
        devices: Iterable[DeviceDescription],
        sandbox: SandboxReport,
        rules: OwnerRules,
        containers: SandboxReport | None = None,
        volumes_bytes: Callable[[], int] = int,
    ) -> None:
        self._volumes_bytes = volumes_bytes
        self._settings = settings
        self._devices = {device.uuid: device for device in devices}
        self.sandbox = sandbox
        self.containers = containers
        self._rules = rules
        self._statuses: Callable[[], tuple[DeviceStatus, ...]] = tuple
        self._wish: Callable[[], int] = int
        self.change_counter = ChangeCounter()
        self.refusal: PotluckError | None = None  # why the server rejects it
        self.misfit: PotluckError | None = None  # why the owner's sandbox does not work

    @property
    def own_tasks_only(self) -> bool:
        return not self.sandbox.is_safe_for_strangers

    def describe(self) -> NodeDescription:
        described = describe_node(self._settings, self._devices.values(), self.sandbox, self._rules)
        return replace(
            described,
            sandbox=_without_images(self.sandbox, self._rules),
            containers=self.containers if self._rules.limits.has_containers else None,
            # Without a sandbox nothing is mounted.
            volumes_bytes=0 if self.sandbox.driver == "none" else self._volumes_bytes(),
        )

    def registered(self, node_id: NodeId) -> RegistrationDone:
        described = self.describe()
        return RegistrationDone(
            node_id,
            self._settings.url,
            described.name,
            described.devices,
            described.sandbox,
            self.own_tasks_only,
            described.containers,
        )

    def say_also(
        self, statuses: Callable[[], tuple[DeviceStatus, ...]], wish: Callable[[], int]
    ) -> None:
        """Adds the devices' current statuses and the last remote request to registrations."""
        self._statuses, self._wish = statuses, wish

    def registration(self) -> RegisterNode:
        return RegisterNode(
            self.describe(),
            load_node_id(self._settings.data_directory, self._settings.url),
            self.own_tasks_only,
            protocol=PROTOCOL,
            statuses=self._statuses(),
            wish=self._wish(),
        )

    def measured(self, uuid: str, measured: Measured) -> None:
        """Adds a benchmark's result to the device."""
        self._devices[uuid] = replace(self._devices[uuid], measured=measured)
        self.change_counter.change()


def _without_images(sandbox: SandboxReport, rules: OwnerRules) -> SandboxReport:
    """An owner who takes no images may still use containers for other tasks."""
    if rules.limits.has_containers:
        return sandbox
    kinds = tuple(kind for kind in sandbox.kinds if kind is not TaskKind.CONTAINER)
    return replace(sandbox, kinds=kinds)


async def offer_forever(
    link: NodeServerClient,
    offer: NodeOffer,
    registered: Callable[[NodeRegistered], None],
    announce: Announce,
) -> None:
    """Registers again whenever the offer changes; running tasks are not affected."""
    while True:
        await offer.change_counter.until_stale()
        changes = offer.change_counter.changes
        try:
            registered(await link.renew())
            offer.refusal = None
        except (InvalidInput, Conflict) as error:
            offer.refusal = error
            announce(OfferRefused(error.detail, error.hint))
        offer.change_counter.acknowledge(changes)


async def measure_devices(
    offer: NodeOffer,
    detection: Detection,
    data_directory: Path,
    own_doing: Callable[[str], AbstractContextManager[None]],
    is_free: Callable[[str], bool],
    interval_seconds: float,
) -> None:
    """Measures each device while it is free, after the registration.

    Earlier results are used immediately.
    """
    waiting = [
        device for device in detection.devices if not _use_earlier(offer, device, data_directory)
    ]
    while waiting:
        for device in [device for device in waiting if is_free(device.uuid)]:
            waiting.remove(device)
            with own_doing(device.uuid):
                measured = await measure(device, detection.found[device.uuid], data_directory)
            if measured is not None:
                offer.measured(device.uuid, measured)
        await asyncio.sleep(interval_seconds)


def _use_earlier(offer: NodeOffer, device: DeviceDescription, data_directory: Path) -> bool:
    measured = measured_before(device, data_directory)
    if measured is not None:
        offer.measured(device.uuid, measured)
    return measured is not None


def describe_node(
    settings: ProviderSettings,
    devices: Iterable[DeviceDescription],
    sandbox: SandboxReport,
    rules: OwnerRules,
) -> NodeDescription:
    """With the current terms."""
    limits, memory_bytes = rules.limits, usable_memory_bytes()
    return NodeDescription(
        name=settings.name,
        platform=f"{platform.system()} {platform.release()} {platform.machine()}"[:200],
        python_version=platform.python_version(),
        potluck_version=potluck.__version__,
        cores=limits.cores or os.cpu_count() or 1,
        memory_bytes=limits.memory_bytes or int(memory_bytes * MEMORY_SHARE),
        disk_bytes=limits.disk_bytes or int(memory_bytes * DISK_SHARE),
        sandbox=sandbox,
        devices=tuple(replace(device, terms=rules.terms[device.uuid]) for device in devices),
        labels=settings.labels,
    )


def usable_memory_bytes() -> int:
    """The machine's memory, or the limit of a surrounding container."""
    limits = (path.read_text().strip() for path in _LIMIT_FILES if path.exists())
    total_bytes: int = psutil.virtual_memory().total
    return min([total_bytes, *(int(limit) for limit in limits if limit.isdigit())])
