"""Looks at the whole truth of a server that has stopped, and asks whether it holds."""

import asyncio
from pathlib import Path

from potluck.decide.invariants import InvariantSnapshot, check_invariants
from potluck.server.postgres import EmbeddedPostgres
from potluck.store.database import Database
from potluck.store.scheduler import invariant_snapshot
from tests.databases import SHARED


def check_truth(directory: Path) -> InvariantSnapshot:
    """Every invariant holds in the server of this directory; answers what it saw."""
    postgres = directory / "server" / "postgres"
    snapshot_coroutine = _take_from(postgres) if postgres.exists() else take(SHARED.of(directory))
    snapshot = asyncio.run(snapshot_coroutine)
    assert check_invariants(snapshot) == []
    return snapshot


async def _take_from(directory: Path) -> InvariantSnapshot:
    postgres = EmbeddedPostgres(directory)
    try:
        return await take(await postgres.start())
    finally:
        await postgres.stop()


async def take(url: str) -> InvariantSnapshot:
    """What the database of this address says."""
    database = await Database.connect(url, 2)
    try:
        async with database.transaction() as connection:
            return await invariant_snapshot.read_all(connection)
    finally:
        await database.close()
