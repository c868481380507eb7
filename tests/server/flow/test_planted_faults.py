"""Each guard of the SQL has a scenario that fails without it.

Fault histories seldom need them: the flow checks before it acts, and a guard checks again.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import asyncpg
import pytest
from msgspec import Struct

from potluck.decide.attempt_change import AttemptChange
from potluck.decide.types import Assignment
from potluck.server.leader.memory import LeaderMemory
from potluck.store.attempts import attempts, changes
from potluck.store.attempts.assign import PlannedAttempt, assign
from potluck.store.database import Connection
from potluck.store.events.outbox import Event
from potluck.store.new_ids import new_attempt_id
from potluck.store.scheduler import leader
from potluck.store.sealing.vault import Vault
from potluck.store.sql_files import compile_query, load, read_sources
from tests.server.flow.lease import test_leases, test_terms
from tests.server.flow.pool import Pool, done, lease_of
from tests.server.flow.schedule import test_assignment_guards

Scenario = Callable[[Pool], Awaitable[None]]


class PlantedFault(Struct, frozen=True):
    """What is taken out of a statement, of a function or of the schema."""

    scenario: Scenario
    file: str = ""
    block: str = ""
    clause: str = ""
    replacement: str = ""
    index: str = ""
    function: str = ""


async def _ends_once(pool: Pool) -> None:
    """What is written of an attempt that has ended gives nothing back again."""
    written: list[Sequence[AttemptChange]] = []
    honest = changes.write

    async def write(
        connection: Connection,
        vault: Vault,
        changed: Sequence[AttemptChange],
        events: Sequence[Event],
        slice_seconds: float,
    ) -> None:
        written.append(changed)
        await honest(connection, vault, changed, events, slice_seconds)

    node_id, grant = await pool.started()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "write", write)
        assert await pool.report(node_id, done(grant)) == ["accepted"]
    async with pool.services.database.transaction() as connection:
        for changed in written:
            await honest(connection, pool.services.vault, changed, (), 300.0)
    await pool.check()


async def _is_paid_once(pool: Pool) -> None:
    node_id, grant = await test_leases.paid(pool)
    await pool.report(node_id, done(grant))
    replay = (
        "INSERT INTO ledger_entries OVERRIDING USER VALUE"
        " SELECT * FROM ledger_entries WHERE attempt_id IS NOT NULL"
    )
    with pytest.raises(asyncpg.UniqueViolationError):
        await pool.sql(replay)


async def _is_renewed_by_its_node_only(pool: Pool) -> None:
    _, grant = await pool.started()
    other = await pool.offer()
    await pool.sql("UPDATE attempts SET lease_expires_at = now() + interval '1 second'")
    expires_at = await pool.sql("SELECT lease_expires_at FROM attempts")
    await pool.beat(other.node_id, lease_of(grant))
    assert await pool.sql("SELECT lease_expires_at FROM attempts") == expires_at


async def _an_old_leader_holds_nothing(pool: Pool) -> None:
    await pool.sql("UPDATE leader SET term = term + 1")
    async with pool.services.database.transaction() as connection:
        assert not await leader.is_current(connection, pool.leads)


async def _is_refused(pool: Pool, change: str, **requirements: Any) -> None:
    """A plan that was true before the change; refused, and not by an error."""
    await pool.offer()
    await pool.submit(**requirements)
    memory = LeaderMemory(pool.services)
    await memory.begin()
    (assignment,) = memory.known.scheduler.plan(memory.now, 10).assignments
    await pool.sql(change)
    assert await _assigned(pool, assignment) == 0


async def _assigned(pool: Pool, assignment: Assignment) -> int:
    async with pool.services.database.transaction() as connection:
        plans = [PlannedAttempt(new_attempt_id(), assignment)]
        return len(await assign(connection, plans, pool.leads, 30.0))


async def _locks_its_task(pool: Pool) -> None:
    _, grant = await pool.started()
    async with pool.services.database.transaction() as connection:
        await attempts.lock_for_end(connection, grant.attempt_id)
        async with pool.services.database.transaction() as other:
            with pytest.raises(asyncpg.LockNotAvailableError):
                await other.execute("SELECT id FROM tasks FOR UPDATE NOWAIT")


async def _does_not_come_back_to_a_taken_device(pool: Pool) -> None:
    await test_leases.test_an_obstacle_makes_the_lease_stale(pool, test_leases._device_taken)


def _guard(change: str) -> Scenario:
    return partial(_is_refused, change=test_assignment_guards.CHANGES[change])


PLANTED_FAULTS = {
    "no fencing": PlantedFault(
        _ends_once, "changes", "write",
        "attempts.id = how.id AND finished_at IS NULL", "attempts.id = how.id"),
    "no guard on the device": PlantedFault(
        _guard("its device is in use"), "assign", "assign", "AND free_milli >= wanted.milli"),
    "double settle": PlantedFault(_is_paid_once, index="ledger_entries_once"),
    "no fencing by the node": PlantedFault(
        _is_renewed_by_its_node_only, "leases", "beat",
        "node_id = :node_id AND id = ANY(:held_ids)",
        "id = ANY(:held_ids)"),
    "an old leader's plan": PlantedFault(
        _an_old_leader_holds_nothing, "leader", "holds", "AND term = :leadership.term",
        "AND term >= :leadership.term - 1"),
    "no guard on the memory": PlantedFault(
        _guard("its device's memory is in use"), "assign", "assign",
        "AND devices.memory_bytes - used_memory_bytes >= wanted.memory_bytes"),
    "no guard on the range": PlantedFault(
        partial(_is_refused, change="UPDATE tasks SET pending = '{}'", items=3),
        "assign", "assign", "pending @> :items AND state IN", "state IN"),
    "no guard on the way back": PlantedFault(
        _does_not_come_back_to_a_taken_device, "leases", "adopt",
        "AND free_milli >= share.milli"),
    "no guard on the availability": PlantedFault(
        _guard("its device is paused"), "assign", "assign", "AND availability = 'available'"),
    "no guard on the wallet": PlantedFault(
        _guard("its owner takes others' tasks"), "assign", "assign",
        "takes_wallet(description -> 'terms',", "takes_wallet('{}',"),
    "back on a sick device": PlantedFault(
        test_terms.test_an_attempt_on_a_sick_device_is_not_readopted, "leases", "adopt",
        "AND availability <> 'sick'"),
    "no lock on the task": PlantedFault(
        _locks_its_task, clause="ORDER BY tasks.id FOR UPDATE", function="lock_attempts_of_lines"),
}  # fmt: skip


@pytest.mark.parametrize("fault", PLANTED_FAULTS.values(), ids=PLANTED_FAULTS)
async def test_a_fault_that_is_planted_in_the_sql_is_noticed(
    pool: Pool, fault: PlantedFault
) -> None:
    with ExitStack() as planting:
        await _plant(pool, fault, planting)
        noticed = (AssertionError, asyncpg.PostgresError, pytest.fail.Exception)
        with pytest.raises(noticed):
            await fault.scenario(pool)


@pytest.mark.parametrize("fault", PLANTED_FAULTS.values(), ids=PLANTED_FAULTS)
async def test_without_the_fault_the_scenario_holds(pool: Pool, fault: PlantedFault) -> None:
    await fault.scenario(pool)


async def _plant(pool: Pool, fault: PlantedFault, planting: ExitStack) -> None:
    """In the database of this test, or in the statement for as long as the test runs."""
    if fault.index:
        await pool.sql(f"DROP INDEX {fault.index}")
    elif fault.function:
        definition = await pool.sql("SELECT pg_get_functiondef($1::text::regproc)", fault.function)
        assert fault.clause in definition, f"{fault.function} has changed"
        await pool.sql(definition.replace(fault.clause, fault.replacement))
    else:
        blocks = load(fault.file).blocks
        definition = read_sources(fault.file)[fault.block]
        assert fault.clause in definition, f"{fault.file}.{fault.block} has changed"
        planted = compile_query(fault.block, definition.replace(fault.clause, fault.replacement))
        patch = planting.enter_context(pytest.MonkeyPatch.context())
        patch.setitem(blocks, fault.block, planted)
