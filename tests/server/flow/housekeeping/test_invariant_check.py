"""What invariant violated is looked at in production, too, a few nodes and accounts at a time."""

import pytest

from potluck.server.leader.memory import LeaderMemory
from potluck.server.loops.invariant_check import InvariantCheckLoop
from potluck.store.scheduler import invariant_snapshot
from tests.server.flow.pool import Pool


def violations(pool: Pool) -> float | None:
    return pool.services.metrics.registry.value("potluck_invariant_violations_total")


async def test_a_pool_that_works_gives_no_cause(pool: Pool) -> None:
    await pool.give(pool.alice, 10**9)
    await pool.started(price_micro_per_hour=1000, run_seconds=10.0)
    watch = InvariantCheckLoop(pool.services, LeaderMemory(pool.services))
    for _ in range(3):
        await watch.check()
    assert violations(pool) == 0


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE nodes SET used_cores = used_cores + 1",
        "UPDATE devices SET free_milli = 1000",
        "UPDATE balances SET held_micro = held_micro + 1 WHERE held_micro > 0",
        "UPDATE tasks SET state = 'queued'",
    ],
)
async def test_violations_are_counted_and_logged(
    pool: Pool, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await pool.give(pool.alice, 10**9)
    await pool.started(price_micro_per_hour=1000, run_seconds=10.0)
    await pool.sql(damage)
    watch = InvariantCheckLoop(pool.services, LeaderMemory(pool.services))
    await watch.check()
    assert violations(pool)
    assert "invariant violated" in capsys.readouterr().out


async def test_a_long_ledger_does_not_block_other_checks(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pool.give(pool.alice, 10**9)
    await pool.started(price_micro_per_hour=1000, run_seconds=10.0)
    await pool.sql("UPDATE balances SET held_micro = held_micro + 1")
    monkeypatch.setattr(invariant_snapshot, "_MAX_ENTRIES", 2)
    watch = InvariantCheckLoop(pool.services, LeaderMemory(pool.services))
    await watch.check()
    assert violations(pool) == 1, "of bob, who has no entries yet"


async def test_all_have_their_turn(pool: Pool) -> None:
    nodes = [(await pool.offer()).node_id for _ in range(45)]
    await pool.sql("UPDATE nodes SET used_cores = 1 WHERE id = $1", max(nodes))
    watch = InvariantCheckLoop(pool.services, LeaderMemory(pool.services))
    counts = []
    for _ in range(3):
        await watch.check()
        counts.append(violations(pool))
    assert counts == [0, 0, 1]
