"""The node's offer to the pool: its description, registered again whenever it changes."""

import asyncio
import os
import platform
import shutil
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
from msgspec import Struct
from msgspec.structs import replace

import potluck
from potluck.model.device import DeviceDescription, Measured
from potluck.model.error import Conflict, InvalidInput, PotluckError
from potluck.model.ids import NodeId
from potluck.model.network.patterns import ANY_HOST, RAW
from potluck.model.node import DISK_IMAGE, NodeDescription, SandboxReport
from potluck.model.task import GIB, MIB
from potluck.model.terms import DeviceTerms, TaskKind
from potluck.provider.announcement import Announce, OfferRefused, RegistrationDone
from potluck.provider.change_counter import ChangeCounter
from potluck.provider.data_directory import load_node_id
from potluck.provider.dependencies.pythons import PythonSource
from potluck.provider.detect.report import Detection
from potluck.provider.measure.measure import measure, measured_before
from potluck.provider.owner.file import NodeLimits
from potluck.provider.owner.live_rules import OwnerRules
from potluck.provider.server.server_client import NodeServerClient
from potluck.provider.settings import ProviderSettings
from potluck.wire.device_status import DeviceStatus
from potluck.wire.provider import NodeRegistered, RegisterNode
from potluck.wire.version import PROTOCOL

# Tasks of other accounts may have their disk in memory, so both shares together leave a fifth for
# the owner.
MEMORY_SHARE = 0.6
DISK_IN_MEMORY_SHARE = 0.2
# What stays free of the disk, whatever tasks use: a tenth, at most 5 GiB. Of the rest a half is
# offered, since inputs and dependencies are cached on it, too.
_RESERVE_DIVISOR, _MOST_RESERVE_BYTES = 10, 5 * GIB
_DISK_DIVISOR = 2
_WATCH_SECONDS = 30.0
# A smaller change of the free space is not registered.
_DISK_STEP_DIVISOR = 20

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
        self.pythons = PythonSource()
        self._registered_pythons: tuple[str, ...] = ()
        self._volumes_bytes = volumes_bytes
        self._settings = settings
        self._devices = {device.uuid: device for device in devices}
        self.sandbox = sandbox
        self.containers = containers
        self._rules = rules
        self._statuses: Callable[[], tuple[DeviceStatus, ...]] = tuple
        self._wish: Callable[[], int] = int
        self.held_bytes: Callable[[], int] = int  # what current tasks take of the disk
        self._disk_bytes = 0  # as registered
        self._terms: dict[str, DeviceTerms] = {}  # as registered
        self.change_counter = ChangeCounter()
        self.refusal: PotluckError | None = None  # why the server rejects it
        self.misfit: PotluckError | None = None  # why the owner's sandbox does not work

    @property
    def own_tasks_only(self) -> bool:
        return not self.sandbox.is_safe_for_strangers

    def describe(self) -> NodeDescription:
        facts = (self._settings, self._devices.values(), self.sandbox, self._rules)
        described = describe_node(*facts, self._offered_disk())
        return replace(
            described,
            sandbox=_without_images(described.sandbox, self._rules),
            containers=self.containers if self._rules.limits.has_containers else None,
            # Without a sandbox nothing is mounted.
            volumes_bytes=0 if self.sandbox.driver == "none" else self._volumes_bytes(),
            more_pythons=self._offered_pythons(),
        )

    def _offered_pythons(self) -> tuple[str, ...]:
        """What is fetched runs in a sandbox only, and replaces no Python that is there."""
        if self.sandbox.driver == "none" or not self._rules.limits.fetches_pythons:
            return ()
        own = platform.python_version()
        return tuple(version for version in self.pythons.offered() if version != own)

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
        description = self.describe()
        self._disk_bytes, self._terms = description.disk_bytes, self._rules.all_offered()
        self._registered_pythons = description.more_pythons
        return RegisterNode(
            description,
            load_node_id(self._settings.data_directory, self._settings.url),
            self.own_tasks_only,
            protocol=PROTOCOL,
            statuses=self._statuses(),
            wish=self._wish(),
        )

    def has_other_disk(self) -> bool:
        """Whether the free space has changed so much that it should be registered."""
        difference = abs(self._offered_disk().disk_bytes - self._disk_bytes)
        return difference > self._disk_bytes // _DISK_STEP_DIVISOR

    def has_other_terms(self) -> bool:
        """Whether the month has so much less or more network left that it should be registered."""
        return self._rules.all_offered() != self._terms

    def has_other_pythons(self) -> bool:
        """Whether Pythons can no longer be fetched, or can again."""
        return self._offered_pythons() != self._registered_pythons

    def _offered_disk(self) -> "OfferedDisk":
        free_bytes = free_disk_bytes(self._settings.data_directory) + self.held_bytes()
        return offer_disk(self._rules.limits, self.sandbox, free_bytes, usable_memory_bytes())

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


async def watch_offer(offer: NodeOffer) -> None:
    """Registers again when the free space of the disk, what the month has left of network, or the
    Pythons that can be fetched have changed: tasks together never exceed what is offered."""
    while True:
        await asyncio.sleep(_WATCH_SECONDS)
        if offer.has_other_disk() or offer.has_other_terms() or offer.has_other_pythons():
            offer.change_counter.change()


class OfferedDisk(Struct, frozen=True):
    disk_bytes: int
    others_disk_in_memory: bool = False


def offer_disk(
    limits: NodeLimits, sandbox: SandboxReport, free_bytes: int, memory_bytes: int
) -> OfferedDisk:
    """`free_bytes` is what tasks could use of the disk, `memory_bytes` the machine's memory."""
    wanted = limits.disk_bytes
    has_no_others = not sandbox.is_safe_for_strangers
    if sandbox.disk == DISK_IMAGE or has_no_others or limits.others_on_disk:
        return OfferedDisk(min(wanted or free_bytes // _DISK_DIVISOR, free_bytes))
    in_memory_bytes = int(memory_bytes * DISK_IN_MEMORY_SHARE)
    disk_bytes = min(wanted or in_memory_bytes, free_bytes)
    return OfferedDisk(disk_bytes, others_disk_in_memory=disk_bytes > in_memory_bytes)


def free_disk_bytes(directory: Path) -> int:
    """Without the reserve; at least the smallest disk that a task can have."""
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    disk = shutil.disk_usage(existing)
    reserve_bytes = min(disk.total // _RESERVE_DIVISOR, _MOST_RESERVE_BYTES)
    return max(disk.free - reserve_bytes, MIB)


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
    disk: OfferedDisk,
) -> NodeDescription:
    """With the current terms."""
    limits, memory_bytes = rules.limits, usable_memory_bytes()
    why_no_raw = _why_no_raw_network(sandbox)
    terms = {
        uuid: _without_raw(device_terms, why_no_raw)
        for uuid, device_terms in rules.all_offered().items()
    }
    return NodeDescription(
        name=settings.name,
        platform=f"{platform.system()} {platform.release()} {platform.machine()}"[:200],
        python_version=platform.python_version(),
        potluck_version=potluck.__version__,
        cores=limits.cores or os.cpu_count() or 1,
        memory_bytes=limits.memory_bytes or int(memory_bytes * MEMORY_SHARE),
        disk_bytes=disk.disk_bytes,
        sandbox=sandbox if terms == rules.all_offered() else _with_note(sandbox, why_no_raw),
        devices=tuple(replace(device, terms=terms[device.uuid]) for device in devices),
        labels=settings.labels,
        others_disk_in_memory=disk.others_disk_in_memory,
        gpu_share=limits.gpu_share,
    )


def _why_no_raw_network(sandbox: SandboxReport) -> str | None:
    """Why tasks cannot have a raw network here, whatever the owner says; None if they can."""
    if sandbox.driver != "bwrap":
        return "only the sandbox bwrap has it"
    from potluck.provider.egress.raw.relay_process import why_no_relay  # needs Linux

    return why_no_relay()


def _without_raw(terms: DeviceTerms, why_not: str | None) -> DeviceTerms:
    """With every public host by the proxy instead of a raw network, where that does not work."""
    if why_not is None:
        return terms
    usual = {
        name: (ANY_HOST,) for name in ("network", "own_network") if RAW in getattr(terms, name)
    }
    return replace(terms, **usual)


def _with_note(sandbox: SandboxReport, why_no_raw: str | None) -> SandboxReport:
    return replace(sandbox, notes=(*sandbox.notes, f"network=raw acts as open: {why_no_raw}"))


def usable_memory_bytes() -> int:
    """The machine's memory, or the limit of a surrounding container."""
    limits = (path.read_text().strip() for path in _LIMIT_FILES if path.exists())
    total_bytes: int = psutil.virtual_memory().total
    return min([total_bytes, *(int(limit) for limit in limits if limit.isdigit())])
