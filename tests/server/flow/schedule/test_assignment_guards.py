"""What a plan did not know of is caught when it is applied."""

import pytest

from potluck.model.node import SandboxReport
from potluck.model.task import TaskRequest
from potluck.model.task_spec import ContainerSpec
from potluck.model.terms import TaskKind
from potluck.server.flow.schedule.assign import apply_assignments
from potluck.server.flow.submit import submit
from potluck.server.leader.memory import LeaderMemory
from tests.server.flow.pool import Pool

_SAYS = "UPDATE devices SET description = jsonb_set(description, '{{terms}}', '{}')"
CHANGES = {
    "it runs its owner's tasks alone": "UPDATE nodes SET own_tasks_only = true",
    "it is silent": "UPDATE nodes SET state = 'silent'",
    "an admin cordoned it": "UPDATE nodes SET cordoned_at = now()",
    "its price is another": "UPDATE devices SET price_micro_per_hour = price_micro_per_hour + 1",
    "its device is another wallet's": "UPDATE devices SET standing = 'foreign'",
    "its device is gone": "UPDATE devices SET is_present = false",
    "its device is in use": "UPDATE devices SET free_milli = 999",
    "its device's memory is in use": "UPDATE devices SET used_memory_bytes = 1",
    "its device is paused": "UPDATE devices SET availability = 'paused'",
    "its device is sick": "UPDATE devices SET availability = 'sick'",
    "its owner takes other tasks": _SAYS.format('{"kinds": ["container"]}'),
    "its owner takes others' tasks": _SAYS.format('{"allow": ["0xabc"]}'),
    "its owner takes nothing of this wallet": """
        UPDATE devices SET description = jsonb_set(description, '{terms,deny}',
            (SELECT jsonb_agg(lower(address)) FROM accounts))""",
    "its cores are in use": "UPDATE nodes SET used_cores = cores",
    "the task has to wait": "UPDATE tasks SET not_before = now() + interval '1 hour'",
    "the task comes after another": "UPDATE tasks SET waits_for = 1",
    "the task came too late": "UPDATE tasks SET start_before = now()",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_a_plan_that_no_longer_holds_changes_nothing(pool: Pool, change: str) -> None:
    await pool.offer()
    await pool.submit()
    memory = LeaderMemory(pool.services)
    await memory.begin()
    (assignment,) = memory.known.scheduler.plan(memory.now, 10).assignments
    await pool.sql(change)
    assert await apply_assignments(pool.services, pool.leads, [assignment]) == []
    assert await pool.sql("SELECT count(*) FROM attempts") == 0


async def test_an_engine_that_lost_its_limits_gets_no_image_of_another_account(pool: Pool) -> None:
    engine = SandboxReport("docker", "cgroup v2", "cgroup v2")
    plain = SandboxReport("bwrap", "watchdog", "watchdog", kinds=(TaskKind.SCRIPT,))
    await pool.offer(sandbox=plain, containers=engine)
    await submit.submit(pool.services, pool.alice, TaskRequest(ContainerSpec("busybox")), None)
    memory = LeaderMemory(pool.services)
    await memory.begin()
    (assignment,) = memory.known.scheduler.plan(memory.now, 10).assignments
    await pool.sql(
        "UPDATE nodes SET description = jsonb_set(description, '{containers,memory}', '\"none\"')"
    )
    assert await apply_assignments(pool.services, pool.leads, [assignment]) == []


async def test_a_plan_that_holds_comes_true(pool: Pool) -> None:
    await pool.offer()
    await pool.submit()
    memory = LeaderMemory(pool.services)
    await memory.begin()
    (assignment,) = memory.known.scheduler.plan(memory.now, 10).assignments
    assert len(await apply_assignments(pool.services, pool.leads, [assignment])) == 1
