"""What an owner asks for a device and allows on it. Declared to the pool, and kept by the node."""

from enum import StrEnum
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from potluck.model.bounded_types import (
    END,
    LineText,
    Price,
    ShortText,
)

WALLET_PATTERN = f"^0x[0-9a-fA-F]{{40}}{END}"
WalletText = Annotated[str, Meta(pattern=WALLET_PATTERN)]
Wallets = Annotated[tuple[WalletText, ...], Meta(max_length=1_000)]
IdleMinutes = Annotated[float, Meta(ge=0, le=7 * 24 * 60)]
MemoryShare = Annotated[float, Meta(ge=0.01, le=1)]
Watts = Annotated[int, Meta(ge=1, le=100_000)]
Fractions = Annotated[int, Meta(ge=1, le=1_000)]
Patterns = Annotated[tuple[ShortText, ...], Meta(max_length=256)]
GraceSeconds = Annotated[float, Meta(ge=0, le=3_600)]

SANDBOXES = ("bwrap", "docker", "runsc", "none")  # the drivers that there are


class TaskKind(StrEnum):
    """What a task is made of."""

    SCRIPT = "script"  # a Python file
    FUNCTION = "function"  # a Python function
    CONTAINER = "container"  # an image
    COMMAND = "command"  # a program with its arguments


Kinds = Annotated[tuple[TaskKind, ...], Meta(max_length=16)]


class DeviceTerms(Struct, frozen=True):
    """On which terms a device may be had."""

    price_micro_per_hour: Price = 0
    is_paused: bool = False  # gets no new work until its owner says so
    hours: LineText = ""  # of the week, in the owner's own time, as in model/hours.py; none: always
    idle_minutes: IdleMinutes = 0  # only when its owner has not used it for so long
    memory_share: MemoryShare = 1.0  # of its memory
    power_watts: Watts | None = None  # at most, where the device can be told
    fractions: Fractions | None = None  # a card serves so many tasks at a time; none: any number
    shares_accounts: bool = False  # fractions of several accounts may stand side by side
    is_reclaimable: bool = False  # tasks may be stopped because the owner wants it back
    grace_seconds: GraceSeconds = 30.0  # for a task that is stopped for that, to come to an end
    kinds: Kinds = ()  # of tasks; none: all
    allow: Wallets = ()  # only these accounts' tasks; none: everybody's
    deny: Wallets = ()  # nobody's of these, whatever else is said


class TermsChange(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What an owner wants changed. What is not said stays; null goes back to the default.

    The last few concern the node as a whole, and can not be said of single devices.
    """

    devices: Annotated[tuple[ShortText, ...], Meta(max_length=64)] = ()  # by uuid or id; none: all
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
    cores: Annotated[int, Meta(ge=1, le=4096)] | UnsetType | None = UNSET
    memory_bytes: Annotated[int, Meta(ge=2**26, le=2**50)] | UnsetType | None = UNSET
    disk_bytes: Annotated[int, Meta(ge=2**20, le=2**50)] | UnsetType | None = UNSET
    bandwidth_bytes_per_second: Annotated[int, Meta(ge=1_000, le=2**40)] | UnsetType | None = UNSET
    sandbox: ShortText | UnsetType | None = UNSET  # a driver's name
    has_containers: bool | UnsetType | None = UNSET  # whether images are run
    images: Patterns | UnsetType | None = UNSET  # which of them others may have run
    pulls_images: bool | UnsetType | None = UNSET  # whether one that is not here is fetched


class Order(StrEnum):
    """What an owner wants done at once."""

    RECLAIM = "reclaim"  # give me my devices back: pause them, and stop what runs on them
    DRAIN = "drain"  # take no more work, finish what runs, and end
