"""One scheduling round over a snapshot of everything; goes when the leader remembers.

Pure and deterministic: the same snapshot gives the same plan. A plan never takes more than the
snapshot shows as free; what has changed since is caught when the plan is applied.
"""

from collections import Counter

import msgspec
from msgspec import Struct

from potluck.decide import explain, rank
from potluck.decide.feasible import Fit, Refusal, fit
from potluck.decide.snapshot import Assignment, FreeDevice, FreeNode, Snapshot, WaitingTask
from potluck.model.ids import AccountId, NodeId, TaskId
from potluck.model.task import WaitingReason


class Plan(Struct, frozen=True):
    assignments: tuple[Assignment, ...]
    waiting: dict[TaskId, WaitingReason]


def plan(snapshot: Snapshot) -> Plan:
    free = {node.id: node for node in snapshot.nodes}
    purse = dict(snapshot.available_micro)
    assignments: list[Assignment] = []
    waiting: dict[TaskId, WaitingReason] = {}
    for task in sorted(snapshot.tasks, key=lambda each: (-each.priority, each.id)):
        chosen = _choose(task, free, purse.get(task.account_id, 0))
        if isinstance(chosen, WaitingReason):
            waiting[task.id] = chosen
            continue
        assignments.append(_assignment(task, chosen))
        free[chosen.node.id] = _taken(chosen.node, task, chosen)
        _spend(purse, task.account_id, chosen.hold_micro)
    return Plan(tuple(assignments), waiting)


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
    return Assignment(
        task_id=task.id,
        node_id=chosen.node.id,
        shares=chosen.shares,
        requirements=task.requirements,
        limits=task.limits,
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
