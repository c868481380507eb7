"""All rows of the database, table by table, in PostgreSQL's own text format.

It is the same for all versions of PostgreSQL. The tables themselves come from the migrations.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from graphlib import TopologicalSorter
from typing import Any

from msgspec import Struct

from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("table_copy")
# Made by the migrations, or about this database only.
_EXCLUDED = (
    *("applied_migrations", "schema_version", "backups", "instances"),
    *("alert_messages", "instance_readings", "leader_terms"),
)


class TableColumns(Struct, frozen=True):
    name: str
    columns: tuple[str, ...]


class StoredObject(Struct, frozen=True):
    """An object that a row names."""

    key: str
    sha256: str
    size_bytes: int


async def list_tables(connection: Connection) -> list[TableColumns]:
    """In an order in which they can be loaded: a table comes after those that it refers to."""
    rows = await connection.fetch(*_sql.tables(excluded=_EXCLUDED))
    columns = {row["name"]: tuple(row["columns"]) for row in rows}
    order = TopologicalSorter({row["name"]: row["after"] for row in rows})
    return [TableColumns(name, columns[name]) for name in order.static_order()]


async def lift_timeout(connection: Connection) -> None:
    """For this transaction."""
    await connection.execute(*_sql.lift_timeout())


async def applied_migrations(connection: Connection) -> dict[str, bytes]:
    rows = await connection.fetch(*_sql.migrations())
    return {row["number"]: row["checksum"] for row in rows}


async def list_objects(connection: Connection) -> list[StoredObject]:
    rows = await connection.fetch(*_sql.blobs())
    return [StoredObject(row["object_key"], row["sha256"].hex(), row["size_bytes"]) for row in rows]


async def count_log_pieces(connection: Connection) -> dict[str, int]:
    """By attempt, of those that have a log."""
    return {row["id"]: row["log_pieces"] for row in await connection.fetch(*_sql.logs())}


async def with_counted_logs(connection: Connection, attempt_ids: Sequence[str]) -> set[str]:
    rows = await connection.fetch(*_sql.still_counted(attempt_ids=attempt_ids))
    return {row["id"] for row in rows}


async def copy_out(
    connection: Connection, table: TableColumns, write: Callable[[bytes], Awaitable[None]]
) -> int:
    """Returns the number of rows."""
    status = await connection.copy_from_table(table.name, columns=table.columns, output=write)
    return _rows(status)


async def copy_in(connection: Connection, table: TableColumns, data: AsyncIterator[bytes]) -> int:
    status = await connection.copy_to_table(table.name, columns=table.columns, source=data)
    return _rows(status)


async def begin_restore(connection: Connection) -> None:
    """Before rows are loaded: triggers must not count them again."""
    await connection.execute(*_sql.begin_restore())


async def finish_restore(connection: Connection) -> None:
    """After they are loaded: makes of the past of another server the present of this one."""
    await connection.execute(*_sql.finish_restore())


async def ledger_sum(connection: Connection) -> int:
    total: int = await connection.fetchval(*_sql.ledger_sum())
    return total


def _rows(status: Any) -> int:
    return int(str(status).removeprefix("COPY "))
