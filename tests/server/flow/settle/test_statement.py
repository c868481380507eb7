"""What an account is told of its own ledger: every movement once, in order, and sums that agree."""

from datetime import UTC, datetime, timedelta

from potluck.model.credit import EntryKind
from potluck.model.ids import AccountId, TaskId
from potluck.store.ledger import statement
from potluck.store.ledger.statement import EntryFilter, LedgerPosition
from potluck.wire.money.ledger import LedgerEntry, LedgerSummary, LineBy
from potluck.wire.provider import Grant, NodeRegistered, Started
from tests.server.flow.pool import Pool, done, lease_of, used

HOUR_MICRO = 3_600_000_000  # a micro-credit for each microsecond
DAY = timedelta(days=1)
ALL = tuple(EntryKind)
BEHIND_ALL = LedgerPosition(datetime(9999, 1, 1, tzinfo=UTC))
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


async def entries(
    pool: Pool,
    account_id: AccountId,
    *kinds: EntryKind,
    since: datetime = LONG_AGO,
    before: LedgerPosition = BEHIND_ALL,
    task_id: TaskId | None = None,
    limit: int = 100,
) -> list[LedgerEntry]:
    entry_filter = EntryFilter(kinds or ALL, since, before, task_id)
    async with pool.services.database.transaction() as connection:
        return await statement.newest(connection, account_id, entry_filter, limit)


async def summary(pool: Pool, account_id: AccountId, by: LineBy = LineBy.DAY) -> LedgerSummary:
    now = datetime.now(UTC)
    async with pool.services.database.transaction() as connection:
        return await statement.summary(connection, account_id, now - 30 * DAY, now + DAY, by)


async def work(pool: Pool, node: NodeRegistered) -> Grant:
    """A task of half a second, which ten were held for."""
    await pool.submit(run_seconds=10.0)
    await pool.plan()
    (grant,) = await pool.fetch(node.node_id)
    await pool.report(node.node_id, Started(lease_of(grant)))
    await pool.sql("UPDATE attempts SET started_at = started_at - interval '5 s'")
    assert await pool.report(node.node_id, done(grant, usage=used(0.5))) == ["accepted"]
    return grant


async def priced(pool: Pool, works: int = 1) -> list[Grant]:
    await pool.give(pool.alice, 10**9)
    node = await pool.offer(price_micro_per_hour=HOUR_MICRO)
    return [await work(pool, node) for _ in range(works)]


async def test_a_movement_is_one_entry_with_both_purses(pool: Pool) -> None:
    (grant,) = await priced(pool)
    movements = [(e.kind, e.available_micro, e.held_micro) for e in await entries(pool, pool.alice)]
    assert sorted(movements) == sorted(
        [
            (EntryKind.REFUND, 9_500_000, -9_500_000),
            (EntryKind.CHARGE, 0, -500_000),
            (EntryKind.HOLD, -10_000_000, 10_000_000),
            (EntryKind.GRANT, 10**9, 0),
        ]
    )
    (reward,) = await entries(pool, pool.bob)
    assert (reward.kind, reward.available_micro, reward.held_micro) == (
        EntryKind.REWARD,
        500_000,
        0,
    )
    assert (reward.task_id, reward.attempt_id) == (grant.task_id, grant.attempt_id)
    assert (reward.task_name, reward.node_name) == (None, "attic"), "its name is its owner's"
    charge = (await entries(pool, pool.alice, EntryKind.CHARGE))[0]
    assert (charge.task_name, charge.node_name) == ("hello.py", "attic")


async def test_entries_add_up_to_the_balance(pool: Pool) -> None:
    await priced(pool, works=3)
    for account_id in (pool.alice, pool.bob):
        account_entries, balance = await entries(pool, account_id), await pool.balance(account_id)
        assert sum(entry.available_micro for entry in account_entries) == balance.available_micro
        assert sum(entry.held_micro for entry in account_entries) == balance.held_micro


async def test_pages_have_every_entry_once_and_newest_first(pool: Pool) -> None:
    await priced(pool, works=3)
    all_entries = await entries(pool, pool.alice)
    assert [(entry.at, entry.id) for entry in all_entries] == sorted(
        ((entry.at, entry.id) for entry in all_entries), reverse=True
    )
    read, before = [], BEHIND_ALL
    while page := await entries(pool, pool.alice, before=before, limit=3):
        read += page
        async with pool.services.database.transaction() as connection:
            place = await statement.place(connection, page[-1].id, pool.alice)
            assert await statement.place(connection, page[-1].id, pool.bob) is None
        assert place is not None
        before = place
    assert read == all_entries and len(all_entries) == 1 + 3 * 3


async def test_entries_by_kind_time_and_task(pool: Pool) -> None:
    first, second = await priced(pool, works=2)
    charges = await entries(pool, pool.alice, EntryKind.CHARGE, EntryKind.CHARGE)
    assert [entry.task_id for entry in charges] == [second.task_id, first.task_id]
    of_first = await entries(pool, pool.alice, task_id=first.task_id)
    assert {entry.task_id for entry in of_first} == {first.task_id} and len(of_first) == 3
    of_kind = await entries(pool, pool.alice, EntryKind.HOLD, task_id=first.task_id)
    assert [entry.kind for entry in of_kind] == [EntryKind.HOLD]
    assert await entries(pool, pool.alice, since=datetime.now(UTC) + DAY) == []
    assert await entries(pool, pool.alice, before=LedgerPosition(datetime.now(UTC) - DAY)) == []
    (reward,) = await entries(pool, pool.bob, task_id=first.task_id)
    assert reward.kind is EntryKind.REWARD, "the owner of the machine sees his side alone"


async def test_a_summary_by_day_and_by_task(pool: Pool) -> None:
    grants = await priced(pool, works=2)
    by_day = await summary(pool, pool.alice)
    assert (by_day.granted_micro, by_day.spent_micro, by_day.earned_micro) == (10**9, 10**6, 0)
    assert [(line.day, line.spent_micro) for line in by_day.lines] == [
        (datetime.now(UTC).date(), 10**6)
    ]
    assert by_day.available_micro == (await pool.balance(pool.alice)).available_micro
    by_task = await summary(pool, pool.alice, LineBy.TASK)
    assert by_task.spent_micro == 10**6
    spending = [(line.task_id, line.task_name, line.spent_micro) for line in by_task.lines]
    assert spending == [
        (grants[1].task_id, "hello.py", 500_000),
        (grants[0].task_id, "hello.py", 500_000),
        (None, None, 0),
    ]
    of_bob = await summary(pool, pool.bob, LineBy.TASK)
    assert (of_bob.earned_micro, of_bob.spent_micro) == (10**6, 0)
    assert {line.task_name for line in of_bob.lines} == {None}


async def test_whether_the_pool_is_free(pool: Pool) -> None:
    assert (await summary(pool, pool.alice)).is_free
    await pool.offer()
    assert (await summary(pool, pool.alice)).is_free
    await pool.offer(price_micro_per_hour=1)
    account_summary = await summary(pool, pool.alice)
    assert not account_summary.is_free
    assert (account_summary.granted_micro, account_summary.spent_micro, account_summary.lines) == (
        0,
        0,
        [],
    )


async def test_old_entries_are_not_in_the_summary(pool: Pool) -> None:
    await priced(pool)
    async with pool.services.database.transaction() as connection:
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute(
            "UPDATE ledger_entries SET created_at = created_at - interval '40 days'"
        )
    account_summary = await summary(pool, pool.alice)
    assert (account_summary.granted_micro, account_summary.spent_micro, account_summary.lines) == (
        0,
        0,
        [],
    )
    assert account_summary.available_micro == 10**9 - 500_000, "the balance is of all times"
