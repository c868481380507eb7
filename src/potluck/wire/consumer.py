"""Messages between a consumer and the server. `strict_types` has the strict forms of requests."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import ArgumentText, VariableName
from potluck.model.device import Availability, DeviceDescription, Standing
from potluck.model.ids import AttemptId, DeviceId, NodeId, TaskId
from potluck.model.lease import AttemptState
from potluck.model.node import NodeState, SandboxReport
from potluck.model.task import EndReason, ItemRange, Limits, Requirements, TaskState, WaitingReason
from potluck.model.terms import Wallets
from potluck.model.usage import Usage
from potluck.wire.device_status import DeviceSample
from potluck.wire.owner_request import Wish


class RetryTask(Struct, frozen=True, forbid_unknown_fields=True):
    """Options of a retry. Secrets are deleted when a task ends, so they must be given again."""

    all_items: bool = False  # of an array; by default only items that have not succeeded
    secrets: Annotated[dict[VariableName, ArgumentText], Meta(max_length=64)] = {}
    trust: Wallets = ()
    secrets_to_strangers: bool = False


class AttemptDevice(Struct, frozen=True):
    """The share of a device that an attempt uses."""

    device_id: DeviceId
    model: str
    milli: int
    memory_bytes: int


class AttemptView(Struct, frozen=True):
    """One attempt of a task, as its owner sees it."""

    id: AttemptId
    number: int
    state: AttemptState
    node_id: NodeId
    node_name: str
    devices: list[AttemptDevice]
    assigned_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    reason: EndReason | None = None
    detail: str = ""
    usage: Usage | None = None
    charge_micro: int = 0
    items: ItemRange | None = None  # of an array: the granted items
    is_on_own_node: bool = False  # of the task's account, which pays the charge to itself
    last_lines: str = ""  # of a failed one: the end of its stderr, and the exception of a function


class NodeSilence(Struct, frozen=True):
    """The node that has a task missed a heartbeat."""

    since: datetime  # its last contact
    until: datetime  # the task goes elsewhere if the node stays silent


class ItemCounts(Struct, frozen=True):
    """Progress of an array. Items in none of the other counts are in progress."""

    total: int
    pending: int
    succeeded: int
    failed: int
    cancelled: int = 0  # calls of a stream that were cancelled one by one

    @property
    def done(self) -> int:
        """Those that need no more work."""
        return self.succeeded + self.failed + self.cancelled


class TaskView(Struct, frozen=True):
    """A task, as its owner sees it."""

    id: TaskId
    name: str
    kind: str
    state: TaskState
    priority: int
    created_at: datetime
    updated_at: datetime
    requirements: Requirements
    limits: Limits
    version: int  # grows with every change; the follow stream resumes from it
    phase: str  # the state in finer steps: "queued", "preparing", "running" …
    exit_code: int | None = None
    reason: EndReason | None = None
    detail: str = ""
    waiting: WaitingReason | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    charge_micro: int = 0
    attempts: list[AttemptView] = []  # the newest few, oldest of them first
    attempt_count: int = 0  # the number of all attempts
    after: list[TaskId] = []
    not_before: datetime | None = None
    start_before: datetime | None = None
    expected_seconds: float | None = None
    items: ItemCounts | None = None
    kept_until: datetime | None = None  # of values, files and logs; None until the task has ended
    retry_of: TaskId | None = None  # the task that this one retries
    silence: NodeSilence | None = None  # of the node of its live attempt; not for arrays
    last_lines: str = ""  # of a failed task that is no array: those of its newest attempt
    is_stream: bool = False  # a call stream, or a call of one


class AttemptPage(Struct, frozen=True):
    """Attempts of a task, newest first; `next_cursor` leads to older ones."""

    attempts: list[AttemptView]
    next_cursor: int | None = None


class FailedItem(Struct, frozen=True):
    item: int
    failures: int
    is_final: bool  # it will not be retried
    attempt_id: AttemptId
    reason: EndReason
    exit_code: int | None = None
    detail: str = ""
    last_lines: str = ""  # the end of what it wrote to stderr, and the exception of a function


class FailedItemPage(Struct, frozen=True):
    """Failed items of an array, in order; `next_cursor` leads to the next ones."""

    items: list[FailedItem]
    next_cursor: int | None = None


class ItemStates(Struct, frozen=True):
    """The states of items of an array, as ranges in order.

    Items in none of the ranges have succeeded. Ranges are rounded outwards to whole blocks of
    `block_items` items, so that their number is bounded; with blocks of one item they are exact.
    Otherwise those of a shorter span are, or the item itself.
    """

    total: int  # items of the array
    pending: list[ItemRange]  # once the array has ended: they have not run
    running: list[ItemRange]  # a node has them
    failed: list[ItemRange]
    cancelled: list[ItemRange]  # of a call stream
    counts: ItemCounts  # of the whole array, exact
    block_items: int = 1
    is_stream: bool = False
    # Of a call stream that is open: when it closes by itself if no call comes before.
    open_until: datetime | None = None


class RefusalCount(Struct, frozen=True):
    """The number of nodes that cannot take the task for this reason."""

    code: str
    nodes: int
    sentence: str


class MountedVolume(Struct, frozen=True):
    """A volume of a task, and the nodes that hold it, which are preferred."""

    name: str
    version: str
    nodes: int
    node_names: list[str] = []  # the first few


class Explanation(Struct, frozen=True):
    """Why a task waits, from the scheduler."""

    task_id: TaskId
    state: TaskState
    sentence: str
    nodes: int  # that were considered
    refusals: list[RefusalCount] = []
    changes: list[str] = []  # what would help, in sentences
    position: int | None = None  # 1 is next; None if it is not in the queue
    estimated_start: datetime | None = None  # None without a basis for an estimate
    basis: str | None = None  # what the estimate is based on
    at: datetime | None = None  # when the scheduler wrote this
    volumes: list[MountedVolume] = []  # that the task mounts


class TaskPage(Struct, frozen=True):
    """Tasks, newest first; `next_cursor` leads to older ones."""

    tasks: list[TaskView]
    next_cursor: str | None = None


class TaskCounts(Struct, frozen=True):
    """Tasks by state; each state is counted up to `counted_tasks`."""

    counts: dict[TaskState, int]
    counted_tasks: int
    capped: list[TaskState] = []  # that may have more tasks than were counted


# How a node begins its remarks about files that were not kept.
OUTPUT_REMARK = "output: "


class LogPiece(Struct, frozen=True):
    """Log bytes of one stream. `text` has undecodable bytes replaced; `data` (base64) is exact."""

    stream: str  # "stdout", "stderr" or "potluck" for messages of the platform
    data: bytes
    at: datetime | None = None  # when the server received it; None: by an earlier version

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


class LogPage(Struct, frozen=True):
    """A part of an attempt's log, starting at `offset` (a count of pieces)."""

    attempt_id: AttemptId | None
    offset: int
    next_offset: int
    pieces: list[LogPiece]
    complete: bool  # nothing more will follow
    elsewhere: bool = False  # another instance of the server has more
    cleared: bool = False  # the log has been deleted


class FollowedState(Struct, frozen=True, tag_field="event", tag="state"):
    """The task changed, or its waiting reason did."""

    task: TaskView


class FollowedLog(Struct, frozen=True, tag_field="event", tag="log"):
    """New log pieces of an attempt."""

    page: LogPage


FollowEvent = FollowedState | FollowedLog


class DeviceView(Struct, frozen=True):
    """A device of a node. Only its owner sees the allow and deny lists."""

    id: DeviceId
    description: DeviceDescription
    free_milli: int
    availability: Availability = Availability.AVAILABLE
    why: str = ""
    sample: DeviceSample | None = None  # None without a recent report
    chooses_accounts: bool = False
    standing: Standing = Standing.BOUND


class NodeView(Struct, frozen=True):
    """A provider machine, as everyone in the pool sees it."""

    id: NodeId
    name: str
    state: NodeState
    platform: str
    potluck_version: str
    cores: int
    memory_bytes: int
    disk_bytes: int
    sandbox: SandboxReport
    devices: list[DeviceView]
    is_mine: bool
    heartbeat_at: datetime
    load_percent: float | None = None  # None without a recent report
    memory_used_bytes: int | None = None
    own_tasks_only: bool = False
    wishes: list[Wish] = []  # pending requests of its owner; only the owner sees them
    python_version: str = ""  # functions are pickled for this version
    cordoned_at: datetime | None = None  # since when an admin lets it have no new work
    cordoned_for: str = ""  # the admin's reason
    more_pythons: tuple[str, ...] = ()  # versions that it fetches when a task requires one


class DeviceUse(Struct, frozen=True):
    """An attempt on a device; only the owners of the task and of the node see its ids."""

    milli: int
    memory_bytes: int
    attempt_id: AttemptId | None = None
    task_id: TaskId | None = None


class PoolDevice(Struct, frozen=True):
    """A device of the pool with its node and its current use."""

    id: DeviceId
    node_id: NodeId
    node_name: str
    node_state: NodeState
    description: DeviceDescription
    standing: Standing
    free_milli: int
    free_memory_bytes: int
    is_mine: bool
    uses: list[DeviceUse] = []
    availability: Availability = Availability.AVAILABLE
    why: str = ""
    sample: DeviceSample | None = None
    chooses_accounts: bool = False
    reliability: float = 1.0  # the share of its node's attempts that were neither lost nor outliers
    labels: list[str] = []  # of its node
    own_tasks_only: bool = False  # its node runs only its owner's tasks


class DevicePage(Struct, frozen=True):
    """Devices by id; `next_cursor` leads to the next ones."""

    devices: list[PoolDevice]
    next_cursor: DeviceId | None = None


class DeviceCounts(Struct, frozen=True):
    """Devices of one kind; each is in one of the three counts."""

    free: int = 0  # completely free
    busy: int = 0  # at least a part is in use
    away: int = 0  # takes no new work, or its node is silent


class PoolView(Struct, frozen=True):
    """Counts of the whole pool."""

    nodes: int  # online
    silent_nodes: int
    gpus: DeviceCounts
    cpus: DeviceCounts
    waiting_tasks: int  # of all accounts; counted up to `counted_tasks`
    running_attempts: int  # of all accounts, including those that a node has not fetched yet
    counted_tasks: int


class NodeList(Struct, frozen=True):
    """Nodes by id; `next_cursor` leads to the next ones."""

    nodes: list[NodeView]
    next_cursor: NodeId | None = None


class ServerHealth(Struct, frozen=True):
    """Whether the server is alive."""

    status: str
    version: str


class ServerReadiness(ServerHealth, frozen=True):
    """Whether requests succeed (`ok`, `degraded`) or fail (`not ready`).

    Each part is `ok` or a sentence. Everyone may read this: it has no names, addresses or paths.
    """

    parts: dict[str, str] = {}
    instance: str = ""  # the one that answers; a new random name at each start
    leader: str | None = None  # the instance that leads
    free_gib: int = 0  # of the disk with the data directory
    clock_skew_seconds: float = 0.0  # how far this machine's clock is ahead of the database's
