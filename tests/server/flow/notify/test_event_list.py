"""What an account is told, from any position on: nothing is missed, nothing comes twice."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta

import pytest
from msgspec.structs import replace

from potluck.model.event import EventKind
from potluck.model.ids import TaskId
from potluck.server.flow.notify import event_stream, notify
from potluck.server.services import Services
from potluck.store.events import event_list
from potluck.store.events import outbox as store
from potluck.store.events.event_list import EventFilter
from potluck.store.events.outbox import Event
from potluck.wire.events import EventGap, EventView
from tests.server.flow.pool import Pool

pytestmark = pytest.mark.every_postgres

ALL = EventFilter()


def about(pool: Pool, number: int, task_id: TaskId | None = None) -> Event:
    return Event(pool.alice, EventKind.TASK_RUNNING, task_id, data={"number": number})


async def say(pool: Pool, *numbers: int) -> None:
    async with pool.services.database.transaction() as connection:
        await notify.record_events(connection, *(about(pool, number) for number in numbers))


async def place(pool: Pool) -> None:
    await notify.notify_once(pool.services, 0)


def numbers(events: list[EventView]) -> list[int]:
    return [event.data["number"] for event in events]


async def read_all(pool: Pool, limit: int) -> list[int]:
    """As a program would that comes again and again."""
    event_numbers: list[int] = []
    cursor = 0
    while True:
        page = await event_stream.page(pool.services, pool.alice, ALL, cursor, limit)
        event_numbers += numbers(page.events)
        cursor = int(page.next_cursor or "")
        if len(page.events) < limit:
            return event_numbers


async def test_an_event_committed_late_is_not_missed(pool: Pool) -> None:
    """Its place is the smaller one: a reader stops before it, and the leader announces nothing."""
    await place(pool)
    async with pool.services.database.transaction() as late_connection:
        await notify.record_events(late_connection, about(pool, 1))
        await say(pool, 2)
        before = await notify.notify_once(pool.services, 0)
        assert (before.count, before.has_more) == (0, True), "it looks again soon"
        first = await event_stream.page(pool.services, pool.alice, ALL, 0, 10)
        assert numbers(first.events) == []
    assert (await notify.notify_once(pool.services, before.place)).count == 2
    second = await event_stream.page(
        pool.services, pool.alice, ALL, int(first.next_cursor or ""), 10
    )
    assert numbers(second.events) == [1, 2]


async def test_a_writer_that_began_while_the_head_was_read_does_not_move_it_back(
    pool: Pool,
) -> None:
    """Its lock lies above all places that the reader knows of."""
    await place(pool)
    await say(pool, 1)
    first = await event_stream.page(pool.services, pool.alice, ALL, 0, 10)
    async with pool.services.database.transaction() as ahead:
        await ahead.execute(
            "SELECT pg_advisory_xact_lock_shared(1886349422, last_value::integer + 2)"
            " FROM event_places"
        )
        second = await event_stream.page(
            pool.services, pool.alice, ALL, int(first.next_cursor or ""), 10
        )
    assert (second.next_cursor, second.gap) == (first.next_cursor, None)


async def test_rolled_back_events_block_nothing(pool: Pool) -> None:
    await place(pool)
    with pytest.raises(ZeroDivisionError):
        async with pool.services.database.transaction() as connection:
            await notify.record_events(connection, about(pool, 1))
            raise ZeroDivisionError
    await say(pool, 2)
    assert await read_all(pool, 10) == [2]


async def test_the_leader_places_events_while_another_version_runs(pool: Pool) -> None:
    await place(pool)
    await say(pool, 1)
    await pool.sql("INSERT INTO instances (id, version) VALUES ('older', '0.0.1')")
    await place(pool)
    await say(pool, 2)
    assert await pool.sql("SELECT count(*) FROM events WHERE place IS NULL") == 1
    assert await read_all(pool, 10) == [1]
    await place(pool)
    assert await read_all(pool, 10) == [1, 2]
    await pool.sql("UPDATE instances SET seen_at = now() - interval '3 minutes'")
    async with pool.services.database.transaction() as late_connection:
        await notify.record_events(late_connection, about(pool, 3))
        await place(pool)
        await say(pool, 4)
        assert await read_all(pool, 10) == [1, 2, 4], "this one gets its place when it is inserted"
    await place(pool)
    assert await read_all(pool, 10) == [1, 2, 4, 3]


async def test_places_go_on_where_the_sequence_was_not_loaded(pool: Pool) -> None:
    await place(pool)
    await say(pool, 1)
    await pool.sql("SELECT setval('event_places', 1)")
    await pool.sql("SELECT continue_event_places()")
    await say(pool, 2)
    assert await read_all(pool, 10) == [1, 2]


async def test_events_of_one_task_are_ordered_by_occurrence(pool: Pool) -> None:
    """Also if the transaction that came second had begun to write before the first."""
    await place(pool)
    task = await pool.submit()
    lock = "SELECT id FROM tasks WHERE id = $1 FOR UPDATE"
    async with pool.services.database.transaction() as second:
        await second.execute("SELECT pg_current_xact_id()")
        async with pool.services.database.transaction() as first:
            await first.fetchval(lock, task.id)
            await notify.record_events(first, about(pool, 1, task.id))
        await second.fetchval(lock, task.id)
        await notify.record_events(second, about(pool, 2, task.id))
    await place(pool)
    page = await event_stream.page(
        pool.services, pool.alice, EventFilter((EventKind.TASK_RUNNING,)), 0, 10
    )
    assert numbers(page.events) == [1, 2]


async def test_concurrent_placement_places_each_event_once(pool: Pool) -> None:
    """As a leader does that does not know yet that another one leads."""
    for number in range(50):
        await say(pool, number)
    assert await pool.sql("SELECT count(*) FROM events WHERE place IS NULL") == 50
    await asyncio.gather(*(place(pool) for _ in range(6)))
    assert await pool.sql("SELECT max(place) - min(place) FROM events") == 49
    assert await read_all(pool, 7) == list(range(50))
    ids = [
        event.id
        for event in (await event_stream.page(pool.services, pool.alice, ALL, 0, 50)).events
    ]
    assert len(set(ids)) == 50


async def test_readers_among_writers_see_each_event_once(pool: Pool) -> None:
    event_numbers: list[int] = []
    is_over = False

    async def read() -> None:
        cursor = 0
        while True:
            was_over = is_over
            page = await event_stream.page(pool.services, pool.alice, ALL, cursor, 5)
            event_numbers.extend(numbers(page.events))
            cursor = int(page.next_cursor or "")
            if was_over and len(page.events) < 5:
                return

    async def write(first: int) -> None:
        for number in range(first, first + 20):
            async with pool.services.database.transaction() as connection:
                await notify.record_events(connection, about(pool, number))
                await asyncio.sleep(0.001 * (number % 3))
            await place(pool)

    reader = asyncio.create_task(read())
    await asyncio.gather(*(write(100 * writer) for writer in range(3)))
    await place(pool)
    is_over = True
    await reader
    assert sorted(event_numbers) == sorted(
        [100 * writer + number for writer in range(3) for number in range(20)]
    )


async def test_events_are_filtered_by_kind_and_task_and_read_from_the_end(pool: Pool) -> None:
    first_task, other = await pool.submit(), await pool.submit()
    async with pool.services.database.transaction() as connection:
        await notify.record_events(
            connection, *(about(pool, number, first_task.id) for number in range(5))
        )
    await place(pool)

    async def asked(event_filter: EventFilter) -> list[str]:
        page = await event_stream.page(pool.services, pool.alice, event_filter, 0, 100)
        assert {event.task_name for event in page.events} <= {"hello.py"}
        return [f"{event.kind} {event.task_id}" for event in page.events]

    queued = [f"task.queued {first_task.id}", f"task.queued {other.id}"]
    assert await asked(EventFilter((EventKind.TASK_QUEUED,))) == queued
    assert await asked(EventFilter(task_id=other.id)) == queued[1:]
    assert await asked(EventFilter((EventKind.TASK_FINISHED,), first_task.id)) == []
    running_only = EventFilter((EventKind.TASK_RUNNING,), first_task.id)
    last = await event_stream.newest(pool.services, pool.alice, running_only, None, 2)
    assert numbers(last.events) == [4, 3]
    older = await event_stream.newest(
        pool.services, pool.alice, running_only, int(last.next_cursor or ""), 4
    )
    assert numbers(older.events) == [2, 1, 0] and older.next_cursor is None
    foreign_page = await event_stream.page(pool.services, pool.bob, ALL, 0, 100)
    assert foreign_page.events == [], "what is somebody else's is not told"
    assert (
        await event_stream.page(pool.services, pool.bob, EventFilter(task_id=first_task.id), 0, 9)
    ).events == []


async def test_deleted_events_are_a_gap_for_affected_readers(pool: Pool) -> None:
    await say(pool, 1, 2, 3)
    await place(pool)
    page = await event_stream.page(pool.services, pool.alice, ALL, 0, 1)
    behind_first = int(page.next_cursor or "")
    await pool.sql("UPDATE events SET created_at = now() - interval '2 days'")
    await say(pool, 4)
    await place(pool)
    async with pool.services.database.transaction() as connection:
        assert await event_list.delete_old(connection, timedelta(days=3), 100) == 0
        assert await event_list.delete_old(connection, timedelta(days=1), 2) == 2
        assert await event_list.delete_old(connection, timedelta(days=1), 100) == 1
    late_page = await event_stream.page(pool.services, pool.alice, ALL, behind_first, 10)
    assert late_page.gap is not None and numbers(late_page.events) == [4]
    assert (await event_stream.page(pool.services, pool.alice, ALL, 0, 10)).gap is None, (
        "asks for all"
    )
    assert (
        await event_stream.page(pool.services, pool.alice, ALL, behind_first + 2, 10)
    ).gap is None
    assert (await event_stream.page(pool.services, pool.bob, ALL, 1, 10)).gap is None, (
        "lost nothing"
    )
    future = await event_stream.page(pool.services, pool.alice, ALL, 10**9, 10)
    assert future.gap is not None and int(future.next_cursor or "") < 10**9


async def test_a_stream_tells_where_it_is_then_what_happens_then_of_a_gap(pool: Pool) -> None:
    await say(pool, 1)
    await place(pool)
    async with aclosing(_follow(pool.services, pool, None)) as stream:
        first_item = await anext(stream)
        assert first_item.content is None, "what was before is not told"
        await say(pool, 2)
        await place(pool)
        item = await anext(stream)
        assert isinstance(item.content, EventView) and item.content.data == {"number": 2}
    async with aclosing(_follow(pool.services, pool, first_item.position)) as stream:
        await anext(stream)
        repeated_item = await anext(stream)
        assert repeated_item == item, "a stream that was cut goes on where it was"
    await pool.sql("UPDATE events SET created_at = now() - interval '2 days'")
    async with pool.services.database.transaction() as connection:
        await event_list.delete_old(connection, timedelta(days=1), 100)
    async with aclosing(_follow(pool.services, pool, first_item.position)) as stream:
        await anext(stream)
        gap = await anext(stream)
        assert isinstance(gap.content, EventGap) and gap.position >= item.position


async def test_a_quiet_stream_sends_comments_and_holds_no_database_connection(pool: Pool) -> None:
    """More of them than there are connections, and their positions go on with what others do."""
    quick = _with(pool.services, follow_poll_seconds=0.05)
    streams = [_follow(quick, pool, None) for _ in range(30)]
    first = [await anext(stream) for stream in streams]
    waiting = [asyncio.ensure_future(anext(stream)) for stream in streams]
    await asyncio.sleep(0)
    async with pool.services.database.transaction() as connection:
        event = Event(pool.bob, EventKind.NODE_ONLINE)
        await store.append(connection, [event])
    await place(pool)
    for _ in range(3):
        signs = await asyncio.wait_for(asyncio.gather(*waiting), 10)
        waiting = [asyncio.ensure_future(anext(stream)) for stream in streams]
    assert all(sign.content is None for sign in signs)
    assert signs[0].position > first[0].position
    pool.services.stopping.set()
    last_items = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10)
    assert all(isinstance(item, StopAsyncIteration) or item.content is None for item in last_items)  # type: ignore[union-attr]


def _follow(
    services: Services, pool: Pool, position: int | None
) -> AsyncGenerator[event_stream.EventStreamItem]:
    return event_stream.follow(services, pool.alice, ALL, position)


def _with(services: Services, **changes: float) -> Services:
    settings = replace(services.settings, **changes)
    return replace(services, settings=settings)
