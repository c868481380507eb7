"""Looks at the whole truth of a server that has stopped, and asks whether it holds."""

import asyncio
from pathlib import Path

from potluck.decide.invariants import Picture, violations
from potluck.server.postgres import EmbeddedPostgres
from potluck.store import picture
from potluck.store.database import Database


def check_truth(directory: Path) -> Picture:
    """Every invariant holds in the server's data directory; answers what it saw."""
    return asyncio.run(_check(directory))


async def _check(directory: Path) -> Picture:
    postgres = EmbeddedPostgres(directory / "server" / "postgres")
    url = await postgres.start()
    try:
        database = await Database.connect(url, 2)
        try:
            async with database.transaction() as connection:
                seen = await picture.take(connection)
        finally:
            await database.close()
    finally:
        await postgres.stop()
    assert violations(seen) == []
    return seen
