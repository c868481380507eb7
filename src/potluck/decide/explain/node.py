"""Explains why a node gets no work: the reason of each waiting task, and what its owner could do.

Each task group is checked once. With very many groups a sample is checked, and counts are
estimates.
"""

from collections import defaultdict
from collections.abc import Callable

from msgspec import Struct

from potluck.decide.explain.owner_sentences import AWAY, reason_sentence
from potluck.decide.explain.owner_suggestions import suggest_offers
from potluck.decide.failure_record import is_doubted
from potluck.decide.pool.demand import Demand
from potluck.decide.pool.feasibility import Refusal
from potluck.decide.pool.node_capacity import NodeCapacity
from potluck.decide.queue.task_groups import BlockReason
from potluck.decide.types import FreeNode, WaitingTask

# Groups that are checked for one explanation, and how often a device is checked for them.
MOST_GROUPS = 2_000
_MOST_CHECKS = 8_000

FAILED_HERE = "failed_here"
IN_LINE = "in_line"


class WaitingGroup(Struct, frozen=True):
    """A task group: its first task, its size, and why it is blocked."""

    task: WaitingTask
    count: int
    block_reason: BlockReason


class Queue(Struct, frozen=True):
    """The waiting tasks, and the labels of all nodes in the pool."""

    groups: list[WaitingGroup]
    tasks: int
    labels: frozenset[str]


class BlockedTasks(Struct, frozen=True):
    """How many tasks one reason keeps from a node."""

    code: str
    tasks: int
    sentence: str


class NodeExplained(Struct, frozen=True):
    sentence: str
    running: int
    waiting: int
    reasons: list[BlockedTasks]
    changes: list[str]


def explain_node(
    capacity: NodeCapacity, queue: Queue, demand_of: Callable[[WaitingTask], Demand], running: int
) -> NodeExplained:
    most = min(MOST_GROUPS, _MOST_CHECKS // max(1, len(capacity.node.devices)))
    stride = 1 + max(0, len(queue.groups) - 1) // most
    kept: dict[str, list[tuple[WaitingTask, int]]] = defaultdict(list)
    for group in queue.groups[::stride]:
        kept[_code(capacity, group, demand_of(group.task))].append(
            (group.task, group.count * stride)
        )
    node, about = capacity.as_node(), "about " if stride > 1 else ""
    reasons = []
    for code, tasks in kept.items():
        if count := min(queue.tasks, sum(number for _, number in tasks)):
            sentence = reason_sentence(code, node, tasks, count, queue.labels)
            reasons.append(BlockedTasks(code, count, f"{about.capitalize()}{sentence}"))
    reasons.sort(key=lambda each: -each.tasks)
    refused = {refusal: asked for refusal in Refusal if (asked := kept.get(refusal.value))}
    return NodeExplained(
        sentence=_sentence(node, reasons, running, queue.tasks),
        running=running,
        waiting=queue.tasks,
        reasons=reasons,
        changes=suggest_offers(node, refused, about),
    )


_PASSING = (Refusal.DEVICE_BUSY, Refusal.DEVICE_SHARED, Refusal.NODE_BUSY)
_BLOCKED_CODES = {
    BlockReason.CREDIT: "credit",
    BlockReason.QUOTA: "quota",
    BlockReason.TOO_LARGE: "quota",
    BlockReason.KEPT: "kept",
    BlockReason.SLOW: "slow",
}


def _code(capacity: NodeCapacity, group: WaitingGroup, demand: Demand) -> str:
    """The reason that lasts longest."""
    refusal = demand.refusal(capacity, group.task.account_id)
    if refusal is not None and refusal not in _PASSING:
        return refusal.value
    if capacity.node.id in group.task.failed_on:
        return FAILED_HERE
    return _BLOCKED_CODES.get(group.block_reason, IN_LINE) if refusal is None else refusal.value


def _sentence(node: FreeNode, reasons: list[BlockedTasks], running: int, waiting: int) -> str:
    now = f" It runs {_attempts(running)} now." if running else ""
    away = {each.availability for each in node.devices if not each.is_available}
    if node.devices and not any(each.is_available for each in node.devices):
        why = " and ".join(AWAY[each] for each in sorted(away))
        return f"It takes no new work now: {why}.{now}"
    if not waiting:
        return f"The queue is empty.{now}"
    if not reasons:
        return f"The scheduler is still checking it; ask again.{now}"
    return f"{reasons[0].sentence}{now}"


def _attempts(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count:,} attempts"


def reliability_sentence(finished: int, lost: int, outliers: int) -> str:
    """What its lost attempts and outliers mean for the node; empty if they mean nothing."""
    sentences = []
    if outliers:
        where = "while such tasks succeed on nodes of other owners"
        sentences += [f"{_attempts(outliers)} failed here, {where}; that lowers its reliability."]
    if is_doubted(finished, lost, outliers):
        share = f"{lost + outliers} of its {finished + lost:,} attempts were lost, or failed"
        sentences += [
            f"Other nodes come first, because {share} although such tasks succeed elsewhere."
        ]
    return " ".join(sentences)
