"""All that is sealed in the database, looked at by its keys: for rotation, and for the first start.

Batches are small and each has a transaction of its own: they run beside everything else, and one
that was cut short is found again by the next call.
"""

import hmac
from collections.abc import Collection

from potluck.store.database import Connection
from potluck.store.named import load
from potluck.store.tasks import SPEC
from potluck.store.vault import Vault

_sql = load("sealed")
# Specs of at most a megabyte each are in memory at once.
BATCH = 32


async def keys_in_use(connection: Connection) -> frozenset[bytes]:
    """The ids of all keys that something here is sealed with."""
    return frozenset(row["key"] for row in await connection.fetch(_sql.keys_in_use))


async def count_of(connection: Connection, keys: Collection[bytes]) -> int:
    count: int = await connection.fetchval(_sql.count_of_keys, list(keys))
    return count


async def rewrite(connection: Connection, vault: Vault, keys: Collection[bytes]) -> int:
    """Seals some of what these keys sealed with the current one; how many it were."""
    rows = await connection.fetch(_sql.specs_of_keys, list(keys), BATCH)
    anew = [
        vault.seal(*SPEC, row["id"], vault.open(*SPEC, row["id"], row["sealed_spec"]))
        for row in rows
    ]
    await connection.execute(_sql.replace_specs, [row["id"] for row in rows], anew)
    return len(rows)


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
