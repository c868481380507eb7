"""What one statement tells about the database: its time, its schema, and which instance leads."""

from datetime import datetime

from msgspec import Struct

from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("health")


class DatabaseHealth(Struct, frozen=True):
    read_at: datetime
    schema_version: str | None
    compatible_since: str | None  # the newest migration that a server must know
    leader: str | None  # the instance; None if no term runs


async def read(connection: Connection) -> DatabaseHealth:
    row = await connection.fetchrow(*_sql.read())
    return DatabaseHealth(
        row["read_at"], row["schema_version"], row["compatible_since"], row["leader"]
    )
