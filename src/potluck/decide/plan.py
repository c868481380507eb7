"""One scheduling round: feasible → rank → plan, with a reason for all that waits.

Pure and deterministic: the same snapshot gives the same plan. A plan never takes more than the
snapshot shows as free; what has changed since is caught when the plan is applied.
"""

from collections import Counter
from datetime import timedelta

import msgspec
from msgspec import Struct

from potluck.decide import explain, rank
from potluck.decide.feasible import Fit, Refusal, fit
from potluck.decide.order import in_order
from potluck.decide.snapshot import Assignment, FreeDevice, FreeNode, Snapshot, WaitingTask
from potluck.model.ids import AccountId, NodeId, TaskId
from potluck.model.task import WaitingReason


class Plan(Struct, frozen=True):
    assignments: tuple[Assignment, ...]
    waiting: dict[TaskId, WaitingReason]
    # When a task that only waits for its time becomes ready; the next round is due then.
    next_ready_seconds: float | None = None


def plan(snapshot: Snapshot) -> Plan:
    free = {node.id: node for node in snapshot.nodes}
    purse = dict(snapshot.available_micro)
    assignments: list[Assignment] = []
    waiting: dict[TaskId, WaitingReason] = {}
    for task in in_order(snapshot.tasks):
        if _must_wait(task, snapshot):
            waiting[task.id] = explain.waits_for_time()
            continue
        chosen = _choose(task, free, purse.get(task.account_id, 0))
        if isinstance(chosen, WaitingReason):
            waiting[task.id] = chosen
            continue
        assignments.append(_assignment(task, chosen))
        free[chosen.node.id] = _taken(chosen.node, task, chosen)
        _spend(purse, task.account_id, chosen.hold_micro)
    return Plan(tuple(assignments), waiting, _next_ready_seconds(snapshot))


def _must_wait(task: WaitingTask, snapshot: Snapshot) -> bool:
    return task.not_before is not None and task.not_before > snapshot.now


def _next_ready_seconds(snapshot: Snapshot) -> float | None:
    waits = [
        (task.not_before - snapshot.now) / timedelta(seconds=1)
        for task in snapshot.tasks
        if task.not_before is not None and task.not_before > snapshot.now
    ]
    return min(waits, default=None)


def _choose(
    task: WaitingTask, free: dict[NodeId, FreeNode], available_micro: int
) -> Fit | WaitingReason:
    fits: list[Fit] = []
    refusals: Counter[Refusal] = Counter()
    for node in free.values():
        answer = fit(task, node, available_micro)
        if isinstance(answer, Fit):
            fits.append(answer)
        else:
            refusals[answer] += 1
    return rank.best(task, fits) if fits else explain.waits_for_nodes(refusals)


def _assignment(task: WaitingTask, chosen: Fit) -> Assignment:
    wanted = task.requirements
    return Assignment(
        task_id=task.id,
        node_id=chosen.node.id,
        shares=chosen.shares,
        cores=wanted.cores,
        memory_bytes=wanted.memory_bytes,
        disk_bytes=wanted.disk_bytes,
        price_micro_per_hour=chosen.price_micro_per_hour,
        hold_micro=chosen.hold_micro,
    )


def _taken(node: FreeNode, task: WaitingTask, chosen: Fit) -> FreeNode:
    """The node as it is once the task has its share."""
    milli = {share.device_id: share.milli for share in chosen.shares}
    wanted = task.requirements
    return msgspec.structs.replace(
        node,
        free_cores=node.free_cores - wanted.cores,
        free_memory_bytes=node.free_memory_bytes - wanted.memory_bytes,
        free_disk_bytes=node.free_disk_bytes - wanted.disk_bytes,
        devices=tuple(_device_less(device, milli.get(device.id, 0)) for device in node.devices),
    )


def _device_less(device: FreeDevice, milli: int) -> FreeDevice:
    return msgspec.structs.replace(device, free_milli=device.free_milli - milli)


def _spend(purse: dict[AccountId, int], account_id: AccountId, amount_micro: int) -> None:
    purse[account_id] = purse.get(account_id, 0) - amount_micro
