"""A provider machine and its sandbox."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import MOST_DEVICES, LineText, MemoryBytes, ShortText
from potluck.model.device import DeviceDescription
from potluck.model.terms import Kinds, TaskKind

# Labels that an owner gives a node, such as "region=eu"; tasks can require them.
Labels = Annotated[tuple[ShortText, ...], Meta(max_length=32)]


class NodeState(StrEnum):
    """Whether a node gets work."""

    ONLINE = "online"  # sends heartbeats, and takes work
    SILENT = "silent"  # no heartbeat for a while; no new work until the next one
    LEFT = "left"  # removed by its owner


class SandboxStrength(StrEnum):
    """How strongly a task is isolated from its host. Each level includes the previous one."""

    NONE = "none"  # no isolation
    NAMESPACES = "namespaces"  # the host's kernel, with namespaces and a system call filter
    KERNEL = "kernel"  # a kernel of its own

    def is_at_least(self, other: "SandboxStrength") -> bool:
        ranks = list(SandboxStrength)
        return ranks.index(self) >= ranks.index(other)


# How the sandbox limits the disk of a task, as reported.
DISK_IMAGE, DISK_WATCHDOG, DISK_TMPFS = "disk image", "watchdog", "tmpfs"

# Without one of these a task can take the whole machine.
_NEEDED_LIMITS = ("memory", "processes")
_STRENGTHS = {"none": SandboxStrength.NONE, "runsc": SandboxStrength.KERNEL}


class SandboxReport(Struct, frozen=True):
    """What the sandbox of a node enforces, found by testing it.

    Each field names the mechanism ("cgroup v2", "rlimits", "namespaces" …), or "none".
    """

    driver: ShortText
    memory: ShortText = "none"
    processes: ShortText = "none"
    cpu: ShortText = "none"
    disk: ShortText = "none"
    network: ShortText = "none"
    syscalls: ShortText = "none"
    user: ShortText = "none"
    kinds: Kinds = (TaskKind.SCRIPT,)  # the kinds of tasks that it can run
    takes_stdin: bool = False  # whether a task can have a stdin; older nodes would leave it empty
    notes: Annotated[tuple[LineText, ...], Meta(max_length=32)] = ()

    @property
    def unlimited(self) -> tuple[str, ...]:
        """The limits that are needed for tasks of other accounts and that nothing enforces."""
        return tuple(limit for limit in _NEEDED_LIMITS if getattr(self, limit) == "none")

    @property
    def is_safe_for_strangers(self) -> bool:
        return self.driver != "none" and not self.unlimited

    @property
    def weakness(self) -> str:
        """Why it is not safe for tasks of other accounts, as a verb phrase; empty if it is."""
        if self.driver == "none":
            return "does not isolate tasks"
        return f"does not limit {' and '.join(self.unlimited)}" if self.unlimited else ""

    @property
    def strength(self) -> SandboxStrength:
        return _STRENGTHS.get(self.driver, SandboxStrength.NAMESPACES)


# A task whose disk is in memory has at least so many times as much memory. So all such tasks of a
# node together have no more disk than a part of the memory that it offers.
MEMORY_PER_DISK = 3
MOST_PYTHONS = 32


class NodeDescription(Struct, frozen=True):
    """What a provider offers; sent in full at each start."""

    name: ShortText
    platform: ShortText
    python_version: ShortText
    potluck_version: ShortText
    cores: Annotated[int, Meta(ge=1, le=4096)]
    memory_bytes: MemoryBytes
    disk_bytes: MemoryBytes
    sandbox: SandboxReport
    devices: Annotated[tuple[DeviceDescription, ...], Meta(min_length=1, max_length=MOST_DEVICES)]
    labels: Labels = ()
    containers: SandboxReport | None = None  # where images run, if not in `sandbox`
    volumes_bytes: MemoryBytes = 0  # disk for volumes; 0: tasks cannot mount any
    # Tasks of other accounts have their disk in memory: at most a third of the memory they request.
    others_disk_in_memory: bool = False
    # The part of a GPU's share of cores, memory and disk that its task gets without requesting it.
    gpu_share: Annotated[float, Meta(ge=0, le=1)] = 1.0
    # Versions that a task can have here instead: the node fetches them when one is required.
    more_pythons: Annotated[tuple[ShortText, ...], Meta(max_length=MOST_PYTHONS)] = ()
