"""Whatever happens, and wherever the server crashes: the ledger is right."""

import pytest

from tests.server.flow.pool import Pool
from tests.server.flow.settle.money_history import MoneyHistory

STEPS = 60


@pytest.mark.every_postgres
@pytest.mark.parametrize("seed", range(3))
async def test_a_history_with_crashes(pool: Pool, seed: int) -> None:
    history = await MoneyHistory.begin(pool, seed)
    await history.run(STEPS)
    assert history.crashes, "the histories are worth something only if some steps crash"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 160))
async def test_many_long_histories(pool: Pool, seed: int) -> None:
    history = await MoneyHistory.begin(pool, seed)
    await history.run(200)
