"""Explains why a node gets no work: the reason of each waiting task, and what its owner could do.

Each task group is checked once. With very many groups a sample is checked, and counts are
estimates.
"""

from collections import defaultdict
from collections.abc import Callable

from msgspec import Struct

from potluck.decide.explain.owner_sentences import AWAY, reason_sentence
from potluck.decide.explain.owner_suggestions import changes
from potluck.decide.pool.demand import Want
from potluck.decide.pool.feasibility import Refusal
from potluck.decide.pool.node_capacity import NodeCapacity
from potluck.decide.queue.task_groups import Halt
from potluck.decide.types import FreeNode, WaitingTask

# Groups that are checked for one explanation.
MOST_LINES = 2_000

FAILED_HERE = "failed_here"
IN_LINE = "in_line"


class WaitingLine(Struct, frozen=True):
    """A task group: its first task, its size, and why it is blocked."""

    task: WaitingTask
    count: int
    halt: Halt


class Queue(Struct, frozen=True):
    """The waiting tasks, and the labels of all nodes in the pool."""

    lines: list[WaitingLine]
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
    room: NodeCapacity, queue: Queue, want_of: Callable[[WaitingTask], Want], running: int
) -> NodeExplained:
    stride = 1 + max(0, len(queue.lines) - 1) // MOST_LINES
    kept: dict[str, list[tuple[WaitingTask, int]]] = defaultdict(list)
    for line in queue.lines[::stride]:
        kept[_code(room, line, want_of(line.task))].append((line.task, line.count * stride))
    node, about = room.as_node(), "about " if stride > 1 else ""
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
        changes=changes(node, refused, about),
    )


_PASSING = (Refusal.DEVICE_BUSY, Refusal.DEVICE_SHARED, Refusal.NODE_BUSY)
_HALTED = {
    Halt.CREDIT: "credit",
    Halt.QUOTA: "quota",
    Halt.TOO_LARGE: "quota",
    Halt.KEPT: "kept",
    Halt.SLOW: "slow",
}


def _code(room: NodeCapacity, line: WaitingLine, want: Want) -> str:
    """The reason that lasts longest."""
    refusal = want.refusal(room, line.task.account_id)
    if refusal is not None and refusal not in _PASSING:
        return refusal.value
    if room.node.id in line.task.failed_on:
        return FAILED_HERE
    return _HALTED.get(line.halt, IN_LINE) if refusal is None else refusal.value


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
