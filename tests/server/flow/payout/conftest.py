"""A pool whose rewards are paid by a contract on a real chain."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.chain.anvil import Anvil
from tests.chain.fixtures import chain
from tests.server.flow.payout.payout_pool import PayingPool, open_paying
from tests.server.flow.pool import Pool

__all__ = ["chain"]


@pytest.fixture
async def paying(
    pool: Pool, any_database_url: str, chain: Anvil, tmp_path: Path
) -> AsyncIterator[PayingPool]:
    async with open_paying(pool, any_database_url, chain, tmp_path) as opened:
        yield opened
