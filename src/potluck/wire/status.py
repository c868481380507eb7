"""What an operator looks at first: the whole pool on one screen."""

from datetime import datetime

from msgspec import Struct

from potluck.model.task import EndReason, TaskState
from potluck.wire.consumer import DeviceCounts, ServerReadiness


class InstanceView(Struct, frozen=True):
    """A server that uses the database."""

    id: str
    version: str
    started_at: datetime
    seen_at: datetime
    is_leader: bool = False


class QueueReason(Struct, frozen=True):
    """Waiting tasks with the same reason."""

    reason: str
    tasks: int
    oldest_seconds: float


class EndCount(Struct, frozen=True):
    """Tasks that ended in the last five minutes."""

    state: TaskState
    reason: EndReason | None
    tasks: int


class BackupStatus(Struct, frozen=True):
    latest_at: datetime | None = None  # None: there is no complete one
    size_bytes: int | None = None
    missing_blobs: int | None = None
    is_running: bool = False


class PoolFacts(Struct, frozen=True, kw_only=True):
    """What the database says at one moment."""

    at: datetime
    schema_version: str | None
    instances: list[InstanceView]
    term: int  # how often the leader has changed
    waiting_tasks: int
    oldest_waiting_at: datetime | None
    running_attempts: int
    ended: list[EndCount]
    nodes: dict[str, int]  # by state
    cordoned_nodes: int
    node_versions: dict[str, int]
    devices: dict[str, DeviceCounts]  # by kind
    database_bytes: int
    blob_bytes: int
    backup: BackupStatus
    firing_alerts: dict[str, int] = {}  # by name
    # their conditions hold, but not for long enough yet
    pending_alerts: dict[str, int] = {}


class PoolStatus(PoolFacts, frozen=True, kw_only=True):
    """The facts, and what the instances know."""

    readiness: ServerReadiness  # of the instance that answers
    queue: list[QueueReason]  # from the leader; empty without one
    ledger_sum_micro: int | None  # zero unless something is wrong; None: too long to add up now


class HistoryPoint(Struct, frozen=True):
    """The tasks that ended in one step of a history. Without one that started, times are None."""

    at: datetime  # the start of the step
    succeeded: int
    failed: int
    stopped: int  # cancelled or expired
    wait_median_seconds: float | None  # from when a task could start until it did
    wait_p95_seconds: float | None
    run_median_seconds: float | None
    run_p95_seconds: float | None


class PoolHistory(Struct, frozen=True):
    """Throughput and latency over time, oldest first. Steps without an ended task are left out."""

    since: datetime
    until: datetime
    step_seconds: int
    points: list[HistoryPoint]
    is_complete: bool  # False: only the newest tasks of this time were counted
