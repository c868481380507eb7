"""What a consumer asks to be run, and the states it goes through."""

from enum import Enum, StrEnum
from functools import partial
from typing import Annotated, Final

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
from potluck.model.lease import AttemptState
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


class Reporter(Enum):
    """Who may say that an attempt ended for a reason."""

    SERVER = "server"  # by its own conclusion
    NODE = "node"  # of an attempt
    ITEM = "node, item"  # a node, of an attempt and of one item of an array


class NodeFault(Enum):
    """Whether the loss of an attempt is held against its node."""

    NO = "no"
    YES = "yes"
    IF_OPEN = "if its devices take work"
    UNLESS_AGREED = "unless its terms said so and its devices take no work"
    UNLESS_IMAGE = "unless it is a container"


class NextTry(Enum):
    """When a task is tried again after an attempt of it; other ranges of an array go on."""

    NONE = "–"
    NEVER = "never"  # it would end in the same way, or it has been tried often enough
    AT_ONCE = "at once"  # the task left no mark on the node
    SHORT_PAUSE = "after the shortest pause"
    PAUSE = "after a pause"  # that doubles with each failure, or loss
    DECLINE_PAUSE = "after a pause for each decline"  # what a node lacks may never come


class EndReason(StrEnum):
    """Why an attempt, and with it perhaps the task, ended. All that follows is in its facts."""

    COMPLETED = "completed"
    EXIT_STATUS = "exit_status"
    EXCEPTION = "exception"
    SIGNAL = "signal"
    MEMORY_LIMIT = "memory_limit"
    PROCESS_LIMIT = "process_limit"
    DISK_LIMIT = "disk_limit"
    LOG_LIMIT = "log_limit"
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
    """Everything that is known of an end reason."""

    meaning: str  # for a person, where nothing more exact is said
    attempt_state: AttemptState
    reporter: Reporter
    next_try: NextTry = NextTry.PAUSE
    is_counted: bool = True  # as a failure or a loss of the task; the server's SQL lists the others
    node_fault: NodeFault = NodeFault.NO
    has_value: bool = False  # a function may end so with what it returned or raised


_failure = partial(EndFacts, attempt_state=AttemptState.FAILED, reporter=Reporter.ITEM)
_preparation = partial(_failure, reporter=Reporter.NODE)
_loss = partial(
    EndFacts,
    attempt_state=AttemptState.LOST,
    reporter=Reporter.NODE,
    node_fault=NodeFault.YES,
)
_uncounted = partial(_loss, is_counted=False, next_try=NextTry.AT_ONCE)
_cancellation = partial(
    EndFacts,
    attempt_state=AttemptState.CANCELLED,
    reporter=Reporter.SERVER,
    next_try=NextTry.NONE,
)
_failed_task = partial(_failure, reporter=Reporter.SERVER, next_try=NextTry.NEVER)
_lost_task = partial(_loss, reporter=Reporter.SERVER, next_try=NextTry.NEVER)

END_REASONS: Final = {
    EndReason.COMPLETED: EndFacts(
        "the code ended with exit status 0",
        AttemptState.SUCCEEDED,
        Reporter.ITEM,
        NextTry.NONE,
        has_value=True,
    ),
    EndReason.EXIT_STATUS: _failure("the code ended with another exit status than 0"),
    EndReason.EXCEPTION: _failure(
        "the function raised an exception, or returned what is no plain data", has_value=True
    ),
    EndReason.SIGNAL: _failure("the code was killed by a signal that was not ours"),
    EndReason.MEMORY_LIMIT: _failure("it used more memory than it asked for"),
    EndReason.PROCESS_LIMIT: _failure("it started more processes than it may"),
    EndReason.DISK_LIMIT: _failure("it filled its disk"),
    EndReason.LOG_LIMIT: _failure("it wrote more log than it may"),
    EndReason.TIME_LIMIT: _failure("it ran past its time limit"),
    EndReason.INPUT_FAILED: _preparation("a file that it needs could not be unpacked"),
    EndReason.PREPARE_FAILED: _preparation("its dependencies could not be installed"),
    EndReason.PREPARE_TIME_LIMIT: _preparation("installing its dependencies took too long"),
    EndReason.SANDBOX_FAILED: _loss("the node could not set the sandbox up"),
    EndReason.LEASE_EXPIRED: _loss(
        "the node fell silent, or kept it far past its limit, and its lease ran out",
        reporter=Reporter.SERVER,
    ),
    EndReason.NODE_RESTARTED: _loss("the provider restarted in the middle of it"),
    EndReason.NODE_LEFT: _uncounted("the node's owner took the node away in the middle of it"),
    EndReason.DEVICE_LOST: _loss("the device failed in the middle of it"),
    EndReason.RECLAIMED: _uncounted(
        "the owner of the device wanted it back",
        next_try=NextTry.SHORT_PAUSE,
        node_fault=NodeFault.UNLESS_AGREED,
    ),
    EndReason.DECLINED: _uncounted(
        "the node's owner does not take such tasks, or not now",
        next_try=NextTry.DECLINE_PAUSE,
        node_fault=NodeFault.UNLESS_IMAGE,
    ),
    EndReason.WITHDRAWN: _uncounted(
        "the node never fetched the assignment",
        reporter=Reporter.SERVER,
        node_fault=NodeFault.IF_OPEN,
    ),
    EndReason.CANCELLED: _cancellation("the task's owner cancelled it"),
    EndReason.DEADLINE: _cancellation("it was not started in time"),
    EndReason.DEPENDENCY: _cancellation("a task that it was to come after did not succeed"),
    EndReason.SILENCE: _uncounted(
        "the server was silent for longer than the task or the node's owner allows",
        node_fault=NodeFault.NO,
    ),
    EndReason.ITEMS_FAILED: _failed_task("more items of the array failed than it allows"),
    EndReason.POISON: _lost_task("it was lost on three different nodes"),
    EndReason.SPEC_UNREADABLE: _failed_task("the server cannot open what the task is made of"),
    EndReason.TOO_MANY_LOSSES: _lost_task("its attempts were lost too often"),
}


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
