"""Many tasks at once, straight into PostgreSQL, for benches and tests of large queues."""

from collections.abc import Sequence

import asyncpg

from potluck.model.task import TaskState

# Whose, in which state and under which name the n-th task is goes by remainders, so that the same
# count is the same table. The first account has three fifths of all.
_ACCOUNTS = """
INSERT INTO accounts (id, address, roles)
SELECT 'account_' || lpad(n::text, 26, '0'), '0x' || lpad(n::text, 40, '0'), '{consumer}'
FROM generate_series(0, $1 - 1) AS n
ON CONFLICT DO NOTHING
"""
_BALANCES = "INSERT INTO balances (account_id) SELECT id FROM accounts ON CONFLICT DO NOTHING"
_TASKS = """
INSERT INTO tasks (id, account_id, name, kind, sealed_spec, requirements, limits, priority,
    max_attempts, request_hash, state, finished_at, created_at, updated_at)
SELECT 'task_01jd' || lpad(to_hex(n), 12, '0') || substr(md5(n::text), 1, 10),
    coalesce($3, 'account_' || lpad(
        (CASE WHEN n % 5 < 3 THEN 0 ELSE n % $4 END)::text, 26, '0')),
    CASE WHEN n % 100 < 90 THEN 'train.py' WHEN n % 100 < 99 THEN 'eval-' || n % 7 || '.py'
        ELSE 'rare-' || n % 10000 || '.py' END,
    'script', $7::bytea, ($6::text[])[1 + n % cardinality($6::text[])]::jsonb, '{}', 0, 1, '\\x00',
    state,
    CASE WHEN state IN ('succeeded', 'failed', 'cancelled', 'expired') THEN now() END,
    now() - interval '30 days' + n * interval '1 millisecond',
    now() - interval '30 days' + n * interval '1 millisecond'
FROM generate_series($1::bigint, $2::bigint - 1) AS n, LATERAL (SELECT coalesce($5, CASE
    WHEN n % 1000 = 0 THEN 'failed' WHEN $8 AND n % 100000 = 7 THEN 'running'
    WHEN n % 1000003 = 9 THEN 'expired' WHEN n % 20 = 3 THEN 'cancelled'
    WHEN $8 AND n % 10 = 1 THEN 'queued' ELSE 'succeeded' END) AS state) AS chosen
"""
_AT_ONCE = 100_000


async def seed_tasks(
    connection: asyncpg.Connection,
    count: int,
    *,
    account_id: str | None = None,
    accounts: int = 1000,
    state: TaskState | None = None,
    requirements: Sequence[str] = ("{}",),
    sealed_spec: bytes = b"\0",
    begin: int = 0,
    waits: bool = True,
) -> None:
    """Tasks of one account, or of many; in one state, or mostly ended as in a pool that is old.

    They ask for these requirements, as JSON, in turn; the first task is number `begin`. Without
    `waits` none is queued or running. A server
    does not start where something is sealed with another key than its own.
    """
    if account_id is None:
        await connection.execute(_ACCOUNTS, accounts)
        await connection.execute(_BALANCES)
    for first in range(begin, begin + count, _AT_ONCE):
        behind = min(first + _AT_ONCE, begin + count)
        whose = (account_id, accounts, state)
        await connection.execute(_TASKS, first, behind, *whose, requirements, sealed_spec, waits)
