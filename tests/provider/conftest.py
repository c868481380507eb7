"""A fake server, and who runs functions without one, for every test that wants them."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import cloudpickle
import pytest
import pytest_asyncio

from potluck.provider.sandbox.bubblewrap.bwrap import BubblewrapDriver
from potluck.provider.sandbox.driver import Driver
from tests.orphans import orphans_are_let_go
from tests.provider.fake_server import FakeServer, fake_server
from tests.provider.functions.warm_calls import Shop, open_shop

__all__ = ["orphans_are_let_go", "server"]


@pytest_asyncio.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with fake_server() as fake:
        yield fake


@pytest.fixture
def by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    """As if the functions of the test's module were written in a script or a notebook."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


@pytest_asyncio.fixture
async def bwrap(tmp_path: Path) -> Driver:
    driver = BubblewrapDriver(tmp_path / "sandbox", "test")
    await driver.probe()
    return driver


@pytest_asyncio.fixture
async def walled(bwrap: Driver, tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(bwrap, tmp_path) as shop:
        yield shop
