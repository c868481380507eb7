"""The database of histories: virtual time, sessions that block one another, and deadlocks."""

import asyncio
import re
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

from potluck.model.error import Unavailable
from potluck.store import schema
from verification.faults.chance import Chance
from verification.faults.cluster import BEGINNING
from verification.faults.history_database import HistoryDatabase, Schedule
from verification.faults.sessions import LOCK_SECONDS, Sessions
from verification.faults.virtual_loop import VirtualLoop

T = TypeVar("T")
_CONNECTIONS = 4
_TIMES = "SELECT now(), clock_timestamp() AS wall, transaction_timestamp() AS begun"


def run(sessions: Sessions, work: Callable[[HistoryDatabase], Coroutine[Any, Any, T]]) -> T:
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(_run(sessions, work))
    finally:
        loop.close()


async def _run(sessions: Sessions, work: Callable[[HistoryDatabase], Coroutine[Any, Any, T]]) -> T:
    async def wait(*_: object) -> None:
        """No fault."""

    loop = asyncio.get_running_loop()
    sessions.reset(Chance(1))
    schedule = Schedule(
        lambda: BEGINNING + timedelta(seconds=loop.time()), lambda: 0, wait, wait, lambda _: None
    )
    return await work(HistoryDatabase(sessions, schedule, _CONNECTIONS))


def test_now_is_fixed_in_a_transaction_and_the_wall_clock_is_not(sessions: Sessions) -> None:
    async def work(database: HistoryDatabase) -> None:
        await asyncio.sleep(60)
        async with database.transaction() as connection:
            first = await connection.fetchrow(_TIMES)
            await asyncio.sleep(5)
            second = await connection.fetchrow(_TIMES)
        assert first["now"] == first["wall"] == BEGINNING + timedelta(seconds=60)
        assert second["now"] == second["begun"] == first["now"]
        assert second["wall"] == first["wall"] + timedelta(seconds=5)
        async with database.statement() as connection:
            assert (await connection.fetchrow(_TIMES))["now"] == second["wall"]

    run(sessions, work)


def test_defaults_and_views_of_the_schema_read_the_virtual_clock(sessions: Sessions) -> None:
    """They are bound when they are created; one that is bound to PostgreSQL's clock is shown so."""
    defaults = sessions.fetch("SELECT pg_get_expr(adbin, adrelid) AS text FROM pg_attrdef")
    views = sessions.fetch("SELECT definition AS text FROM pg_views WHERE schemaname = 'public'")
    sources = [row["text"] for row in [*defaults, *views]]
    assert sum("now()" in source for source in sources) > 5
    for source in sources:
        assert not re.search("pg_catalog.(now|clock|trans|statement)|CURRENT_|LOCALTIME", source)


def test_no_statement_reads_a_clock_that_has_no_virtual_one() -> None:
    """CURRENT_TIMESTAMP and its relatives are no functions: no schema can stand before them."""
    store = Path(schema.__file__).parent
    clock_words = re.compile(r"\b(current_(timestamp|time|date)|localtime(stamp)?|timeofday)\b")
    clock_readers = [
        path.name for path in store.rglob("*.sql") if clock_words.search(path.read_text().lower())
    ]
    assert clock_readers == []


def test_a_new_history_has_the_rows_of_a_new_database(sessions: Sessions) -> None:
    async def work(database: HistoryDatabase) -> None:
        async with database.transaction() as connection:
            await connection.execute("INSERT INTO accounts (id, address) VALUES ('one', '0x1')")
            await connection.execute("UPDATE leader SET term = 7")
            await connection.execute("DELETE FROM event_head")

    run(sessions, work)
    sessions.reset(Chance(1))
    assert sessions.fetch("SELECT id FROM accounts") == []
    assert [row["term"] for row in sessions.fetch("SELECT term FROM leader")] == [0]
    assert len(sessions.fetch("SELECT told FROM event_head")) == 1
    assert sessions.fetch("SELECT id FROM clock.row_changes") == []


def test_a_transaction_that_fails_leaves_nothing(sessions: Sessions) -> None:
    async def work(database: HistoryDatabase) -> None:
        with pytest.raises(RuntimeError):
            async with database.transaction() as connection:
                await connection.execute("UPDATE leader SET term = 7")
                raise RuntimeError

    run(sessions, work)
    assert [row["term"] for row in sessions.fetch("SELECT term FROM leader")] == [0]


def test_a_blocked_statement_lets_others_go_on_and_continues_after_them(sessions: Sessions) -> None:
    order: list[str] = []

    async def write(database: HistoryDatabase, name: str, seconds: float) -> None:
        async with database.transaction() as connection:
            await connection.execute("UPDATE leader SET term = term + 1")
            order.append(f"{name} writes")
            await asyncio.sleep(seconds)
        order.append(f"{name} ends")

    async def work(database: HistoryDatabase) -> None:
        await asyncio.gather(*(write(database, name, 1.0) for name in ("a", "b", "c")))

    run(sessions, work)
    assert [row["term"] for row in sessions.fetch("SELECT term FROM leader")] == [3]
    first, second, third = (line[0] for line in order if line.endswith("writes"))
    assert sorted([first, second, third]) == ["a", "b", "c"]
    assert order.index(f"{first} ends") < order.index(f"{third} writes")


def test_a_server_waits_for_one_of_its_connections_as_the_product_does(sessions: Sessions) -> None:
    open_now: list[int] = []
    counts: list[int] = []

    async def hold(database: HistoryDatabase, number: int) -> None:
        async with database.transaction():
            open_now.append(number)
            counts.append(len(open_now))
            await asyncio.sleep(3)
            open_now.remove(number)

    async def work(database: HistoryDatabase) -> list[BaseException | None]:
        lives = [asyncio.create_task(hold(database, n)) for n in range(5 * _CONNECTIONS)]
        await asyncio.sleep(1)
        async with database.reserved_transaction() as connection:
            assert await connection.fetchval("SELECT term FROM leader") == 0, "it does not wait"
        assert asyncio.get_running_loop().time() == 1
        return await asyncio.gather(*lives, return_exceptions=True)

    ends = run(sessions, work)
    assert max(counts) == _CONNECTIONS
    assert [type(end) for end in ends] == [type(None)] * 16 + [Unavailable] * 4


def test_a_lock_that_is_held_for_too_long_is_given_up(sessions: Sessions) -> None:
    async def hold(database: HistoryDatabase) -> None:
        async with database.transaction() as connection:
            await connection.execute("UPDATE leader SET term = 1")
            await asyncio.sleep(2 * LOCK_SECONDS)

    async def work(database: HistoryDatabase) -> float:
        holding = asyncio.create_task(hold(database))
        await asyncio.sleep(1)
        with pytest.raises(Unavailable):
            async with database.transaction() as connection:
                await connection.execute("UPDATE leader SET term = 2")
        given_up_at = asyncio.get_running_loop().time()
        await holding
        return given_up_at

    assert run(sessions, work) == 1 + LOCK_SECONDS


def test_a_deadlock_ends_at_once_for_one_of_the_two(sessions: Sessions) -> None:
    async def write(database: HistoryDatabase, first: str, second: str) -> str:
        try:
            async with database.transaction() as connection:
                await connection.execute(f"UPDATE {first} SET is_only = is_only")
                await asyncio.sleep(1)
                await connection.execute(f"UPDATE {second} SET is_only = is_only")
        except Unavailable:
            return "victim"
        return "done"

    async def work(database: HistoryDatabase) -> tuple[list[str], float]:
        both = (write(database, "leader", "event_head"), write(database, "event_head", "leader"))
        ends = sorted(await asyncio.gather(*both))
        return ends, asyncio.get_running_loop().time()

    assert run(sessions, work) == (["done", "victim"], 1.0)
    assert run(sessions, work) == (["done", "victim"], 1.0)
