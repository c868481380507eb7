"""Facts about the database for those who look for a fault. No value of a row is among them."""

from typing import Any

import asyncpg

from potluck.store import sql_files
from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("support")
_SLOW = """
SELECT query, calls, mean_exec_time, max_exec_time, rows FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
ORDER BY total_exec_time DESC LIMIT 200
"""


async def read_database(connection: Connection) -> dict[str, Any]:
    return {
        "settings": {row["name"]: row["setting"] for row in await connection.fetch(*_sql.server())},
        "tables": [dict(row) for row in await connection.fetch(*_sql.tables())],
        "sessions": [dict(row) for row in await connection.fetch(*_sql.sessions())],
        "statements": await _read_slow(connection),
    }


async def _read_slow(connection: Connection) -> list[dict[str, Any]]:
    """Our own statements by name, if the extension that counts them is there."""
    try:
        rows = await connection.fetch(_SLOW)
    except asyncpg.PostgresError:
        return []
    names = _names()
    return [
        {"name": names[text], **{key: row[key] for key in row.keys() if key != "query"}}  # noqa: SIM118
        for row in rows
        if (text := _normal(row["query"])) in names
    ]


def _names() -> dict[str, str]:
    files = sorted(path.stem for path in sql_files.QUERIES.glob("*.sql"))
    return {
        _normal(query.text): query.__qualname__
        for file in files
        for query in load(file).blocks.values()
    }


def _normal(text: str) -> str:
    return " ".join(text.split())
