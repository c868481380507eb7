"""The terms of an owner for a device. The pool shows them, and the node enforces them."""

from enum import StrEnum
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from potluck.model.bounded_types import END, MOST_DEVICES, LineText, Price, ShortText
from potluck.model.network.patterns import NetworkBytes, NetworkEntries

WALLET_PATTERN = f"^0x[0-9a-fA-F]{{40}}{END}"
WalletText = Annotated[str, Meta(pattern=WALLET_PATTERN)]
Wallets = Annotated[tuple[WalletText, ...], Meta(max_length=1_000)]
IdleMinutes = Annotated[float, Meta(ge=0, le=7 * 24 * 60)]
GpuShare = Annotated[float, Meta(ge=0, le=1)]
MemoryShare = Annotated[float, Meta(ge=0.01, le=1)]
Watts = Annotated[int, Meta(ge=1, le=100_000)]
Fractions = Annotated[int, Meta(ge=1, le=1_000)]
Patterns = Annotated[tuple[ShortText, ...], Meta(max_length=256)]
GraceSeconds = Annotated[float, Meta(ge=0, le=3_600)]

SANDBOXES = ("bwrap", "docker", "runsc", "none")  # all sandbox drivers


class TaskKind(StrEnum):
    """The kind of a task."""

    SCRIPT = "script"  # a Python file
    FUNCTION = "function"  # a Python function
    CONTAINER = "container"  # a container image
    COMMAND = "command"  # a program with its arguments


Kinds = Annotated[tuple[TaskKind, ...], Meta(max_length=16)]


class DeviceTerms(Struct, frozen=True):
    """The conditions under which a device takes tasks."""

    price_micro_per_hour: Price = 0
    is_paused: bool = False  # takes no new work until its owner resumes it
    hours: LineText = ""  # of the week, in local time, as in model/hours.py; empty: always
    idle_minutes: IdleMinutes = 0  # only after the owner has not used it for this long
    memory_share: MemoryShare = 1.0  # the share of its memory that tasks may use
    power_watts: Watts | None = None  # the maximum, if the device supports a limit
    fractions: Fractions | None = None  # the maximum number of tasks on a card; none: no limit
    shares_accounts: bool = False  # tasks of several accounts may share the device
    is_reclaimable: bool = False  # the owner may stop tasks to get the device back
    grace_seconds: GraceSeconds = 30.0  # for a task to finish when the owner reclaims the device
    kinds: Kinds = ()  # of tasks; empty: all
    allow: Wallets = ()  # only tasks of these wallets; empty: of all
    deny: Wallets = ()  # no tasks of these wallets, even if allowed
    network: NetworkEntries = ()  # hosts that tasks of others may reach
    own_network: NetworkEntries = ()  # hosts that the owner's own tasks may reach
    network_task_bytes: NetworkBytes | None = None  # the most for one task; none: no limit


class TermsChange(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A change that an owner requests. Omitted fields stay; null restores the default.

    The fields from `cores` on apply to the node as a whole, not to single devices.
    """

    # By uuid or id; empty: all.
    devices: Annotated[tuple[ShortText, ...], Meta(max_length=MOST_DEVICES)] = ()
    price_micro_per_hour: Price | UnsetType | None = UNSET
    is_paused: bool | UnsetType | None = UNSET
    hours: LineText | UnsetType | None = UNSET
    idle_minutes: IdleMinutes | UnsetType | None = UNSET
    memory_share: MemoryShare | UnsetType | None = UNSET
    power_watts: Watts | UnsetType | None = UNSET
    fractions: Fractions | UnsetType | None = UNSET
    shares_accounts: bool | UnsetType | None = UNSET
    is_reclaimable: bool | UnsetType | None = UNSET
    grace_seconds: GraceSeconds | UnsetType | None = UNSET
    kinds: Kinds | UnsetType | None = UNSET
    allow: Wallets | UnsetType | None = UNSET
    deny: Wallets | UnsetType | None = UNSET
    network: NetworkEntries | UnsetType | None = UNSET
    own_network: NetworkEntries | UnsetType | None = UNSET
    network_task_bytes: NetworkBytes | UnsetType | None = UNSET
    cores: Annotated[int, Meta(ge=1, le=4096)] | UnsetType | None = UNSET
    memory_bytes: Annotated[int, Meta(ge=2**26, le=2**50)] | UnsetType | None = UNSET
    disk_bytes: Annotated[int, Meta(ge=2**20, le=2**50)] | UnsetType | None = UNSET
    bandwidth_bytes_per_second: Annotated[int, Meta(ge=1_000, le=2**40)] | UnsetType | None = UNSET
    sandbox: ShortText | UnsetType | None = UNSET  # the name of a driver
    has_containers: bool | UnsetType | None = UNSET  # whether it runs images
    images: Patterns | UnsetType | None = UNSET  # which images others may run
    pulls_images: bool | UnsetType | None = UNSET  # whether it downloads missing images
    # Whether tasks of other accounts use the disk where only a watchdog limits them.
    others_on_disk: bool | UnsetType | None = UNSET
    network_month_bytes: NetworkBytes | UnsetType | None = UNSET  # of all tasks in a month
    gpu_share: GpuShare | UnsetType | None = UNSET  # of the node, for tasks with a whole GPU
    fetches_pythons: bool | UnsetType | None = UNSET  # versions that tasks require


class Order(StrEnum):
    """An order of an owner that takes effect immediately."""

    RECLAIM = "reclaim"  # pause the devices, and stop the tasks on them
    DRAIN = "drain"  # take no new work, finish the running tasks, then stop
