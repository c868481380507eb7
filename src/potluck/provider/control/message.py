"""What the owner's commands and the running provider say to each other, a line of JSON each."""

from msgspec import Struct

from potluck.model.device import DeviceDescription, Standing
from potluck.model.ids import AttemptId, NodeId, TaskId
from potluck.model.node import SandboxReport
from potluck.provider.owner.file_values import NodeLimits
from potluck.wire.device_status import DeviceStatus


class ShowStatus(Struct, frozen=True, tag_field="ask", tag="status"):
    """How do you do?"""


class Reread(Struct, frozen=True, tag_field="ask", tag="reread"):
    """The owner's file was edited: take it over now. Answered when the server knows too, or not."""


class Reclaim(Struct, frozen=True, tag_field="ask", tag="reclaim"):
    """Pause these devices, by uuid, or all if none is named, and stop what runs on them.

    Answered when nothing runs there. A file that is wrong or a silent server keep nobody from it.
    """

    devices: tuple[str, ...] = ()


class Drain(Struct, frozen=True, tag_field="ask", tag="drain"):
    """Take no more work, finish what runs, and end. Statuses are told on the way, then the end."""


class Leave(Struct, frozen=True, tag_field="ask", tag="leave"):
    """As drain (or, if it is to be now, as reclaim), and never come back: the key is given up."""

    is_now: bool = False


Request = ShowStatus | Reread | Reclaim | Drain | Leave


class DeviceNow(Struct, frozen=True):
    """A device, on which terms, and how it does."""

    description: DeviceDescription  # with the terms in force
    status: DeviceStatus
    standing: Standing
    refusal: str = ""  # a sentence, where it does not do what its owner asks of it


class AttemptNow(Struct, frozen=True):
    attempt_id: AttemptId
    task_id: TaskId
    phase: str
    devices: tuple[str, ...]
    seconds: float  # since it was granted


class WarmNow(Struct, frozen=True):
    """An interpreter that has served functions and waits for the next call."""

    devices: tuple[str, ...]
    idle_seconds: float
    memory_bytes: int
    items: int  # that it has served


class ProviderStatus(Struct, frozen=True, tag_field="answer", tag="status"):
    node_id: NodeId
    name: str
    url: str
    pid: int
    version: str
    server_version: str
    up_seconds: float
    silent_seconds: float  # since the server last answered a heartbeat
    problem: str  # what keeps it from the server, or what is wrong with the owner's file; else ""
    is_draining: bool
    terms_file: str
    sandbox: SandboxReport
    devices: tuple[DeviceNow, ...]
    attempts: tuple[AttemptNow, ...]
    warm: tuple[WarmNow, ...] = ()
    limits: NodeLimits = NodeLimits()  # in force for all tasks together


class InEffect(Struct, frozen=True, tag_field="answer", tag="done"):
    """It is so now."""

    is_known_to_server: bool = True  # otherwise it will be, once the server answers


class CommandRefused(Struct, frozen=True, tag_field="answer", tag="refused"):
    """Nothing has changed, and why."""

    detail: str
    hint: str = ""


Answer = ProviderStatus | InEffect | CommandRefused
