"""Messages between a consumer and the server. Inputs are held to `strict`, answers may grow."""

from datetime import datetime

from msgspec import Struct

from potluck.model.device import DeviceDescription
from potluck.model.ids import AttemptId, DeviceId, NodeId, TaskId
from potluck.model.lease import AttemptState
from potluck.model.node import NodeState, SandboxReport
from potluck.model.task import (
    EndReason,
    Limits,
    Requirements,
    TaskState,
    WaitingReason,
)
from potluck.model.usage import Usage


class AttemptView(Struct, frozen=True):
    """One try of a task, as its owner sees it."""

    id: AttemptId
    number: int
    state: AttemptState
    node_id: NodeId
    node_name: str
    devices: list[str]
    assigned_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    reason: EndReason | None = None
    detail: str = ""
    usage: Usage | None = None
    charge_micro: int = 0


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
    attempts: list[AttemptView] = []


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


class FollowedState(Struct, frozen=True, tag_field="event", tag="state"):
    """The task changed, or its waiting reason did."""

    task: TaskView


class FollowedLog(Struct, frozen=True, tag_field="event", tag="log"):
    """New log pieces of an attempt."""

    page: LogPage


FollowEvent = FollowedState | FollowedLog


class DeviceView(Struct, frozen=True):
    id: DeviceId
    description: DeviceDescription
    free_milli: int


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


class NodeList(Struct, frozen=True):
    nodes: list[NodeView]


class Health(Struct, frozen=True):
    """Alive or ready, with a sentence for each part that is not."""

    status: str
    version: str
    parts: dict[str, str] = {}
