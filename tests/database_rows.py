"""All rows of a database, for tests that show that a running server changed nothing."""

import asyncio

import asyncpg

from tests.processes import await_true

# The leader renews its row all the time.
_TABLES = """
SELECT table_name FROM information_schema.tables
WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND table_name <> 'leader'
"""
# An event gets its place first; how far events were announced is written at the next look, and
# webhooks come after them.
_IS_OUTBOX_EMPTY = """
SELECT told >= (SELECT coalesce(max(place), 0) FROM events)
    AND NOT EXISTS (SELECT FROM events WHERE place IS NULL)
    AND NOT EXISTS (
        SELECT FROM webhooks JOIN events USING (account_id) WHERE events.place > webhooks.place
    )
    AND NOT EXISTS (SELECT FROM deliveries WHERE state = 'pending')
FROM event_head
"""


def settled_rows(database_url: str) -> dict[str, str]:
    """Every row of every table, by table, read at one moment when the outbox is empty."""
    return await_true(lambda: asyncio.run(_rows_if_settled(database_url)), "the outbox is empty")


async def _rows_if_settled(database_url: str) -> dict[str, str]:
    connection = await asyncpg.connect(database_url)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            if not await connection.fetchval(_IS_OUTBOX_EMPTY):
                return {}
            tables = await connection.fetch(_TABLES)
            return {name: await _rows(connection, name) for (name,) in tables}
    finally:
        await connection.close()


async def _rows(connection: asyncpg.Connection, table: str) -> str:
    query = f"SELECT coalesce(jsonb_agg(t ORDER BY t), '[]')::text FROM {table} AS t"
    rows: str = await connection.fetchval(query)
    return rows
