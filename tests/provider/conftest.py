"""A fake server for every test that wants one."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.orphans import orphans_are_let_go
from tests.provider.fake_server import FakeServer, fake_server

__all__ = ["orphans_are_let_go", "server"]


@pytest_asyncio.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with fake_server() as fake:
        yield fake
