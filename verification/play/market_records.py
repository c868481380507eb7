"""What a simulated market keeps about its attempts, nodes and tasks."""

from datetime import UTC, datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from potluck.decide.charges import Billable
from potluck.decide.failure_record import is_doubted, node_reliability
from potluck.decide.types import FreeDevice, FreeNode, RunningAttempt
from potluck.model.device import WHOLE_DEVICE_MILLI, DeviceKind
from potluck.model.ids import AccountId, AttemptId, DeviceId, NodeId
from potluck.model.task import GIB
from verification.play.plays import Conduct, PlayedTask

START = datetime(2030, 1, 1, tzinfo=UTC)


class EndRecord(Struct):
    node_id: NodeId
    consumer_id: AccountId
    seconds: float
    is_outlier: bool


class NodeRecord(Struct):
    finished: int = 0
    lost: int = 0
    outliers: int = 0
    ends: list[EndRecord] = []


class TaskRecord(Struct):
    account_id: AccountId
    task: PlayedTask
    submitted_at: float
    failures: int = 0
    losses: int = 0
    uncounted_losses: int = 0
    nodes_lost: set[NodeId] = set()
    failed_on: set[NodeId] = set()
    refutable: list[EndRecord] = []  # where it failed, and that was not counted yet


class Run(Struct):
    """An attempt that runs, with what was charged for it so far."""

    attempt: RunningAttempt
    conduct: Conduct
    began_at: float
    billable: Billable
    is_unfunded: bool = False


class SliceEnd(Struct, frozen=True):
    attempt_id: AttemptId


def virtual_time(now: float) -> datetime:
    return START + timedelta(seconds=now)


def at_checkpoint(run: Run, now: float) -> Billable:
    """With the time of the last checkpoint that the server acknowledged."""
    every, started_at = run.conduct.checkpoint_seconds, run.billable.started_at
    if every is None or started_at is None or now - run.began_at < every:
        return run.billable
    number = int((now - run.began_at) / every)
    return replace(run.billable, checkpoint_at=started_at + timedelta(seconds=number * every))


def free_node(
    node_id: NodeId, owner: AccountId, price_micro_per_hour: int, counts: tuple[int, int, int]
) -> FreeNode:
    """A machine with one GPU; `counts` has its finished and lost attempts, and its outliers."""
    return FreeNode(
        id=node_id,
        account_id=owner,
        own_tasks_only=False,
        cores=8,
        free_cores=8,
        free_memory_bytes=16 * GIB,
        free_disk_bytes=16 * GIB,
        memory_bytes=16 * GIB,
        disk_bytes=16 * GIB,
        devices=(
            FreeDevice(
                id=DeviceId(f"device of {node_id}"),
                kind=DeviceKind.GPU,
                model="GPU",
                memory_bytes=24 * GIB,
                price_micro_per_hour=price_micro_per_hour,
                free_milli=WHOLE_DEVICE_MILLI,
            ),
        ),
        reliability=node_reliability(*counts),
        is_doubted=is_doubted(*counts),
        wallet=owner,
    )
