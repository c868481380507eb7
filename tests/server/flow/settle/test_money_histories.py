"""Whatever happens, and wherever the server crashes: the ledger is right."""

from itertools import product

import pytest

from potluck.model.task import EndReason
from tests.server.flow.pool import Pool
from tests.server.flow.settle.money_history import REPORTED, MoneyHistory

STEPS = 60
_MOST_TRANSACTIONS = 6
_WITHOUT_TRANSACTIONS = ("change_fee", "checkpoint")


@pytest.mark.every_postgres
@pytest.mark.parametrize("seed", range(3))
async def test_a_history_with_crashes(pool: Pool, seed: int) -> None:
    history = await MoneyHistory.begin(pool, seed)
    await history.run(STEPS)
    assert history.crashes, "the histories are worth something only if some steps crash"


@pytest.mark.parametrize("name", MoneyHistory.weights)
async def test_each_step_may_crash_at_each_of_its_transactions(pool: Pool, name: str) -> None:
    """Before the commit and after it; then the step is taken again."""
    history = await MoneyHistory.begin(pool, 7)
    for transaction, is_committed in product(range(_MOST_TRANSACTIONS), (False, True)):
        await history.fill()
        if not await history.take_crashing(name, transaction, is_committed):
            break
        await history.take(name)
    await history.drain()
    assert history.crashes or name in _WITHOUT_TRANSACTIONS


async def test_each_end_that_a_node_may_report(pool: Pool) -> None:
    """Of a single task, of a range of an array, and of one that has not started. `credit` follows
    the server's request only, so the random histories have it.
    """
    history = await MoneyHistory.begin(pool, 7)
    reasons = set(REPORTED) - {EndReason.CREDIT}
    for reason in sorted(reasons):
        await history.fill()
        for attempt in list(history.held.values()):
            await history.report_end(attempt, reason)
            await history.check()
    await history.drain()
    accepted = {name.split()[0] for name in history.ends if name.endswith(" accepted")}
    assert accepted == reasons, "one without effect says nothing"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 160))
async def test_many_long_histories(pool: Pool, seed: int) -> None:
    history = await MoneyHistory.begin(pool, seed)
    await history.run(200)
