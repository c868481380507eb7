"""A consumer's request to run something, and the states of a task."""

from enum import Enum, StrEnum
from functools import partial
from typing import Annotated, Final

from msgspec import Meta, Struct

from potluck.model.blob import PATH_PATTERN, Mounts
from potluck.model.bounded_types import (
    MOST_DEVICES,
    ArgumentText,
    Count,
    LineText,
    Price,
    ShortText,
    VariableName,
)
from potluck.model.device import ComputeCapability, DeviceKind, Milli
from potluck.model.ids import TaskIdText
from potluck.model.lease import AttemptState
from potluck.model.network.patterns import NetworkBytes, NetworkEntries
from potluck.model.node import Labels, SandboxStrength
from potluck.model.task_spec import TaskSpec
from potluck.model.terms import Wallets

# A shorter time without an answer is no silence: a beat may be late, or lost.
HEARTBEATS_OF_SILENCE = 3
# A task with network acts outside the pool, so it should not run twice for long.
NETWORK_SILENCE_SECONDS = 75.0

GIB = 2**30
MIB = 2**20


class TaskState(StrEnum):
    """The state of a task. docs/lifecycle.md has the transitions."""

    QUEUED = "queued"  # waits for a device; `waiting` has the reason
    ASSIGNED = "assigned"  # a node was chosen and prepares it
    RUNNING = "running"  # the consumer's code runs
    SUCCEEDED = "succeeded"  # final: it ended with exit status 0
    FAILED = "failed"  # final: `reason` says why
    CANCELLED = "cancelled"  # final: cancelled by its owner
    EXPIRED = "expired"  # final: not started before its deadline

    @property
    def is_final(self) -> bool:
        return self in _FINAL


_FINAL = {TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED, TaskState.EXPIRED}


class Reporter(Enum):
    """Who may report an end reason."""

    SERVER = "server"  # the server concludes it
    NODE = "node"  # a node, for an attempt
    ITEM = "node, item"  # a node, for an attempt and for one item of an array


class NodeFault(Enum):
    """Whether the loss of an attempt counts against the reliability of its node."""

    NO = "no"
    YES = "yes"
    IF_OPEN = "if its devices take work"
    UNLESS_AGREED = "unless its terms allowed it and its devices take no work"
    UNLESS_IMAGE = "unless it is a container"


class NextTry(Enum):
    """When a task is retried after an attempt; other ranges of an array continue."""

    NONE = "–"
    NEVER = "never"  # it would end the same way, or it has no attempts left
    PAUSE = "after a pause"  # doubles with each end of its sort: failure, loss, uncounted loss


class EndReason(StrEnum):
    """Why an attempt, and possibly its task, ended. `facts` has the consequences."""

    COMPLETED = "completed"
    EXIT_STATUS = "exit_status"
    EXCEPTION = "exception"
    SIGNAL = "signal"
    MEMORY_LIMIT = "memory_limit"
    PROCESS_LIMIT = "process_limit"
    DISK_LIMIT = "disk_limit"
    LOG_LIMIT = "log_limit"
    NETWORK_LIMIT = "network_limit"
    TIME_LIMIT = "time_limit"
    INPUT_FAILED = "input_failed"
    PREPARE_FAILED = "prepare_failed"
    PREPARE_TIME_LIMIT = "prepare_time_limit"
    SANDBOX_FAILED = "sandbox_failed"
    LEASE_EXPIRED = "lease_expired"
    NODE_RESTARTED = "node_restarted"
    NODE_LEFT = "node_left"
    DEVICE_LOST = "device_lost"
    RECLAIMED = "reclaimed"
    DECLINED = "declined"
    WITHDRAWN = "withdrawn"
    CANCELLED = "cancelled"
    CREDIT = "credit"
    GIVEN_BACK = "given_back"
    DEADLINE = "deadline"
    DEPENDENCY = "dependency"
    SILENCE = "silence"
    ITEMS_FAILED = "items_failed"
    POISON = "poison"
    SPEC_UNREADABLE = "spec_unreadable"
    TOO_MANY_LOSSES = "too_many_losses"

    @property
    def facts(self) -> "EndFacts":
        return END_REASONS[self]


class EndFacts(Struct, frozen=True):
    """The consequences of an end reason."""

    meaning: str  # for people, if the attempt has no more exact text
    attempt_state: AttemptState
    reporter: Reporter
    next_try: NextTry = NextTry.PAUSE
    # As a failure or a loss; the server's SQL lists the exceptions. Ends that do not count have a
    # bound of their own.
    is_counted: bool = True
    node_fault: NodeFault = NodeFault.NO
    has_value: bool = False  # a function may return or raise a value with it


_failure = partial(EndFacts, attempt_state=AttemptState.FAILED, reporter=Reporter.ITEM)
_preparation = partial(_failure, reporter=Reporter.NODE)
_loss = partial(
    EndFacts, attempt_state=AttemptState.LOST, reporter=Reporter.NODE, node_fault=NodeFault.YES
)
_uncounted = partial(_loss, is_counted=False)
_cancellation = partial(
    EndFacts, attempt_state=AttemptState.CANCELLED, reporter=Reporter.SERVER, next_try=NextTry.NONE
)
_failed_task = partial(_failure, reporter=Reporter.SERVER, next_try=NextTry.NEVER)
_lost_task = partial(_loss, reporter=Reporter.SERVER, next_try=NextTry.NEVER)

END_REASONS: Final = {
    EndReason.COMPLETED: EndFacts(
        "the code exited with status 0",
        AttemptState.SUCCEEDED,
        Reporter.ITEM,
        NextTry.NONE,
        has_value=True,
    ),
    EndReason.EXIT_STATUS: _failure("the code exited with a status other than 0"),
    EndReason.EXCEPTION: _failure(
        "the function raised an exception, or did not return plain data", has_value=True
    ),
    EndReason.SIGNAL: _failure("the code was killed by a signal that Potluck did not send"),
    EndReason.MEMORY_LIMIT: _failure("it used more memory than it requested"),
    EndReason.PROCESS_LIMIT: _failure("it started more processes than its limit"),
    EndReason.DISK_LIMIT: _failure("it filled its disk"),
    EndReason.LOG_LIMIT: _failure(
        "it wrote more log than its limit, on a node of an earlier version"
    ),
    EndReason.NETWORK_LIMIT: _failure(
        "it sent and received more over the network than its limit (--network-limit)"
    ),
    EndReason.TIME_LIMIT: _failure("it ran past its time limit"),
    EndReason.INPUT_FAILED: _preparation("a file that it needs could not be unpacked"),
    EndReason.PREPARE_FAILED: _preparation("its dependencies could not be installed"),
    EndReason.PREPARE_TIME_LIMIT: _preparation("installing its dependencies took too long"),
    EndReason.SANDBOX_FAILED: _loss("the node could not set up the sandbox"),
    EndReason.LEASE_EXPIRED: _loss(
        "the node went silent, or far exceeded the time limit, and the lease expired",
        reporter=Reporter.SERVER,
    ),
    EndReason.NODE_RESTARTED: _loss("the provider restarted during the attempt"),
    EndReason.NODE_LEFT: _uncounted("the node stopped, or left the pool, during the attempt"),
    EndReason.DEVICE_LOST: _loss("the device failed during the attempt"),
    EndReason.RECLAIMED: _uncounted(
        "the owner reclaimed the device", node_fault=NodeFault.UNLESS_AGREED
    ),
    EndReason.DECLINED: _uncounted(
        "the node's owner does not accept such tasks, or not now", node_fault=NodeFault.UNLESS_IMAGE
    ),
    EndReason.WITHDRAWN: _uncounted(
        "the node never fetched the assignment",
        reporter=Reporter.SERVER,
        node_fault=NodeFault.IF_OPEN,
    ),
    EndReason.CANCELLED: _cancellation("the task's owner cancelled it"),
    EndReason.CREDIT: _cancellation(
        "the credit of the task's owner ran out; it waits for more",
        reporter=Reporter.NODE,
        next_try=NextTry.PAUSE,
    ),
    EndReason.GIVEN_BACK: _cancellation(
        "it was granted ahead and did not start: its turn comes again", next_try=NextTry.PAUSE
    ),
    EndReason.DEADLINE: _cancellation("it was not started in time"),
    EndReason.DEPENDENCY: _cancellation("a task that it depends on did not succeed"),
    EndReason.SILENCE: _uncounted(
        "the server was unreachable for longer than the task or the node's owner allows",
        node_fault=NodeFault.NO,
    ),
    EndReason.ITEMS_FAILED: _failed_task("more items of the array failed than it allows"),
    EndReason.POISON: _lost_task("it was lost on three different nodes"),
    EndReason.SPEC_UNREADABLE: _failed_task("the server cannot decrypt the task"),
    EndReason.TOO_MANY_LOSSES: _lost_task("its attempts were lost too often"),
}


class Requirements(Struct, frozen=True, cache_hash=True):
    """What a node must have free. Cores, memory and disk are also the limits of the sandbox."""

    device_kind: DeviceKind | None = None
    device_count: Annotated[int, Meta(ge=1, le=MOST_DEVICES)] = 1
    device_milli: Milli | None = None  # a fraction of one device; by default whole devices
    device_memory_bytes: Count = 0  # of each device
    device_vendor: ShortText | None = None  # case does not matter
    device_model: ShortText | None = None  # patterns such as "RTX 40*|A100", case does not matter
    compute_capability: ComputeCapability | None = None  # the minimum
    max_price_micro_per_hour: Price | None = None
    labels: Labels = ()  # the node must have all of them
    min_reliability: Annotated[float, Meta(ge=0, le=1)] | None = None
    sandbox: SandboxStrength | None = None  # the minimum strength
    owners: Wallets = ()  # only nodes of these wallets; empty: of all
    python: ShortText | None = None  # the node's version, such as "3.11" or ">=3.11,<3.14"
    shares_device: bool = False  # whether a fraction may share a device with another account
    stdin: bool = False  # the node must support stdin; the server sets it
    cores: Annotated[int, Meta(ge=1, le=4096)] = 1
    memory_bytes: Annotated[int, Meta(ge=16 * MIB, le=2**50)] = GIB
    disk_bytes: Annotated[int, Meta(ge=MIB, le=2**50)] = 256 * MIB
    volumes: Mounts = ()  # not part of `disk_bytes`; nodes that hold them come first
    network: NetworkEntries = ()  # hosts that it may reach; the server expands presets
    network_bytes: NetworkBytes = 10 * GIB  # the most that it may send and receive
    own_wallet: ShortText | None = None  # of its account, if it needs network; the server sets it


KeepPattern = Annotated[str, Meta(min_length=1, max_length=200, pattern=PATH_PATTERN)]


class Limits(Struct, frozen=True, cache_hash=True):
    """Limits, and what is kept. Nothing here affects scheduling."""

    run_seconds: Annotated[float, Meta(ge=0.001, le=30 * 86_400)] = 6 * 3600.0
    prepare_seconds: Annotated[float, Meta(ge=0.001, le=86_400)] = 600.0
    processes: Annotated[int, Meta(ge=4, le=65_536)] = 256
    # How much of its log is kept: beginning and end; of an array, for each attempt.
    log_bytes: Annotated[int, Meta(ge=1024, le=GIB)] = 16 * MIB
    # The node stops the task after this time without the server, at least three heartbeats; by
    # default it runs to its limit, or with network for 75 s.
    stop_after_silence_seconds: Annotated[float, Meta(ge=0.1, le=30 * 86_400)] | None = None
    # How often the node uploads the task's checkpoint directory.
    checkpoint_seconds: Annotated[float, Meta(ge=0.1, le=86_400)] = 60.0
    # New files of the working directory that are outputs too.
    keep: Annotated[tuple[KeepPattern, ...], Meta(max_length=16)] = ()


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
    """A task as its consumer requests it; stored unchanged."""

    spec: TaskSpec
    name: ShortText | None = None
    requirements: Requirements = Requirements()
    limits: Limits = Limits()
    priority: Priority = 0
    max_attempts: MaxAttempts = 1  # attempts that may end in the task's own failure
    start_within_seconds: Annotated[float, Meta(gt=0, le=366 * 86_400)] | None = None
    delay_seconds: Annotated[float, Meta(gt=0, le=366 * 86_400)] | None = None  # the earliest start
    expected_seconds: Annotated[float, Meta(gt=0, le=30 * 86_400)] | None = None  # an estimate
    after: Annotated[
        tuple[TaskIdText, ...], Meta(max_length=100)
    ] = ()  # starts after these have succeeded
    items: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] | None = None  # the size of an array
    allow_failures: Annotated[int, Meta(ge=0, le=MOST_ITEMS)] = 0  # how many items may fail
    # Variables that only nodes of this account and of the wallets in `trust` get.
    secrets: Annotated[dict[VariableName, ArgumentText], Meta(max_length=64)] = {}
    trust: Wallets = ()
    secrets_to_strangers: bool = False
    # A call stream: an array of calls that grows. `items` and the inputs are those of its first
    # items; a failed call does not fail it.
    is_stream: bool = False


class WaitingReason(Struct, frozen=True):
    """Why a queued task waits: a stable code and a sentence."""

    code: ShortText
    sentence: LineText
