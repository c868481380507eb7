"""What a simulated market keeps about its attempts, nodes and tasks."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from potluck.decide.charges import Billable, Settlement, held_back_entries, judge
from potluck.decide.failure_record import (
    UNJUDGED_SECONDS,
    FailureRecord,
    is_doubted,
    node_reliability,
)
from potluck.decide.types import FreeDevice, FreeNode, RunningAttempt
from potluck.model.device import WHOLE_DEVICE_MILLI, DeviceKind
from potluck.model.ids import AccountId, AttemptId, DeviceId, NodeId, TaskId
from potluck.model.task import GIB
from verification.play.plays import Conduct, PlayedTask

START = datetime(2030, 1, 1, tzinfo=UTC)


class MarketSize(Struct, frozen=True):
    providers: int = 10
    consumers: int = 10
    days: float = 1.0


class AccountTotals(Struct):
    earned_micro: int = 0
    paid_micro: int = 0
    run_seconds: float = 0.0  # in which nodes really ran its code
    attempts: int = 0


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


class KeptReward(Struct, frozen=True):
    """Of an attempt that failed: it is paid or forfeited once it can be judged."""

    ended_at: float
    seconds: float
    node_id: NodeId
    task_id: TaskId
    billable: Billable  # after its end


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
    is_over: bool = False
    succeeded: tuple[NodeId, float] | None = None  # where, and how long it took


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


def judge_kept(
    kept_rewards: list[KeptReward],
    tasks: Mapping[TaskId, TaskRecord],
    find_record: Callable[[KeptReward], FailureRecord],
    now: float,
) -> tuple[list[KeptReward], list[tuple[KeptReward, Settlement]]]:
    """Those that wait, and those that are judged."""
    waiting: list[KeptReward] = []
    judged: list[tuple[KeptReward, Settlement]] = []
    for kept in kept_rewards:
        task, record = tasks[kept.task_id], find_record(kept)
        if task.succeeded is not None and task.succeeded[0] != kept.node_id:
            record = replace(record, refuting_seconds=task.succeeded[1])
        believed = record.believed_seconds(kept.seconds) if task.is_over else None
        if believed is None and now > kept.ended_at + UNJUDGED_SECONDS:
            believed = kept.seconds
        if believed is None:
            waiting.append(kept)
            continue
        settlement = judge(kept.billable, believed)
        assert not sum(side.amount_micro for side in held_back_entries(kept.billable, settlement))
        judged.append((kept, settlement))
    return waiting, judged


def consumer_id(number: int) -> AccountId:
    return AccountId(f"consumer {number:03}")


def provider_id(number: int) -> AccountId:
    return AccountId(f"provider {number:03}")


def node_id_of(number: int) -> NodeId:
    return NodeId(provider_id(number))


def owner_of(node_id: NodeId) -> AccountId:
    """Each provider has one node, with the name of the account."""
    return AccountId(node_id)
