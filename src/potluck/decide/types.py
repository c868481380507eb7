"""Inputs and outputs of the scheduler. Times are seconds since 1970."""

from msgspec import Struct

from potluck.model.device import Availability, DeviceKind
from potluck.model.ids import AccountId, AttemptId, DeviceId, NodeId, TaskId
from potluck.model.node import MEMORY_PER_DISK, SandboxStrength
from potluck.model.task import ItemRange, Limits, Requirements
from potluck.model.terms import TaskKind


class WaitingTask(Struct, frozen=True, gc=False):
    """A task that could have an attempt, or an array that could have one more."""

    id: TaskId
    account_id: AccountId
    requirements: Requirements  # equal requirements are one object
    limits: Limits
    priority: int
    failed_on: frozenset[NodeId] = frozenset()  # nodes that lost, failed or ignored it
    submitted_at: float = 0.0
    expected_seconds: float | None = None  # declared or learned; of one item, if it is an array
    pending: tuple[ItemRange, ...] = ()  # of an array: items not granted yet
    kind: str = TaskKind.SCRIPT.value  # plain text, which is faster to look up
    nodes: int = 1  # a gang takes several nodes at once; the server always requests one

    def __lt__(self, other: "WaitingTask") -> bool:
        """Two versions of a task in one heap are equal in order."""
        return False


class FreeDevice(Struct, frozen=True):
    """A device, and its free share."""

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
    serves: AccountId | None = None  # the account that uses fractions of it; None if several do
    serves_sharers: bool = True  # whether all its users agreed to share it with other accounts
    availability: Availability = Availability.AVAILABLE
    kinds: frozenset[str] = frozenset()  # of tasks that it accepts; empty: all
    least_milli: int = 1  # of a GPU: the smallest share that its owner offers
    allow: frozenset[AccountId] | None = None  # accepts only these, its owner included; None: all
    deny: frozenset[AccountId] = frozenset()  # rejects these; never its owner
    network: tuple[str, ...] = ()  # hosts that tasks of others may reach
    own_network: tuple[str, ...] = ()  # hosts that its owner's tasks may reach
    network_task_bytes: int | None = None  # the most for one task; None: no limit

    @property
    def is_available(self) -> bool:
        return self.availability is Availability.AVAILABLE


class FreeNode(Struct, frozen=True):
    """An online node, and its free resources."""

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
    is_doubted: bool = False  # others come first: too many of its attempts are lost or outliers
    sandbox: SandboxStrength = SandboxStrength.NONE
    kinds: frozenset[str] = frozenset(TaskKind)  # of tasks that the sandbox runs
    containers: SandboxStrength | None = None  # of the sandbox for images, if it is another one
    python: str = ""  # such as "3.11.2"
    more_pythons: tuple[str, ...] = ()  # that the node fetches when one is required
    wallet: str = ""  # of its owner, in lower case
    own_images_only: bool = False  # whether `containers` serves its owner only
    takes_stdin: bool = True
    is_cordoned: bool = False  # by an admin: no new work
    volumes_bytes: int = 0  # the disk for volumes
    held_volumes: frozenset[str] = frozenset()  # the keys of those that it has already
    others_disk_in_memory: bool = False  # that of tasks of other accounts
    gpu_share: float = 0.0  # the part of a GPU's share of the node that its task gets by default

    def disk_bytes_for(self, account_id: AccountId, requirements: Requirements) -> int:
        """The most disk that the task of the account could have; 0: not known."""
        if not self.others_disk_in_memory or account_id == self.account_id:
            return self.disk_bytes
        return min(self.disk_bytes, requirements.memory_bytes // MEMORY_PER_DISK)

    def is_open_to(self, account_id: AccountId, kind: str) -> bool:
        """Whether its sandbox for this kind of task may run those of the account."""
        own_only = self.own_tasks_only or (self.own_images_only and kind == TaskKind.CONTAINER)
        return not own_only or self.account_id == account_id

    def strength_for(self, kind: str) -> SandboxStrength | None:
        """The strength of the sandbox for this kind of task; None if the node cannot run it."""
        if kind == TaskKind.CONTAINER and self.containers is not None:
            return self.containers
        return self.sandbox if kind in self.kinds else None


class DeviceShare(Struct, frozen=True, gc=False):
    device_id: DeviceId
    milli: int
    memory_bytes: int = 0


class RunningAttempt(Struct, frozen=True, gc=False):
    """The resources of a live attempt, and its expected end."""

    id: AttemptId
    task_id: TaskId
    account_id: AccountId
    node_id: NodeId
    shares: tuple[DeviceShare, ...]
    cores: int
    memory_bytes: int
    disk_bytes: int
    expected_end: float
    requirements: Requirements | None = None  # of a single task: what others in its line must equal
    kind: str = ""
    price_micro_per_hour: int = 0
    line: AttemptId | None = None  # the first attempt of its line, if that is another one


class AccountShare(Struct, frozen=True):
    """An account's credit, weight and quota."""

    id: AccountId
    available_micro: int = 0
    weight: float = 1.0
    most_running_milli: int | None = None  # its quota
    wallet: str = ""  # in lower case


class Assignment(Struct, frozen=True, gc=False):
    """Assigns a task to devices of a node at a price; applied only if it is still valid."""

    task_id: TaskId
    node_id: NodeId
    shares: tuple[DeviceShare, ...]
    requirements: Requirements
    limits: Limits
    price_micro_per_hour: int
    hold_micro: int
    items: ItemRange | None = None
    expected_seconds: float = 0.0  # of all its items
    kind: str = TaskKind.SCRIPT.value
    requested: Requirements | None = None  # if `requirements` has more, the share of its GPUs

    def running(
        self, attempt_id: AttemptId, account_id: AccountId, expected_end: float
    ) -> RunningAttempt:
        """The attempt that it becomes when it is applied."""
        needed = self.requirements
        return RunningAttempt(
            attempt_id,
            self.task_id,
            account_id,
            self.node_id,
            self.shares,
            needed.cores,
            needed.memory_bytes,
            needed.disk_bytes,
            expected_end,
            (self.requested or needed) if self.items is None else None,
            self.kind,
            self.price_micro_per_hour,
        )
