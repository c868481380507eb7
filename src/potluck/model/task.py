"""What a consumer asks to be run, and the states it goes through."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import (
    ArgumentText,
    Count,
    LineText,
    Price,
    ShortText,
    VariableName,
)
from potluck.model.device import ComputeCapability, DeviceKind, Milli
from potluck.model.ids import TaskIdText
from potluck.model.node import Labels, SandboxStrength
from potluck.model.task_spec import TaskSpec
from potluck.model.terms import Wallets

GIB = 2**30
MIB = 2**20


class TaskState(StrEnum):
    """Where a task is. docs/lifecycle.md tells the same story with the transitions."""

    QUEUED = "queued"  # waits for a device; the reason is known
    ASSIGNED = "assigned"  # a node has been chosen and prepares it
    RUNNING = "running"  # the consumer's code runs
    SUCCEEDED = "succeeded"  # final: it ended with exit status 0
    FAILED = "failed"  # final: it ended badly; the reason says how
    CANCELLED = "cancelled"  # final: its owner called it off
    EXPIRED = "expired"  # final: it was not started before its deadline

    @property
    def is_final(self) -> bool:
        return self in _FINAL


_FINAL = {TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED, TaskState.EXPIRED}


class EndReason(StrEnum):
    """Why an attempt, and with it perhaps the task, ended."""

    COMPLETED = "completed"  # the code ended with exit status 0
    EXIT_STATUS = "exit_status"  # the code ended with another exit status
    EXCEPTION = "exception"  # the function raised an exception, or returned what is no plain data
    SIGNAL = "signal"  # the code was killed by a signal that was not ours
    MEMORY_LIMIT = "memory_limit"  # it used more memory than it asked for
    PROCESS_LIMIT = "process_limit"  # it started more processes than it may
    DISK_LIMIT = "disk_limit"  # it filled its disk
    LOG_LIMIT = "log_limit"  # it wrote more log than it may
    TIME_LIMIT = "time_limit"  # it ran past its wall-clock limit
    INPUT_FAILED = "input_failed"  # a file that it needs could not be unpacked
    PREPARE_FAILED = "prepare_failed"  # its dependencies could not be installed
    PREPARE_TIME_LIMIT = "prepare_time_limit"  # installing its dependencies took too long
    SANDBOX_FAILED = "sandbox_failed"  # the node could not set the sandbox up
    LEASE_EXPIRED = "lease_expired"  # the node fell silent
    NODE_RESTARTED = "node_restarted"  # the provider restarted in the middle of it
    NODE_LEFT = "node_left"  # the node's owner took it away in the middle of it
    DEVICE_LOST = "device_lost"  # the device failed in the middle of it
    RECLAIMED = "reclaimed"  # the device's owner wanted it back
    DECLINED = "declined"  # the node's owner does not take such tasks, or not now
    WITHDRAWN = "withdrawn"  # the node never fetched the assignment
    CANCELLED = "cancelled"  # the task's owner called it off
    DEADLINE = "deadline"  # it was not started in time
    DEPENDENCY = "dependency"  # a task that it was to come after did not succeed
    SILENCE = "silence"  # the node stopped it because the server was silent for too long
    ITEMS_FAILED = "items_failed"  # more items of the array failed than it allows
    POISON = "poison"  # it was lost on three different nodes
    SPEC_UNREADABLE = "spec_unreadable"  # the server can not open what it is made of
    TOO_MANY_LOSSES = "too_many_losses"  # its attempts were lost too often


class Requirements(Struct, frozen=True):
    """What a node must have free. Cores, memory and disk are also the walls of the sandbox."""

    device_kind: DeviceKind | None = None
    device_count: Annotated[int, Meta(ge=1, le=64)] = 1
    device_milli: Milli | None = None  # a fraction of one device; whole devices if not said
    device_memory_bytes: Count = 0  # of each device
    device_vendor: ShortText | None = None  # case does not matter
    device_model: ShortText | None = None  # patterns such as "RTX 40*|A100", case does not matter
    compute_capability: ComputeCapability | None = None  # at least this
    max_price_micro_per_hour: Price | None = None
    labels: Labels = ()  # the node must have each of them
    min_reliability: Annotated[float, Meta(ge=0, le=1)] | None = None
    sandbox: SandboxStrength | None = None  # at least this strong
    owners: Wallets = ()  # only nodes of these wallets; none: everybody's
    python: ShortText | None = None  # of the node, such as "3.11": what a function was pickled by
    shares_device: bool = False  # whether a fraction may stand beside another account's
    cores: Annotated[int, Meta(ge=1, le=4096)] = 1
    memory_bytes: Annotated[int, Meta(ge=16 * MIB, le=2**50)] = GIB
    disk_bytes: Annotated[int, Meta(ge=MIB, le=2**50)] = 256 * MIB


class Limits(Struct, frozen=True):
    """Walls that the scheduler need not count."""

    run_seconds: Annotated[float, Meta(ge=0.001, le=30 * 86_400)] = 6 * 3600.0
    prepare_seconds: Annotated[float, Meta(ge=0.001, le=86_400)] = 600.0
    processes: Annotated[int, Meta(ge=4, le=65_536)] = 256
    log_bytes: Annotated[int, Meta(ge=1024, le=GIB)] = 16 * MIB
    # The node stops it when the server has been silent for so long; else it goes on to its limit.
    stop_after_silence_seconds: Annotated[float, Meta(ge=0.1, le=30 * 86_400)] | None = None
    # How often what the task keeps in its checkpoint directory is brought to safety.
    checkpoint_seconds: Annotated[float, Meta(ge=0.1, le=86_400)] = 60.0


Priority = Annotated[int, Meta(ge=-100, le=100)]
MaxAttempts = Annotated[int, Meta(ge=1, le=100)]
MOST_ITEMS = 1_000_000


class ItemRange(Struct, frozen=True):
    """Items of an array, from `start` up to but not including `end`."""

    start: Annotated[int, Meta(ge=0, le=MOST_ITEMS)]
    end: Annotated[int, Meta(ge=1, le=MOST_ITEMS)]

    def __len__(self) -> int:
        return self.end - self.start


class TaskRequest(Struct, frozen=True):
    """All that a consumer says about a task; kept as it came."""

    spec: TaskSpec
    name: ShortText | None = None
    requirements: Requirements = Requirements()
    limits: Limits = Limits()
    priority: Priority = 0
    max_attempts: MaxAttempts = 1  # tries that end in the task's own failure
    start_within_seconds: Annotated[float, Meta(gt=0, le=366 * 86_400)] | None = None
    delay_seconds: Annotated[float, Meta(gt=0, le=366 * 86_400)] | None = None  # not before
    expected_seconds: Annotated[float, Meta(gt=0, le=30 * 86_400)] | None = None  # a guess
    after: Annotated[tuple[TaskIdText, ...], Meta(max_length=100)] = ()  # once these succeeded
    items: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] | None = None  # an array of so many items
    allow_failures: Annotated[int, Meta(ge=0, le=MOST_ITEMS)] = 0  # items that may fail
    # Variables that only nodes of the account itself and of the wallets in `trust` are given.
    secrets: Annotated[dict[VariableName, ArgumentText], Meta(max_length=64)] = {}
    trust: Wallets = ()
    secrets_to_strangers: bool = False


class WaitingReason(Struct, frozen=True):
    """Why a queued task waits: a stable code and a sentence for a person."""

    code: ShortText
    sentence: LineText
