"""Messages between a provider and the server."""

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from potluck.model.blob import BlobRef, Value, VersionText
from potluck.model.bounded_types import (
    END,
    MOST_DEVICES,
    Count,
    LastLines,
    LineText,
    Seconds,
    SmallCount,
)
from potluck.model.device import DeviceDescription, Standing
from potluck.model.ids import AttemptId, DeviceId, NodeId, NodeIdText, TaskId
from potluck.model.lease import Lease, LeaseToken
from potluck.model.node import MEMORY_PER_DISK, NodeDescription
from potluck.model.task import MOST_ITEMS, EndReason, ItemRange, Limits, Requirements
from potluck.model.task_spec import TaskSpec
from potluck.model.usage import Usage
from potluck.wire.device_challenge import DeviceChallenge
from potluck.wire.device_status import DeviceStatus
from potluck.wire.owner_request import Wish
from potluck.wire.signing.device_statement import DeviceStatement
from potluck.wire.signing.receipt import MOST_RECEIPTS, NodeSignedReceipt, ReceiptsAnswer
from potluck.wire.version import FIRST_PROTOCOL

DeviceStatuses = Annotated[tuple[DeviceStatus, ...], Meta(max_length=MOST_DEVICES)]
# The most recently used.
MOST_HELD_VOLUMES = 200
HeldLeases = Annotated[tuple[Lease, ...], Meta(max_length=10_000)]


class RegisterNode(Struct, frozen=True, forbid_unknown_fields=True):
    """Sent at each start of a provider. `node_id` is the one from an earlier registration.

    Each device comes with the node key's signed statement that it is present.
    """

    description: NodeDescription
    node_id: NodeIdText | None = None
    own_tasks_only: bool = False
    statements: Annotated[tuple[DeviceStatement, ...], Meta(max_length=MOST_DEVICES)] = ()
    protocol: SmallCount = FIRST_PROTOCOL
    contest: bool = False  # contest devices of other wallets; otherwise they are refused
    statuses: DeviceStatuses = ()  # of its devices; without one a device takes work unless paused
    wish: Count = 0  # as in a heartbeat


class UnboundDevice(Struct, frozen=True):
    """A device that gets no work, and why."""

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
    signing_address: str = ""  # that countersigns receipts; empty if the server takes none
    receipt_seconds: float = 0.0  # how often a long attempt with a price gets one
    address: str = ""  # the node's, as the server sees it: its tasks may not connect to it


class CallPosition(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """How far a node knows the items of an attempt on a call stream."""

    attempt_id: AttemptId
    next_item: Annotated[int, Meta(ge=0, le=MOST_ITEMS)]  # it has all granted items before this one
    cancelled: Annotated[int, Meta(ge=0, le=MOST_ITEMS)] = 0  # how many cancelled ones it knows of


class Heartbeat(Struct, frozen=True, forbid_unknown_fields=True):
    """Renews every lease of the node, and reports the status of its devices."""

    held: HeldLeases = ()
    load_percent: Annotated[float, Meta(ge=0, le=100)] = 0.0
    memory_used_bytes: Count = 0
    devices: DeviceStatuses = ()
    wish: Count = 0  # the number of the last owner's request that the node has done
    # In the order of their chain; repeated until they are countersigned.
    receipts: Annotated[tuple[NodeSignedReceipt, ...], Meta(max_length=MOST_RECEIPTS)] = ()
    volumes: Annotated[tuple[VersionText, ...], Meta(max_length=MOST_HELD_VOLUMES)] = ()  # it holds


class AcquireLeases(Struct, frozen=True, forbid_unknown_fields=True):
    """Long poll. Listed leases are acknowledged; grants that are not listed are sent again."""

    held: HeldLeases = ()
    wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 20.0
    most: Annotated[int, Meta(ge=1, le=1_000)] = 100  # grants in one response
    # Its attempts on call streams: the answer has their new items. None from a node of an earlier
    # version, which gets all items with the grant.
    streams: Annotated[tuple[CallPosition, ...], Meta(max_length=1_000)] | None = None
    # Of a node without leases, in place of a heartbeat of its own; see `took_beat`.
    beat: Heartbeat | None = None


class GrantedDevice(Struct, frozen=True):
    device_id: DeviceId
    uuid: str
    milli: int
    memory_bytes: int = 0


class Grant(Struct, frozen=True):
    """Everything that a node needs to run one attempt."""

    attempt_id: AttemptId
    token: LeaseToken
    task_id: TaskId
    account_id: str  # the task's account: accounts never share environments
    wallet: str  # of that account, for allow and deny lists
    spec: TaskSpec
    requirements: Requirements
    limits: Limits
    devices: list[GrantedDevice]
    items: list[ItemRange] = []  # of an array: the remaining items, in this order
    items_total: int | None = None  # of an array: the number of all items
    is_reclaimable: bool = False  # whether the owner's terms allowed stopping it at assignment
    secrets: dict[str, str] = {}  # sent here only; the node keeps them in memory
    checkpoint: BlobRef | None = None  # an archive from an earlier attempt to resume from
    traceparent: str | None = None  # of its trace, if the task was submitted with one
    price_micro_per_hour: int = 0  # agreed, for all its devices
    # Granted ahead: it starts after all earlier grants of the line, which began with this attempt.
    line: AttemptId | None = None
    # Of a call stream: how long it waits for more items before it ends. Its items come separately.
    linger_seconds: float | None = None


class GrantedItems(Struct, frozen=True):
    """New items of an attempt on a call stream, in order, with their inputs."""

    attempt_id: AttemptId
    start: int
    end: int
    inputs: bytes  # as in wire/item_file.py


class CancelledItems(Struct, frozen=True):
    """All cancelled items of an attempt on a call stream: they are skipped, or stopped."""

    attempt_id: AttemptId
    items: list[ItemRange]

    @property
    def count(self) -> int:
        return sum(map(len, self.items))


class LeasesGranted(Struct, frozen=True):
    """`stop` lists held attempts that are cancelled or given up: stop and forget them."""

    grants: list[Grant] = []
    stop: list[AttemptId] = []
    lease_seconds: float = 90.0
    has_wishes: bool = False  # of the owner: the next heartbeat has them
    items: list[GrantedItems] = []
    released: list[AttemptId] = []  # on call streams: they end once their items are done
    # The heartbeat in this poll was recorded: while the node has no leases and polls, none is due.
    took_beat: bool = False
    cancelled: list[CancelledItems] = []  # of attempts that know of fewer


class HeartbeatAnswer(Struct, frozen=True):
    """Attempts to stop, device challenges, devices without work, and owner's requests."""

    stop: list[AttemptId] = []
    challenges: list[DeviceChallenge] = []
    unbound: list[UnboundDevice] = []
    wishes: list[Wish] = []
    unfunded: list[AttemptId] = []  # to stop with a checkpoint: the credit for them ran out
    checkpoint_seconds: float = 60.0  # the time for that
    receipts: ReceiptsAnswer = ReceiptsAnswer()
    address: str = ""  # as in `NodeRegistered`


class Preparing(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="event", tag="preparing"
):
    """The node has fetched the attempt and prepares it."""

    lease: Lease


class Started(Struct, frozen=True, forbid_unknown_fields=True, tag_field="event", tag="started"):
    """The consumer's code starts to run."""

    lease: Lease


class Finished(Struct, frozen=True, forbid_unknown_fields=True, tag_field="event", tag="finished"):
    """The attempt has ended. Resent until acknowledged; the same body gets the same answer."""

    lease: Lease
    reason: EndReason
    exit_code: Annotated[int, Meta(ge=-255, le=255)] | None = None
    detail: LineText = ""
    usage: Usage = Usage()
    value: Value | None = None  # of a function: its return value or exception
    last_lines: LastLines = ""  # what failed code wrote last to stderr, and its exception


class ItemOutcome(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """The outcome of one item of an array."""

    item: Annotated[int, Meta(ge=0, lt=MOST_ITEMS)]
    reason: EndReason
    run_seconds: Seconds
    exit_code: Annotated[int, Meta(ge=-255, le=255)] | None = None
    detail: LineText = ""
    error: Annotated[bytes, Meta(max_length=65_536)] = b""  # of a function: its exception
    last_lines: LastLines = ""  # as in `Finished`


class ReturnedItems(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Consecutive items of a function's array that succeeded, with their return values."""

    start: Annotated[int, Meta(ge=0, lt=MOST_ITEMS)]
    end: Annotated[int, Meta(ge=1, le=MOST_ITEMS)]
    run_seconds: Seconds  # the total of all items
    values: Value  # as in wire/item_file.py


class ItemsDone(Struct, frozen=True, forbid_unknown_fields=True, tag_field="event", tag="items"):
    """Outcomes of a part of a range. An item counts once: repeated outcomes are ignored."""

    lease: Lease
    outcomes: Annotated[tuple[ItemOutcome, ...], Meta(max_length=1_000)] = ()
    returned: Annotated[tuple[ReturnedItems, ...], Meta(max_length=1_000)] = ()

    @property
    def first_item(self) -> int:
        """Identifies the part: parts of a range do not overlap."""
        return min(
            [outcome.item for outcome in self.outcomes] + [items.start for items in self.returned]
        )

    @property
    def last_item(self) -> int:
        return max(
            [outcome.item for outcome in self.outcomes] + [items.end - 1 for items in self.returned]
        )


Report = Preparing | Started | ItemsDone | Finished


class Reports(Struct, frozen=True, forbid_unknown_fields=True):
    reports: Annotated[tuple[Report, ...], Meta(min_length=1, max_length=1_000)]


class ReportAnswer(Struct, frozen=True):
    """`accepted`, or the error code of this report."""

    attempt_id: AttemptId
    accepted: bool
    code: str = "accepted"


class ReportAnswers(Struct, frozen=True):
    answers: list[ReportAnswer]


class PackedLogPiece(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    stream: Annotated[str, Meta(pattern=f"^(stdout|stderr|potluck){END}")]
    data: Annotated[bytes, Meta(min_length=1, max_length=262_144)]


class LogChunk(Struct, frozen=True, forbid_unknown_fields=True):
    """Log pieces, starting at `offset` (a count of pieces). Idempotent by offset."""

    lease: Lease
    offset: SmallCount
    pieces: Annotated[tuple[PackedLogPiece, ...], Meta(min_length=1, max_length=4_096)]


class LogAppended(Struct, frozen=True):
    next_offset: int


def for_earlier_server(message: Struct) -> Struct:
    """A provider's message without what servers of the last minor version do not know."""
    match message:
        case RegisterNode(description=node):
            sandbox = replace(node.sandbox, takes_stdin=False)
            devices = tuple(map(_earlier_device, node.devices))
            known = replace(node, sandbox=sandbox, devices=devices, volumes_bytes=0)
            earlier = replace(known, others_disk_in_memory=False, gpu_share=1.0, more_pythons=())
            return replace(message, description=_with_safe_disk(earlier, node))
        case Heartbeat():
            return replace(message, receipts=(), volumes=())
        case AcquireLeases():
            return replace(message, streams=None, beat=None)
        case Reports(reports=reports):
            return Reports(tuple(map(_earlier_report, reports)))
        case _:
            return message


def _with_safe_disk(earlier: NodeDescription, node: NodeDescription) -> NodeDescription:
    """With so much disk that it may be in memory, if some tasks have theirs there."""
    if not node.others_disk_in_memory:
        return earlier
    disk_bytes = min(node.disk_bytes, node.memory_bytes // MEMORY_PER_DISK)
    return replace(earlier, disk_bytes=disk_bytes)


def _earlier_device(device: DeviceDescription) -> DeviceDescription:
    terms = replace(device.terms, network=(), own_network=(), network_task_bytes=None)
    return replace(device, terms=terms)


def _earlier_report(report: Report) -> Report:
    match report:
        case Finished():
            return replace(report, last_lines="")
        case ItemsDone(outcomes=outcomes):
            earlier = tuple(replace(outcome, last_lines="") for outcome in outcomes)
            return replace(report, outcomes=earlier)
        case _:
            return report
