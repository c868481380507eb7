"""Messages between the owner's commands and the running provider, one line of JSON each."""

from msgspec import Struct

from potluck.model.device import DeviceDescription, Standing
from potluck.model.ids import AttemptId, NodeId, TaskId
from potluck.model.node import SandboxReport
from potluck.provider.owner.file import NodeLimits
from potluck.wire.device_status import DeviceStatus


class ShowStatus(Struct, frozen=True, tag_field="ask", tag="status"):
    """Answered with one `ProviderStatus`."""


class Reread(Struct, frozen=True, tag_field="ask", tag="reread"):
    """Apply the owner's file, which was edited. Answered when the server knows it, or is silent."""


class Reclaim(Struct, frozen=True, tag_field="ask", tag="reclaim"):
    """Pause these devices (by uuid; none: all) and recall their tasks.

    Answered when nothing runs there. Works with an invalid file and a silent server, too.
    """

    devices: tuple[str, ...] = ()


class Drain(Struct, frozen=True, tag_field="ask", tag="drain"):
    """Take no more work, finish the running tasks, and stop. Answered with statuses until then."""


class Leave(Struct, frozen=True, tag_field="ask", tag="leave"):
    """Drain (or reclaim, if `is_now`), then leave the pool for good and give up the key."""

    is_now: bool = False


Request = ShowStatus | Reread | Reclaim | Drain | Leave


class DeviceNow(Struct, frozen=True):
    description: DeviceDescription  # with the terms in force
    status: DeviceStatus
    standing: Standing
    refusal: str = ""  # why it does not follow a setting of its owner


class AttemptNow(Struct, frozen=True):
    attempt_id: AttemptId
    task_id: TaskId
    phase: str
    devices: tuple[str, ...]
    seconds: float  # since it was granted


class WarmNow(Struct, frozen=True):
    """An idle interpreter that waits for the next function call."""

    devices: tuple[str, ...]
    idle_seconds: float
    memory_bytes: int
    items: int  # served so far


class ProviderStatus(Struct, frozen=True, tag_field="answer", tag="status"):
    node_id: NodeId
    name: str
    url: str
    pid: int
    version: str
    server_version: str
    up_seconds: float
    silent_seconds: float  # since the server last answered a heartbeat
    problem: str  # with the owner's file or the server; "": none
    is_draining: bool
    terms_file: str
    sandbox: SandboxReport
    devices: tuple[DeviceNow, ...]
    attempts: tuple[AttemptNow, ...]
    warm: tuple[WarmNow, ...] = ()
    limits: NodeLimits = NodeLimits()  # in force for all tasks together
    network_used_bytes: int = 0  # of this month, by tasks that ended or run
    disk_bytes: int = 0  # what all tasks together can have
    pythons_problem: str = ""  # why the Pythons that the owner allows are not fetched now


class InEffect(Struct, frozen=True, tag_field="answer", tag="done"):
    """The command was carried out."""

    is_known_to_server: bool = True  # false: it will be, once the server answers


class CommandRefused(Struct, frozen=True, tag_field="answer", tag="refused"):
    """The command was refused; nothing has changed."""

    detail: str
    hint: str = ""


Answer = ProviderStatus | InEffect | CommandRefused
