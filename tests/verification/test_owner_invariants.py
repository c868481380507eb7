"""Losses that are held against a node: which counts are just, also if a device closes meanwhile."""

import asyncio

import pytest

from verification.faults.cluster import BEGINNING
from verification.faults.history_database import HistoryDatabase, Schedule
from verification.faults.owner_invariants import (
    AttemptShares,
    AvailabilityHistory,
    find_unjust_losses,
)
from verification.faults.row_changes import Row, RowChange
from verification.faults.sessions import Sessions
from verification.faults.virtual_loop import VirtualLoop


def lose_two(reason: str, counted: int) -> list[RowChange]:
    """Both attempts of a node are lost, and it is blamed for some."""

    def attempt(number: int, state: str, reason: str | None) -> Row:
        return {"id": f"attempt_{number}", "node_id": "node", "state": state, "reason": reason,
                "is_reclaimable": True}  # fmt: skip

    node = {"id": "node", "lost_attempts": 5}
    return [
        RowChange("attempts", attempt(1, "granted", None), attempt(1, "lost", reason)),
        RowChange("attempts", attempt(2, "granted", None), attempt(2, "lost", reason)),
        RowChange("nodes", node, {**node, "lost_attempts": 5 + counted}),
    ]


def shares(*availabilities: str, racing: frozenset[str] = frozenset()) -> AttemptShares:
    """One device for each attempt."""
    rows = [
        {
            "attempt_id": f"attempt_{number}",
            "device_id": f"device_{number}",
            "availability": availability,
        }
        for number, availability in enumerate(availabilities, 1)
    ]
    return AttemptShares(rows, racing)


def just_counts(reason: str, shares_held: AttemptShares) -> set[int]:
    return {
        count for count in range(4) if not find_unjust_losses(lose_two(reason, count), shares_held)
    }


@pytest.mark.parametrize("reason", ["withdrawn", "reclaimed"])
def test_attempts_on_a_closed_device_do_not_count(reason: str) -> None:
    assert just_counts(reason, shares("available", "available")) == {2}
    assert just_counts(reason, shares("available", "sick")) == {1}
    assert just_counts(reason, shares("sick", "paused")) == {0}


def test_a_device_that_closed_or_opened_meanwhile_may_have_been_read_either_way() -> None:
    first = frozenset({"device_1"})
    assert just_counts("withdrawn", shares("sick", "available", racing=first)) == {1, 2}
    assert just_counts("withdrawn", shares("available", "sick", racing=first)) == {0, 1}


def test_a_race_excuses_nothing_else() -> None:
    first = frozenset({"device_1"})
    assert just_counts("lease_expired", shares("sick", "sick", racing=first)) == {2}
    assert just_counts("withdrawn", shares("sick", "sick", racing=frozenset({"device_3"}))) == {0}
    two_devices = AttemptShares(
        [
            {"attempt_id": name, "device_id": device, "availability": "paused"}
            for name in ("attempt_1", "attempt_2")
            for device in ("device_1", "device_2")
        ],
        first,
    )
    assert just_counts("withdrawn", two_devices) == {0}, "the second device was closed before"


def test_only_changes_during_the_transaction_count_as_a_race() -> None:
    def change(before: str | None, after: str, device: str = "device") -> RowChange:
        rows = [
            availability and {"id": device, "availability": availability}
            for availability in (before, after)
        ]
        return RowChange("devices", rows[0] or None, rows[1] or None)

    history = AvailabilityHistory()
    history.note([change(None, "available"), change("available", "sick")], 3)
    history.note([change("sick", "paused")], 4)
    assert history.changed_since(2) == {"device"}
    assert history.changed_since(3) == frozenset()
    history.note([change("paused", "available"), change("paused", "available", "other")], 7)
    assert history.changed_since(6) == {"device", "other"}
    assert history.changed_since(7) == frozenset()


def test_a_transaction_knows_the_step_at_which_it_began(sessions: Sessions) -> None:
    """Not the one at which it was requested or first wrote: others commit meanwhile."""
    steps: list[int] = []

    async def wait(*_: object) -> None:
        await asyncio.sleep(1)

    async def write(database: HistoryDatabase, table: str, seconds: float) -> None:
        async with database.transaction() as connection:
            await asyncio.sleep(seconds)
            await connection.execute(f"UPDATE {table} SET is_only = is_only")

    async def work() -> None:
        schedule = Schedule(lambda: BEGINNING, lambda: len(steps), wait, wait, steps.append)
        database = HistoryDatabase(sessions, schedule, connections=2)
        slow = asyncio.create_task(write(database, "leader", 10))
        await write(database, "event_head", 0)
        await write(database, "event_head", 0)
        await slow

    loop = VirtualLoop()
    try:
        loop.run_until_complete(work())
    finally:
        loop.close()
    assert steps == [0, 1, 0]
