"""A server's parts on a real database, without HTTP: each stage is called as the routes call it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from potluck.blobs.directory import DirectoryBlobs
from potluck.live.in_process import InProcessLive
from potluck.server.chain.contract_wallet import ContractWallets
from potluck.server.derived_keys import derive_keys
from potluck.server.egress.allow_list import read_allowed
from potluck.server.egress.send import GuardedSender
from potluck.server.rate_limiter import Limiter
from potluck.server.services import Services
from potluck.server.settings import ServerSettings
from potluck.store.database import Database
from potluck.store.sealing.vault import GivenKeys, KeyRing, Vault
from tests.server.flow.notify.delivery_fixtures import Delivering
from tests.server.flow.notify.receiver import Receiver, receiving
from tests.server.flow.pool import Pool


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What is marked so runs on every PostgreSQL each time; the rest on the older one at length."""
    if "any_database_url" not in metafunc.fixturenames:
        return
    is_for_all = metafunc.definition.get_closest_marker("every_postgres") is not None
    older = () if is_for_all else (pytest.mark.long,)
    servers = [
        pytest.param("database_url", id="PostgreSQL 18"),
        pytest.param("debian_postgres_url", id="the system's PostgreSQL", marks=older),
    ]
    metafunc.parametrize("any_database_url", servers, indirect=True)


@pytest.fixture
def any_database_url(request: pytest.FixtureRequest) -> str:
    """The store's promises hold on the embedded PostgreSQL and on the oldest supported one."""
    url: str = request.getfixturevalue(request.param)
    return url


def settings(tmp_path: Path, **changes: Any) -> ServerSettings:
    return ServerSettings(
        data_directory=tmp_path,
        **{
            "lease_seconds": 30.0,
            "fetch_seconds": 30.0,
            "poll_seconds": 0.2,
            "back_off_first_seconds": 0.0,
            "back_off_longest_seconds": 0.0,
            "settle_seconds": 86_400.0,  # nothing is charged before its end
            **changes,
        },
    )


@pytest.fixture
async def pool(any_database_url: str, tmp_path: Path) -> AsyncIterator[Pool]:
    database = await Database.connect(any_database_url, 8)
    live = InProcessLive()
    pool_settings = settings(tmp_path)
    parts = Services(
        pool_settings,
        database,
        live,
        DirectoryBlobs(tmp_path / "blobs"),
        keys=derive_keys(b"secret" * 6),
        vault=Vault(GivenKeys("the tests", KeyRing([bytes(32)]))),
        origins=("http://127.0.0.1:8470",),
        limiter=Limiter(live, pool_settings),
        contract_wallets=ContractWallets({}),
        authority_pem=None,
        outward=GuardedSender(read_allowed(["127.0.0.1"]), 2.0),
        instance="this-instance",
        stopping=asyncio.Event(),
    )
    try:
        yield await Pool.open(parts)
    finally:
        await live.close()
        await database.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as opened:
        yield opened


@pytest.fixture
async def delivering(pool: Pool) -> Delivering:
    return await Delivering.begin(pool)
