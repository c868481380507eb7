"""Messages between a provider and the server. All of them fit on two screens."""

from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.blob import BlobRef, Value
from potluck.model.bounded_types import (
    END,
    Count,
    LineText,
    Seconds,
    SmallCount,
)
from potluck.model.device import Standing
from potluck.model.ids import AttemptId, DeviceId, NodeId, NodeIdText, TaskId
from potluck.model.lease import Lease, LeaseToken
from potluck.model.node import NodeDescription
from potluck.model.task import MOST_ITEMS, EndReason, ItemRange, Limits, Requirements
from potluck.model.task_spec import TaskSpec
from potluck.model.usage import Usage
from potluck.wire.device_challenge import DeviceChallenge
from potluck.wire.device_status import DeviceStatus
from potluck.wire.owner_request import Wish
from potluck.wire.signing.device_statement import DeviceStatement

# Raised when an older side could not work with a newer one; what is only added does not raise it.
PROTOCOL = 1

DeviceStatuses = Annotated[tuple[DeviceStatus, ...], Meta(max_length=64)]
HeldLeases = Annotated[tuple[Lease, ...], Meta(max_length=10_000)]


class RegisterNode(Struct, frozen=True, forbid_unknown_fields=True):
    """Sent at each start of a provider. `node_id` is the one it was given before, if any.

    Each device comes with the node key's statement that it is here.
    """

    description: NodeDescription
    node_id: NodeIdText | None = None
    own_tasks_only: bool = False
    statements: Annotated[tuple[DeviceStatement, ...], Meta(max_length=64)] = ()
    protocol: SmallCount = PROTOCOL
    contest: bool = False  # what is bound to another wallet; else that is refused
    statuses: DeviceStatuses = ()  # of its devices; what is not said takes work unless it is paused
    wish: Count = 0  # as in a heartbeat


class UnboundDevice(Struct, frozen=True):
    """A device that gets no work here, and why."""

    uuid: str
    standing: Standing


class NodeRegistered(Struct, frozen=True):
    node_id: NodeId
    device_ids: list[DeviceId]  # in the order of the description
    lease_seconds: float
    heartbeat_seconds: float
    poll_seconds: float
    unbound: list[UnboundDevice] = []
    server_version: LineText = ""


class AcquireLeases(Struct, frozen=True, forbid_unknown_fields=True):
    """Long poll. Listing the held leases acknowledges them; what is missing is given again."""

    held: HeldLeases = ()
    wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 20.0
    most: Annotated[int, Meta(ge=1, le=1_000)] = 100  # grants in one answer


class GrantedDevice(Struct, frozen=True):
    device_id: DeviceId
    uuid: str
    milli: int
    memory_bytes: int = 0


class Grant(Struct, frozen=True):
    """The right, and all that is needed, to run one attempt."""

    attempt_id: AttemptId
    token: LeaseToken
    task_id: TaskId
    account_id: str  # whose task it is: environments are never shared between accounts
    wallet: str  # of that account: owners allow and deny wallets
    spec: TaskSpec
    requirements: Requirements
    limits: Limits
    devices: list[GrantedDevice]
    items: list[ItemRange] = []  # of an array: what is left to do, in this order
    items_total: int | None = None  # of an array: how many items it has in all
    is_reclaimable: bool = False  # when it was assigned, the owner had said that it may be stopped
    secrets: dict[str, str] = {}  # here and nowhere else: they are kept in memory only
    checkpoint: BlobRef | None = None  # an archive of what an earlier attempt left to go on from


class LeasesGranted(Struct, frozen=True):
    """`stop` lists held attempts that are no longer wanted: end them and forget them."""

    grants: list[Grant] = []
    stop: list[AttemptId] = []
    lease_seconds: float = 90.0
    has_wishes: bool = False  # of the owner: a heartbeat brings them


class Heartbeat(Struct, frozen=True, forbid_unknown_fields=True):
    """Renews every lease of the node at once, and says how it does."""

    held: HeldLeases = ()
    load_percent: Annotated[float, Meta(ge=0, le=100)] = 0.0
    memory_used_bytes: Count = 0
    devices: DeviceStatuses = ()
    wish: Count = 0  # the number of the owner's last wish that was carried out here


class HeartbeatAnswer(Struct, frozen=True):
    """What to stop, which devices to show something for, which get no work, and what to change."""

    stop: list[AttemptId] = []
    challenges: list[DeviceChallenge] = []
    unbound: list[UnboundDevice] = []
    wishes: list[Wish] = []


class Preparing(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="event", tag="preparing"
):
    """The node has the attempt and sets it up."""

    lease: Lease


class Started(Struct, frozen=True, forbid_unknown_fields=True, tag_field="event", tag="started"):
    """The consumer's code runs from now on."""

    lease: Lease


class Finished(Struct, frozen=True, forbid_unknown_fields=True, tag_field="event", tag="finished"):
    """It is over on this node. Sent until acknowledged; the same body gets the same answer."""

    lease: Lease
    reason: EndReason
    exit_code: Annotated[int, Meta(ge=-255, le=255)] | None = None
    detail: LineText = ""
    usage: Usage = Usage()
    value: Value | None = None  # of a function: what it returned, or what it raised


class ItemOutcome(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """How one item of an array ended."""

    item: Annotated[int, Meta(ge=0, lt=MOST_ITEMS)]
    reason: EndReason
    run_seconds: Seconds
    exit_code: Annotated[int, Meta(ge=-255, le=255)] | None = None
    detail: LineText = ""
    error: Annotated[bytes, Meta(max_length=65_536)] = b""  # of a function: what it raised


class ReturnedItems(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Items of a function's array that have all succeeded, and what they returned, in order."""

    start: Annotated[int, Meta(ge=0, lt=MOST_ITEMS)]
    end: Annotated[int, Meta(ge=1, le=MOST_ITEMS)]
    run_seconds: Seconds  # of all of them
    values: Value  # as in wire/item_file.py


class ItemsDone(Struct, frozen=True, forbid_unknown_fields=True, tag_field="event", tag="items"):
    """A part of a range. An item counts once: what has an outcome already is passed over."""

    lease: Lease
    outcomes: Annotated[tuple[ItemOutcome, ...], Meta(max_length=1_000)] = ()
    returned: Annotated[tuple[ReturnedItems, ...], Meta(max_length=1_000)] = ()

    @property
    def first_item(self) -> int:
        """No two parts of a range have it in common; so it names one."""
        return min([one.item for one in self.outcomes] + [one.start for one in self.returned])


Report = Preparing | Started | ItemsDone | Finished


class Reports(Struct, frozen=True, forbid_unknown_fields=True):
    reports: Annotated[tuple[Report, ...], Meta(min_length=1, max_length=1_000)]


class ReportAnswer(Struct, frozen=True):
    """`accepted`, or the code of the error that this one report met."""

    attempt_id: AttemptId
    accepted: bool
    code: str = "accepted"


class ReportAnswers(Struct, frozen=True):
    answers: list[ReportAnswer]


class PackedLogPiece(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    stream: Annotated[str, Meta(pattern=f"^(stdout|stderr|potluck){END}")]
    data: Annotated[bytes, Meta(min_length=1, max_length=262_144)]


class LogChunk(Struct, frozen=True, forbid_unknown_fields=True):
    """Log pieces from `offset` (a count of pieces) on. MessagePack; idempotent by offset."""

    lease: Lease
    offset: SmallCount
    pieces: Annotated[tuple[PackedLogPiece, ...], Meta(min_length=1, max_length=4_096)]


class LogAppended(Struct, frozen=True):
    next_offset: int
