"""A scheduler with nodes, and what its assignments become."""

from typing import Any

from msgspec.structs import replace

from potluck.decide.charges import SettleTimes
from potluck.decide.order import ORDERS
from potluck.decide.placement import PLACEMENTS
from potluck.decide.scheduler import Scheduler
from potluck.decide.types import Assignment, FreeNode, RunningAttempt
from potluck.model.ids import AccountId, AttemptId
from potluck.model.task import GIB
from tests.decide.builders import cpu, gpu, node

NOW = 1_000_000.0


def scheduler(order: str = "fair", **changes: Any) -> Scheduler:
    defaults: dict[str, Any] = {"settle_times": SettleTimes(slice_seconds=10.0**9)}
    return Scheduler(ORDERS[order](), PLACEMENTS["fragmentation"](), **{**defaults, **changes})


def node_with(name: str, gpus: int, **changes: Any) -> FreeNode:
    """A node with so many GPUs, and enough of all else."""
    devices = tuple(gpu(f"{name}-g{index}", free_memory_bytes=24 * GIB) for index in range(gpus))
    room = {"cores": 64, "free_cores": 64, "memory_bytes": 64 * GIB, "disk_bytes": 64 * GIB}
    return node(
        name,
        *devices,
        **{**room, "free_memory_bytes": 64 * GIB, "free_disk_bytes": 64 * GIB, **changes},
    )


def with_cpu(free_node: FreeNode) -> FreeNode:
    """As every real node has one."""
    devices = (*free_node.devices, cpu(f"{free_node.id}-c"))
    return replace(free_node, devices=devices)


def running(assignment: Assignment, account_id: AccountId, end: float) -> RunningAttempt:
    """What an assignment becomes when it is applied."""
    return assignment.running(
        AttemptId(f"attempt {assignment.task_id} {assignment.node_id} {assignment.items}"),
        account_id,
        end,
    )
