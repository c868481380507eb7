"""The status of the pool tells which alerts fire, and which are pending."""

from potluck.store import status
from tests.server.flow.pool import Pool


async def test_firing_and_pending_alerts_are_counted_by_name(pool: Pool) -> None:
    await pool.sql(
        "INSERT INTO alerts (name, subject, state, detail, began_at, fired_at)"
        " SELECT 'DeviceHot', 'device_' || n, CASE WHEN n < 3 THEN 'firing' ELSE 'pending'"
        " END, 'hot', now(), CASE WHEN n < 3 THEN now() END FROM generate_series(1, 3) AS n"
    )
    async with pool.services.database.transaction() as connection:
        facts = await status.read_facts(connection)
    assert facts.firing_alerts == {"DeviceHot": 2}
    assert facts.pending_alerts == {"DeviceHot": 1}
