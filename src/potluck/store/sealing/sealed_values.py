"""All sealed values in the database, by key: for key rotation, and for the first start.

Batches are small, each in its own transaction, and run alongside normal work; an interrupted batch
is found again by the next call.
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
from potluck.store.tasks.last_lines import ATTEMPT_LINES, ITEM_LINES
from potluck.store.tasks.streams import INPUTS
from potluck.store.tasks.tasks import SECRETS, SPEC

_sql = load("sealed")
# Bounds memory: a spec may have a megabyte.
BATCH = 32


class SealedPlace(Struct, frozen=True):
    """The location of a sealed value."""

    table: str
    column: str
    row: str


class SealedBatch(Struct, frozen=True):
    rewritten: int
    unreadable: list[SealedPlace]  # damaged, or moved from another row; left unchanged


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
    _SealedColumn(*ATTEMPT_LINES, _sql.attempts_of_keys, _sql.replace_attempts),
    _SealedColumn(*ITEM_LINES, _sql.items_of_keys, _sql.replace_items),
    _SealedColumn(*INPUTS, _sql.batches_of_keys, _sql.replace_batches),
)


async def keys_in_use(connection: Connection) -> frozenset[bytes]:
    """The ids of all keys that sealed a value."""
    return frozenset(row["key"] for row in await connection.fetch(*_sql.keys_in_use()))


async def count_sealed(connection: Connection, keys: Collection[bytes]) -> int:
    count: int = await connection.fetchval(*_sql.count_of_keys(keys=list(keys)))
    return count


async def rewrite(
    connection: Connection, vault: Vault, keys: Collection[bytes], skipped: Collection[SealedPlace]
) -> SealedBatch:
    """Re-encrypts some values of these keys with the current one, column by column."""
    for column in _COLUMNS:
        location = (column.table, column.column)
        excluded = [place.row for place in skipped if (place.table, place.column) == location]
        rows = await connection.fetch(
            *column.of_keys(keys=list(keys), limit=BATCH, excluded_rows=excluded)
        )
        if rows:
            return await _rewrite(connection, vault, column, rows)
    return SealedBatch(0, [])


async def _rewrite(
    connection: Connection, vault: Vault, column: _SealedColumn, rows: Sequence[Any]
) -> SealedBatch:
    location = (column.table, column.column)
    resealed: dict[str, bytes] = {}
    unreadable: list[SealedPlace] = []
    for row in rows:
        try:
            plain = vault.open(*location, row["row"], row["sealed"])
        except Unopenable:
            unreadable.append(SealedPlace(*location, row["row"]))
            continue
        resealed[row["row"]] = vault.seal(*location, row["row"], plain)
    await connection.execute(
        *column.replace(rows=list(resealed), sealed_values=list(resealed.values()))
    )
    return SealedBatch(len(resealed), unreadable)


async def seal_clear(connection: Connection, vault: Vault, request_key: bytes) -> int:
    """Seals some values from before the vault existed; returns the count.

    Their hashes become keyed: a plain hash would allow guessing the content.
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
