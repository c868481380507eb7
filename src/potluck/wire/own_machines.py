"""What an owner is told of his machines: what they do, and what they earn."""

from datetime import date, datetime

from msgspec import Struct

from potluck.model.bounded_types import Count
from potluck.model.device import Availability
from potluck.model.ids import DeviceId, NodeId
from potluck.model.node import NodeState
from potluck.wire.device_status import DeviceSample


class DeviceHistory(Struct, frozen=True):
    """How a device did in the last hour, oldest first. What was not kept is not there."""

    device_id: DeviceId
    samples: list[DeviceSample]


class UsedInAll(Struct, frozen=True):
    """What attempts used of a machine, all together, as it measured it."""

    cpu_seconds: float = 0.0
    device_seconds: float = 0.0  # that devices computed, where they tell how busy they are
    energy_joules: float | None = None  # where any of them tells its power
    input_bytes: int = 0
    output_bytes: int = 0


class Earned(Struct, frozen=True):
    """What one node was paid on one day (UTC), and its attempts that ended on that day."""

    day: date
    node_id: NodeId
    node_name: str
    device_id: DeviceId | None  # None where attempts had several devices
    attempts: int
    seconds: float  # that they ran
    reward_micro: int
    used: UsedInAll = UsedInAll()


class Earnings(Struct, frozen=True):
    """The newest day first; the totals are of all that was asked for."""

    since: datetime
    until: datetime
    attempts: int
    seconds: float
    reward_micro: int
    earned: list[Earned]
    used: UsedInAll = UsedInAll()


class AwayDevice(Struct, frozen=True):
    """A device that takes no new work now."""

    device_id: DeviceId
    model: str
    availability: Availability
    why: str = ""


class NodeReason(Struct, frozen=True):
    """So many waiting tasks are not given to the node for this reason."""

    code: str  # a refusal, or why there is room and they do not get it
    tasks: int
    sentence: str


class NodeExplanation(Struct, frozen=True):
    """Why a node gets no work, or no more, from the scheduler's own mouth."""

    node_id: NodeId
    state: NodeState
    sentence: str
    running: int = 0  # attempts that it has now
    waiting: int = 0  # tasks in the queue, whoever could take them
    reasons: list[NodeReason] = []  # of most tasks first
    changes: list[str] = []  # what its owner could do, in sentences
    away: list[AwayDevice] = []
    at: datetime | None = None  # when the scheduler said so


class LeaveNode(Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing need be said: a node that only ends may come back with the key that it has."""

    is_for_good: bool = False  # its key is revoked
    wish: Count = 0  # as in a heartbeat
