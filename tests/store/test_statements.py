"""Every statement, on every PostgreSQL that is supported."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from potluck.store import sql_files

FILES = sorted(path.stem for path in (Path(sql_files.__file__).parent / "queries").glob("*.sql"))


@pytest.mark.parametrize("server", ["database_url", "debian_postgres_url"])
def test_every_statement_is_understood(server: str, request: pytest.FixtureRequest) -> None:
    """The older one knows fewer functions, and guesses fewer types."""
    refused = asyncio.run(_refused(request.getfixturevalue(server)))
    assert refused == {}


async def _refused(url: str) -> dict[str, str]:
    connection = await asyncpg.connect(url)
    refused = {}
    try:
        for file in FILES:
            for name, statement in sql_files.load(file).blocks.items():
                try:
                    await connection.prepare(statement)
                except asyncpg.PostgresError as error:
                    refused[f"{file}.{name}"] = str(error)
    finally:
        await connection.close()
    return refused
