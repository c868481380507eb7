"""What the scheduler is told, and what it says. Times are seconds since 1970."""

from msgspec import Struct

from potluck.model.device import Availability, DeviceKind
from potluck.model.ids import AccountId, AttemptId, DeviceId, NodeId, TaskId
from potluck.model.node import SandboxStrength
from potluck.model.task import ItemRange, Limits, Requirements
from potluck.model.terms import TaskKind


class WaitingTask(Struct, frozen=True, gc=False):
    """A task that could have an attempt, or an array that could have one more."""

    id: TaskId
    account_id: AccountId
    requirements: Requirements  # the same object for all tasks that ask for the same
    limits: Limits
    priority: int
    failed_on: frozenset[NodeId] = frozenset()  # nodes that already lost, failed or ignored it
    submitted_at: float = 0.0
    expected_seconds: float | None = None  # declared or learned; of one item, if it is an array
    pending: tuple[ItemRange, ...] = ()  # of an array: what nobody has been granted yet
    kind: str = TaskKind.SCRIPT.value  # as plain text, which is quicker to look up by
    nodes: int = 1  # a gang takes so many nodes at once; the server asks for one

    def __lt__(self, other: "WaitingTask") -> bool:
        """What was known of a task and what is known now stand in one heap: neither is first."""
        return False


class FreeDevice(Struct, frozen=True):
    """What is free of a device, and what it is."""

    id: DeviceId
    kind: DeviceKind
    model: str
    memory_bytes: int
    price_micro_per_hour: int
    free_milli: int
    free_memory_bytes: int = 0
    vendor: str = ""
    compute_capability: str | None = None
    is_partition: bool = False
    shares_accounts: bool = False
    serves: AccountId | None = None  # whose fractions are on it now; None also if of several
    serves_sharers: bool = True  # whether all that is on it may stand beside other accounts
    availability: Availability = Availability.AVAILABLE
    kinds: frozenset[str] = frozenset()  # of tasks that it takes; none: all
    least_milli: int = 1  # of a GPU: its owner gives no smaller part
    allow: frozenset[AccountId] | None = None  # takes only theirs, its owner's too; None: all
    deny: frozenset[AccountId] = frozenset()  # and none of theirs; its owner is not among them

    @property
    def is_available(self) -> bool:
        return self.availability is Availability.AVAILABLE


class FreeNode(Struct, frozen=True):
    """A node that is online, and what it has left."""

    id: NodeId
    account_id: AccountId
    own_tasks_only: bool
    cores: int
    free_cores: int
    free_memory_bytes: int
    free_disk_bytes: int
    devices: tuple[FreeDevice, ...]
    memory_bytes: int = 0
    disk_bytes: int = 0
    labels: frozenset[str] = frozenset()
    reliability: float = 1.0
    sandbox: SandboxStrength = SandboxStrength.NONE
    kinds: frozenset[str] = frozenset(TaskKind)  # of tasks that run in it
    containers: SandboxStrength | None = None  # where images are run, if not in the same
    python: str = ""  # such as "3.11"
    wallet: str = ""  # of its owner, in small letters

    def strength_for(self, kind: str) -> SandboxStrength | None:
        """Of what a task of this kind would run in; None if there is nothing that runs it."""
        if kind == TaskKind.CONTAINER and self.containers is not None:
            return self.containers
        return self.sandbox if kind in self.kinds else None


class DeviceShare(Struct, frozen=True, gc=False):
    device_id: DeviceId
    milli: int
    memory_bytes: int = 0


class RunningAttempt(Struct, frozen=True, gc=False):
    """What a live attempt holds, and when it will probably be over."""

    id: AttemptId
    task_id: TaskId
    account_id: AccountId
    node_id: NodeId
    shares: tuple[DeviceShare, ...]
    cores: int
    memory_bytes: int
    disk_bytes: int
    expected_end: float


class AccountShare(Struct, frozen=True):
    """What an account may spend, and which part of the pool it may have."""

    id: AccountId
    available_micro: int = 0
    weight: float = 1.0
    most_running_milli: int | None = None  # its quota
    wallet: str = ""  # by which owners name it, in small letters


class Assignment(Struct, frozen=True, gc=False):
    """This task to this node, with these devices, at this price; applied if all still holds."""

    task_id: TaskId
    node_id: NodeId
    shares: tuple[DeviceShare, ...]
    requirements: Requirements
    limits: Limits
    price_micro_per_hour: int
    hold_micro: int
    items: ItemRange | None = None
    expected_seconds: float = 0.0  # how long all of it will probably take

    def running(
        self, attempt_id: AttemptId, account_id: AccountId, expected_end: float
    ) -> RunningAttempt:
        """What it becomes when it is applied."""
        return RunningAttempt(
            id=attempt_id,
            task_id=self.task_id,
            account_id=account_id,
            node_id=self.node_id,
            shares=self.shares,
            cores=self.requirements.cores,
            memory_bytes=self.requirements.memory_bytes,
            disk_bytes=self.requirements.disk_bytes,
            expected_end=expected_end,
        )
