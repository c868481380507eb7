"""All that is sealed in the database, looked at by its keys: for rotation, and for the first start.

Batches are small and each has a transaction of its own: they run beside everything else, and one
that was cut short is found again by the next call.
"""

import hmac
from collections.abc import Collection, Sequence
from typing import Any

from msgspec import Struct

from potluck.model.error import Unopenable
from potluck.store.database import Connection
from potluck.store.events.webhooks import DESTINATION
from potluck.store.sealing.vault import Vault
from potluck.store.sql_files import Query, load
from potluck.store.tasks.function_results import VALUE
from potluck.store.tasks.tasks import SECRETS, SPEC

_sql = load("sealed")
# Specs of at most a megabyte each are in memory at once.
BATCH = 32


class SealedPlace(Struct, frozen=True):
    """Where something is sealed."""

    table: str
    column: str
    row: str


class SealedBatch(Struct, frozen=True):
    rewritten: int
    unreadable: list[SealedPlace]  # damaged, or moved from elsewhere; left as they are


class _SealedColumn(Struct, frozen=True):
    table: str
    column: str
    of_keys: Query
    replace: Query


_COLUMNS = (
    _SealedColumn(*SPEC, _sql.specs_of_keys, _sql.replace_specs),
    _SealedColumn(*SECRETS, _sql.secrets_of_keys, _sql.replace_secrets),
    _SealedColumn(*VALUE, _sql.values_of_keys, _sql.replace_values),
    _SealedColumn(*DESTINATION, _sql.destinations_of_keys, _sql.replace_destinations),
)


async def keys_in_use(connection: Connection) -> frozenset[bytes]:
    """The ids of all keys that something here is sealed with."""
    return frozenset(row["key"] for row in await connection.fetch(*_sql.keys_in_use()))


async def count_of(connection: Connection, keys: Collection[bytes]) -> int:
    count: int = await connection.fetchval(*_sql.count_of_keys(keys=list(keys)))
    return count


async def rewrite(
    connection: Connection,
    vault: Vault,
    keys: Collection[bytes],
    passed_over: Collection[SealedPlace],
) -> SealedBatch:
    """Seals some of what these keys sealed with the current one, column by column."""
    for column in _COLUMNS:
        at = (column.table, column.column)
        left = [place.row for place in passed_over if (place.table, place.column) == at]
        rows = await connection.fetch(
            *column.of_keys(keys=list(keys), limit=BATCH, excluded_rows=left)
        )
        if rows:
            return await _rewrite(connection, vault, column, rows)
    return SealedBatch(0, [])


async def _rewrite(
    connection: Connection, vault: Vault, column: _SealedColumn, rows: Sequence[Any]
) -> SealedBatch:
    at = (column.table, column.column)
    anew: dict[str, bytes] = {}
    unreadable: list[SealedPlace] = []
    for row in rows:
        try:
            plain = vault.open(*at, row["row"], row["sealed"])
        except Unopenable:
            unreadable.append(SealedPlace(*at, row["row"]))
            continue
        anew[row["row"]] = vault.seal(*at, row["row"], plain)
    await connection.execute(*column.replace(rows=list(anew), sealed_values=list(anew.values())))
    return SealedBatch(len(anew), unreadable)


async def seal_clear(connection: Connection, vault: Vault, request_key: bytes) -> int:
    """Seals some of what was written before there was a vault; how many it were.

    Their hashes become keyed ones: a plain hash lets somebody try what the task may have said.
    """
    rows = await connection.fetch(*_sql.specs_in_the_clear(limit=BATCH))
    await connection.execute(
        *_sql.seal_specs(
            task_ids=[row["id"] for row in rows],
            sealed_specs=[vault.seal(*SPEC, row["id"], row["spec"]) for row in rows],
            request_hashes=[
                hmac.digest(request_key, row["request_hash"], "sha256") for row in rows
            ],
        )
    )
    return len(rows)
