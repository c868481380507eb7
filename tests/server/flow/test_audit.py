"""The audit: every act has its entry, and a chain that somebody changed does not hold."""

import asyncio

import asyncpg
import pytest

from potluck.model.account import Role
from potluck.model.audit import AuditKind
from potluck.server.accounts import roles
from potluck.store.identity import audit
from potluck.wire.identity import AuditVerdict
from tests.server.flow.pool import Pool

KEY = b"k" * 32


async def append(pool: Pool, subject: str) -> None:
    async with pool.services.database.transaction() as connection:
        await audit.append(connection, KEY, AuditKind.SIGNED_IN, "server", subject, {"a": "ä\n"})


async def verdict(pool: Pool) -> AuditVerdict:
    async with pool.services.database.transaction() as connection:
        return await audit.verify(connection, KEY)


async def tamper(pool: Pool, statement: str) -> None:
    """As somebody who owns the database, and nothing else of ours."""
    await pool.sql("ALTER TABLE audit DISABLE TRIGGER USER")
    await pool.sql(statement)
    await pool.sql("ALTER TABLE audit ENABLE TRIGGER USER")


async def test_concurrent_entries_make_one_chain(pool: Pool) -> None:
    await asyncio.gather(*(append(pool, str(number)) for number in range(40)))
    audit_verdict = await verdict(pool)
    assert audit_verdict.holds and audit_verdict.entries == 40
    async with pool.services.database.transaction() as connection:
        newest = await audit.newest(connection, 2**62, 100)
    assert [entry.number for entry in newest] == list(range(40, 0, -1))
    assert newest[0].hash == audit_verdict.head


CHANGES = {
    "another subject": "UPDATE audit SET subject = 'nobody' WHERE number = 5",
    "another detail": "UPDATE audit SET detail = '{}' WHERE number = 5",
    "another time": "UPDATE audit SET at = at + interval '1 second' WHERE number = 5",
    "another actor": "UPDATE audit SET actor = 'nobody' WHERE number = 5",
    "another kind": "UPDATE audit SET kind = 'signed_out' WHERE number = 5",
    "one left out": "DELETE FROM audit WHERE number = 5",
    "the other order": "UPDATE audit SET number = CASE number WHEN 5 THEN -6 ELSE -5 END"
    " WHERE number IN (5, 6); UPDATE audit SET number = -number WHERE number < 0",
    "a copied hash": "UPDATE audit SET hash = (SELECT hash FROM audit WHERE number = 4)"
    " WHERE number = 5",
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_changed_record_does_not_hold(pool: Pool, change: str) -> None:
    for number in range(8):
        await append(pool, str(number))
    for statement in CHANGES[change].split(";"):
        await tamper(pool, statement)
    audit_verdict = await verdict(pool)
    assert (audit_verdict.holds, audit_verdict.broken_at, audit_verdict.entries) == (False, 5, 4)


async def test_a_cut_end_is_noticed(pool: Pool) -> None:
    for number in range(8):
        await append(pool, str(number))
    await tamper(pool, "DELETE FROM audit WHERE number > 6")
    audit_verdict = await verdict(pool)
    assert (audit_verdict.holds, audit_verdict.broken_at) == (False, 7)


@pytest.mark.parametrize(
    "statement", ["UPDATE audit SET subject = ''", "DELETE FROM audit", "TRUNCATE audit"]
)
async def test_the_database_itself_refuses_to_change_it(pool: Pool, statement: str) -> None:
    await append(pool, "one")
    with pytest.raises(asyncpg.RestrictViolationError):
        await pool.sql(statement)


async def test_an_act_that_fails_leaves_no_entry(pool: Pool) -> None:
    with pytest.raises(RuntimeError):
        async with pool.services.database.transaction() as connection:
            await audit.append(connection, KEY, AuditKind.SIGNED_IN, "server")
            raise RuntimeError
    assert (await verdict(pool)).entries == 0


async def test_tasks_of_a_suspended_account_end_despite_a_crash(pool: Pool) -> None:
    _, grant = await pool.started()
    await pool.sql("UPDATE accounts SET suspended_at = now() WHERE id = $1", pool.alice)
    await roles.evict_once(pool.services)
    assert (await pool.task(grant.task_id)).state == "cancelled"
    await pool.check()


async def test_the_nodes_of_a_suspended_account_leave(pool: Pool) -> None:
    _, grant = await pool.started()
    await roles.suspend(pool.services, pool.alice, pool.bob, "lies about its cards")
    assert await pool.sql("SELECT state FROM nodes") == "left"
    assert (await pool.task(grant.task_id)).state == "queued", "the work goes elsewhere"
    await pool.check()


async def test_of_two_admins_who_demote_each_other_one_remains(pool: Pool) -> None:
    for admin_id in (pool.alice, pool.bob):
        await roles.change_roles(pool.services, admin_id, admin_id, frozenset({Role.ADMIN}))
    demoted = [
        roles.change_roles(pool.services, actor, other, frozenset())
        for actor, other in ((pool.alice, pool.bob), (pool.bob, pool.alice))
    ]
    await asyncio.gather(*demoted, return_exceptions=True)
    assert await pool.sql("SELECT count(*) FROM accounts WHERE 'admin' = ANY (roles)") == 1
