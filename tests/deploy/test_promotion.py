"""A standby is promoted after its primary was killed, under load."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from potluck.model.error import Unavailable
from potluck.store.database import Database
from tests.deploy.load import Load
from tests.deploy.replicas import replicated_postgres
from tests.processes import ServerProcess


async def test_writes_go_to_the_promoted_standby() -> None:
    """The near relative of the test below, without servers."""
    with replicated_postgres(synchronous=True) as postgres:
        database = await Database.connect(postgres.url, 4)
        await write(database, "CREATE TABLE kept (number int)", "INSERT INTO kept VALUES (1)")
        # Asked by an address of one host, a standby is away and not broken.
        standby = await Database.connect(postgres.standby_url, 2)
        with pytest.raises(Unavailable):
            await write(standby, "INSERT INTO kept VALUES (2)")
        postgres.kill_primary()
        with pytest.raises(Unavailable):
            await write(database, "INSERT INTO kept VALUES (3)")
        postgres.promote()
        await write(database, "INSERT INTO kept VALUES (4)")
        await write(standby, "INSERT INTO kept VALUES (5)")
        async with database.statement() as connection:
            numbers = await connection.fetch("SELECT number FROM kept ORDER BY number")
        assert [row["number"] for row in numbers] == [1, 4, 5]
        await database.close()
        await standby.close()


async def write(database: Database, *statements: str) -> None:
    async with database.statement() as connection:
        for statement in statements:
            await connection.execute(statement)


@pytest.mark.long
def test_a_synchronous_standby_loses_no_acknowledged_write(tmp_path: Path, redis_url: str) -> None:
    with replicated_postgres(synchronous=True) as postgres, ExitStack() as stack:
        shared = {"POTLUCK_DATABASE_URL": postgres.url, "POTLUCK_REDIS_URL": redis_url}
        first_server = stack.enter_context(ServerProcess(tmp_path / "one", 0, **shared))
        two = stack.enter_context(ServerProcess(tmp_path / "two", 0, **shared))
        with Load([first_server.url, two.url], first_server.token, tries=8) as load:
            load.await_more(100)
            postgres.kill_primary()
            postgres.promote()
            load.await_more(100)
        assert load.lost(postgres.standby_url) == 0
        assert load.failures == []
