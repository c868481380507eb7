"""Ranges of arrays in domain words: granted to a node as the leader does, and reported in parts."""

from potluck.decide.charges import hold_micro
from potluck.decide.types import Assignment, DeviceShare
from potluck.model.ids import TaskId
from potluck.model.task import GIB, EndReason, ItemRange
from potluck.server.flow.schedule.assign import apply_assignments
from potluck.wire.provider import Grant, ItemOutcome, ItemsDone, NodeRegistered, Started
from tests.server.flow.pool import Pool, lease_of


async def assign(
    pool: Pool, node: NodeRegistered, task_id: TaskId, start: int, end: int, price: int = 0
) -> bool:
    """Whether the range could be granted to this node's first device."""
    return await place(pool, node, task_id, ItemRange(start, end), price)


async def place(
    pool: Pool,
    node: NodeRegistered,
    task_id: TaskId,
    items: ItemRange | None = None,
    price: int = 0,
) -> bool:
    """As if the leader had planned it so: this very task on this very node."""
    task = await pool.task(task_id)
    assignment = Assignment(
        task_id=task_id,
        node_id=node.node_id,
        shares=(DeviceShare(node.device_ids[0], 1000, 24 * GIB),),
        requirements=task.requirements,
        limits=task.limits,
        price_micro_per_hour=price,
        hold_micro=hold_micro(price, task.limits.run_seconds * (len(items) if items else 1)),
        items=items,
    )
    return bool(await apply_assignments(pool.services, pool.leads, [assignment]))


async def give(
    pool: Pool, node: NodeRegistered, task_id: TaskId, start: int, end: int, price: int = 0
) -> Grant:
    """The range is granted, fetched and started."""
    assert await assign(pool, node, task_id, start, end, price)
    (grant,) = await pool.fetch(node.node_id)
    assert await pool.report(node.node_id, Started(lease_of(grant))) == ["accepted"]
    return grant


def succeeded(grant: Grant, *items: int, seconds: float = 1.0) -> ItemsDone:
    outcomes = tuple(ItemOutcome(item, EndReason.COMPLETED, seconds, 0) for item in items)
    return ItemsDone(lease_of(grant), outcomes)


def failed(grant: Grant, *items: int) -> ItemsDone:
    outcomes = tuple(ItemOutcome(item, EndReason.EXIT_STATUS, 1.0, 1, "no luck") for item in items)
    return ItemsDone(lease_of(grant), outcomes)
