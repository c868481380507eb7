"""All that is sealed in the database, looked at by its keys: for rotation, and for the first start.

Batches are small and each has a transaction of its own: they run beside everything else, and one
that was cut short is found again by the next call.
"""

import hmac
from collections.abc import Collection

from msgspec import Struct

from potluck.model.error import Unopenable
from potluck.model.ids import TaskId
from potluck.store.database import Connection
from potluck.store.named import load
from potluck.store.tasks import SPEC
from potluck.store.vault import Vault

_sql = load("sealed")
# Specs of at most a megabyte each are in memory at once.
BATCH = 32


class Batch(Struct, frozen=True):
    rewritten: list[TaskId]
    unreadable: list[TaskId]  # damaged, or moved from elsewhere; left as they are


async def keys_in_use(connection: Connection) -> frozenset[bytes]:
    """The ids of all keys that something here is sealed with."""
    return frozenset(row["key"] for row in await connection.fetch(_sql.keys_in_use))


async def count_of(connection: Connection, keys: Collection[bytes]) -> int:
    count: int = await connection.fetchval(_sql.count_of_keys, list(keys))
    return count


async def rewrite(
    connection: Connection, vault: Vault, keys: Collection[bytes], passed_over: Collection[TaskId]
) -> Batch:
    """Seals some of what these keys sealed with the current one."""
    rows = await connection.fetch(_sql.specs_of_keys, list(keys), BATCH, list(passed_over))
    anew: dict[TaskId, bytes] = {}
    unreadable: list[TaskId] = []
    for row in rows:
        try:
            plain = vault.open(*SPEC, row["id"], row["sealed_spec"])
        except Unopenable:
            unreadable.append(row["id"])
            continue
        anew[row["id"]] = vault.seal(*SPEC, row["id"], plain)
    await connection.execute(_sql.replace_specs, list(anew), list(anew.values()))
    return Batch(list(anew), unreadable)


async def seal_clear(connection: Connection, vault: Vault, request_key: bytes) -> int:
    """Seals some of what was written before there was a vault; how many it were.

    Their hashes become keyed ones: a plain hash lets somebody try what the task may have said.
    """
    rows = await connection.fetch(_sql.specs_in_the_clear, BATCH)
    await connection.execute(
        _sql.seal_specs,
        [row["id"] for row in rows],
        [vault.seal(*SPEC, row["id"], row["spec"]) for row in rows],
        [hmac.digest(request_key, row["request_hash"], "sha256") for row in rows],
    )
    return len(rows)
