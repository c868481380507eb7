"""A page and a sum of an account's ledger cost what they show, however many entries there are."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from potluck.model.credit import EntryKind
from potluck.store.ledger.statement import EntryFilter, LedgerPosition
from potluck.store.sql_files import load

ACCOUNTS = [f"account_{'0' * 25}{number}" for number in range(3)]
BEGIN, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
# A statement, and the values that it is asked with.
ASKED: dict[str, dict[str, Any]] = {
    "newest": {
        "account_id": ACCOUNTS[0],
        "kinds": list(EntryKind),
        "filter": EntryFilter((), BEGIN, LedgerPosition(END)),
        "limit": 50,
    },
    "summary": {
        "account_id": ACCOUNTS[0],
        "since": END,
        "until": END,
        "by_day": True,
        "limit": 100,
    },
}

_SEED = """
INSERT INTO ledger_entries (account_id, kind, purse, amount_micro, created_at)
SELECT 'account_' || lpad((number % 3)::text, 26, '0'), 'grant', 'available', 1,
    '2026-01-01Z'::timestamptz + number * interval '1 second'
FROM generate_series(1, 30000) AS number
"""


@pytest.mark.parametrize("name", ASKED)
def test_only_the_selected_entries_are_read(database_url: str, name: str) -> None:
    plan = asyncio.run(_plan(database_url, name))
    assert "ledger_entries_in_order" in plan, plan
    assert "Seq Scan on ledger_entries" not in plan, plan


async def _plan(url: str, name: str) -> str:
    """The plan that is kept for any values."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.execute("SET LOCAL session_replication_role = replica")
            await connection.execute(_SEED)
        await connection.execute("ANALYZE ledger_entries; SET plan_cache_mode = force_generic_plan")
        statement, *values = load("ledger_list").blocks[name](**ASKED[name])
        rows = await connection.fetch(f"EXPLAIN {statement}", *values)
    finally:
        await connection.close()
    return "\n".join(row[0] for row in rows)
