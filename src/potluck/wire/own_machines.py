"""Messages about an owner's machines: their activity, earnings and prices."""

from datetime import date, datetime

from msgspec import Struct

from potluck.model.bounded_types import Count
from potluck.model.device import Availability
from potluck.model.ids import DeviceId, NodeId
from potluck.model.node import NodeState
from potluck.wire.device_status import DeviceSample


class DeviceHistory(Struct, frozen=True):
    """Measurements of a device from the last hour, oldest first. There may be gaps."""

    device_id: DeviceId
    samples: list[DeviceSample]


class UsedInAll(Struct, frozen=True):
    """Total usage of attempts on a machine, as it measured it."""

    cpu_seconds: float = 0.0
    device_seconds: float = 0.0  # computing time of devices, if they report their load
    energy_joules: float | None = None  # if any of them reports its power
    input_bytes: int = 0
    output_bytes: int = 0


class Earned(Struct, frozen=True):
    """What one device of a node earned on one day (UTC), and its attempts that ended then.

    Names and units are those of `Contribution`.
    """

    day: date
    node_id: NodeId
    node_name: str
    device_id: DeviceId | None  # None if attempts used several devices
    attempts: int
    worked_seconds: float  # device time: a share of a device counts as its part
    earned_micro: int  # before the fee, with what is held back
    fee_micro: int
    used: UsedInAll = UsedInAll()


class Earnings(Struct, frozen=True):
    """Newest day first; the totals cover the whole requested time."""

    since: datetime
    until: datetime
    attempts: int
    worked_seconds: float
    earned_micro: int
    fee_micro: int
    earned: list[Earned]
    used: UsedInAll = UsedInAll()


class DevicePrice(Struct, frozen=True):
    """A price for an hour of a whole device, and since when it applied."""

    since: datetime
    price_micro_per_hour: int


class PriceHistory(Struct, frozen=True):
    """Newest first. The oldest is from when the device was first seen."""

    device_id: DeviceId
    prices: list[DevicePrice]


class PriceSuggestion(Struct, frozen=True):
    """What similar devices of other owners earned in the last week, for an hour of work.

    Without amounts if fewer than three owners had paid work: it would reveal what one of them
    earns.
    """

    device_id: DeviceId
    sentence: str
    low_micro_per_hour: int | None = None  # a quarter of the owners earned no more
    high_micro_per_hour: int | None = None  # a quarter earned more
    busy_percent: int | None = None


class AwayDevice(Struct, frozen=True):
    """A device that takes no new work now."""

    device_id: DeviceId
    model: str
    availability: Availability
    why: str = ""


class NodeReason(Struct, frozen=True):
    """The number of waiting tasks that the node does not get for this reason."""

    code: str  # a refusal, or why they do not use the free room
    tasks: int
    sentence: str


class NodeExplanation(Struct, frozen=True):
    """Why a node gets no work, or no more, from the scheduler."""

    node_id: NodeId
    state: NodeState
    sentence: str
    running: int = 0  # the number of its attempts
    waiting: int = 0  # the number of tasks in the queue
    reasons: list[NodeReason] = []  # those with the most tasks first
    changes: list[str] = []  # what its owner could do, in sentences
    away: list[AwayDevice] = []
    # Attempts that failed here, while such tasks succeed on nodes of other owners.
    outlier_attempts: int = 0
    reliability: str = ""  # what follows from them, in a sentence
    at: datetime | None = None  # when the scheduler wrote this


class LeaveNode(Struct, frozen=True, forbid_unknown_fields=True):
    """An empty message is fine: a node that only stops can come back with its key."""

    is_for_good: bool = False  # its key is revoked
    wish: Count = 0  # as in a heartbeat
