"""Messages between a consumer and the server. Inputs are held to `strict`, answers may grow."""

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
    """Secrets are gone with a task's end, so they are given again."""

    all_items: bool = False  # of an array; else only those that have not succeeded
    secrets: Annotated[dict[VariableName, ArgumentText], Meta(max_length=64)] = {}
    trust: Wallets = ()
    secrets_to_strangers: bool = False


class AttemptDevice(Struct, frozen=True):
    """What an attempt has of a device."""

    device_id: DeviceId
    model: str
    milli: int
    memory_bytes: int


class AttemptView(Struct, frozen=True):
    """One try of a task, as its owner sees it."""

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
    items: ItemRange | None = None  # of an array: what it was granted


class ItemCounts(Struct, frozen=True):
    """How far an array has come. What is in none of the others is being worked on."""

    total: int
    pending: int
    succeeded: int
    failed: int


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
    phase: str  # the state in finer words for people: "queued", "preparing", "running" …
    exit_code: int | None = None
    reason: EndReason | None = None
    detail: str = ""
    waiting: WaitingReason | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    charge_micro: int = 0
    attempts: list[AttemptView] = []  # the newest few, oldest of them first
    attempt_count: int = 0  # of all of them
    after: list[TaskId] = []
    not_before: datetime | None = None
    start_before: datetime | None = None
    expected_seconds: float | None = None
    items: ItemCounts | None = None
    kept_until: datetime | None = None  # values, files and logs; None as long as it is not over
    retry_of: TaskId | None = None  # the task that this one is tried again for


class AttemptPage(Struct, frozen=True):
    """Attempts at a task, newest first; `next_cursor` asks for the older ones."""

    attempts: list[AttemptView]
    next_cursor: int | None = None


class FailedItem(Struct, frozen=True):
    item: int
    failures: int
    is_final: bool  # it will not be tried again
    attempt_id: AttemptId
    reason: EndReason
    exit_code: int | None = None
    detail: str = ""


class FailedItemPage(Struct, frozen=True):
    """Items of an array that have failed, in order; `next_cursor` asks for those behind."""

    items: list[FailedItem]
    next_cursor: int | None = None


class RefusalCount(Struct, frozen=True):
    """So many nodes can not take the task for this reason."""

    code: str
    nodes: int
    sentence: str


class Explanation(Struct, frozen=True):
    """Why a task waits, from the scheduler's own mouth."""

    task_id: TaskId
    state: TaskState
    sentence: str
    nodes: int  # that were looked at
    refusals: list[RefusalCount] = []
    changes: list[str] = []  # what would have to change, in sentences
    position: int | None = None  # 1 is the next; None when it is not in line
    estimated_start: datetime | None = None  # None when there is no basis for a guess
    basis: str | None = None  # what the guess rests on
    at: datetime | None = None  # when the scheduler said so


class TaskPage(Struct, frozen=True):
    """Tasks, newest first; `next_cursor` asks for the older ones."""

    tasks: list[TaskView]
    next_cursor: str | None = None


class LogPiece(Struct, frozen=True):
    """Log bytes of one stream. `text` has undecodable bytes replaced; `data` (base64) is exact."""

    stream: str  # "stdout", "stderr" or "potluck", the platform's own remarks
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


class LogPage(Struct, frozen=True):
    """A part of an attempt's log, from `offset` (a count of pieces) on."""

    attempt_id: AttemptId | None
    offset: int
    next_offset: int
    pieces: list[LogPiece]
    complete: bool  # nothing more will come
    elsewhere: bool = False  # there is more, kept by another instance of the server
    cleared: bool = False  # whatever was written is kept no longer


class FollowedState(Struct, frozen=True, tag_field="event", tag="state"):
    """The task changed, or its waiting reason did."""

    task: TaskView


class FollowedLog(Struct, frozen=True, tag_field="event", tag="log"):
    """New log pieces of an attempt."""

    page: LogPage


FollowEvent = FollowedState | FollowedLog


class DeviceView(Struct, frozen=True):
    """Which wallets an owner allows and denies is his own affair: others see that he chooses."""

    id: DeviceId
    description: DeviceDescription
    free_milli: int
    availability: Availability = Availability.AVAILABLE
    why: str = ""
    sample: DeviceSample | None = None  # unknown until the node has told it lately
    chooses_accounts: bool = False
    standing: Standing = Standing.BOUND


class NodeView(Struct, frozen=True):
    """A provider machine, as everybody in the pool sees it."""

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
    load_percent: float | None = None  # unknown until the node has told it lately
    memory_used_bytes: int | None = None
    own_tasks_only: bool = False
    wishes: list[Wish] = []  # of its owner, and shown to him: not carried out yet
    python_version: str = ""  # functions are pickled for one


class DeviceUse(Struct, frozen=True):
    """An attempt on a device; only the task's and the node's owner are told which."""

    milli: int
    memory_bytes: int
    attempt_id: AttemptId | None = None
    task_id: TaskId | None = None


class PoolDevice(Struct, frozen=True):
    """A device of the pool, where it is, and what it serves now."""

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
    reliability: float = (
        1.0  # the share of its node's attempts that came to an end, as is planned by
    )
    labels: list[str] = []  # of its node
    own_tasks_only: bool = False  # its node runs nobody's tasks but its owner's


class DevicePage(Struct, frozen=True):
    """Devices in the order of their ids; `next_cursor` asks for those behind."""

    devices: list[PoolDevice]
    next_cursor: DeviceId | None = None


class DeviceCounts(Struct, frozen=True):
    """Devices of one kind: each is in one of the three."""

    free: int = 0  # wholly
    busy: int = 0  # serves somebody, perhaps with a part of it
    away: int = 0  # takes no new work, or its node is silent


class PoolView(Struct, frozen=True):
    """The pool in numbers."""

    nodes: int  # that are online
    silent_nodes: int
    gpus: DeviceCounts
    cpus: DeviceCounts
    waiting_tasks: int  # everybody's; counted up to `counted_tasks`
    running_attempts: int  # everybody's, and so are those on their way to a node
    counted_tasks: int


class NodeList(Struct, frozen=True):
    """Nodes in the order of their ids; `next_cursor` asks for those behind."""

    nodes: list[NodeView]
    next_cursor: NodeId | None = None


class ServerHealth(Struct, frozen=True):
    """Alive or ready, with a sentence for each part that is not."""

    status: str
    version: str
    parts: dict[str, str] = {}
