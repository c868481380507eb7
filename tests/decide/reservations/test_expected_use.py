"""What an account has had of the pool is what it had, whenever somebody looked."""

import random

import pytest

from potluck.decide.account import HALF_LIFE_SECONDS, SchedulerAccount, decayed_use
from potluck.decide.reservations.running import RunningWork
from potluck.decide.reservations.timetable import Timetable
from potluck.decide.types import AccountShare, DeviceShare, RunningAttempt
from potluck.model.ids import AttemptId, DeviceId, NodeId, TaskId
from tests.decide.builders import ALICE, BOB, task
from tests.decide.schedulers import NOW, node_with, running, scheduler

HOUR = 3600.0


def test_an_account_that_used_little_precedes_one_that_used_hours() -> None:
    """Alice wants nothing for hours after it, so that nobody looks at what she had."""
    pool = scheduler("fair")
    for account_id in (ALICE, BOB):
        pool.put_account(AccountShare(account_id))
    pool.put_node(node_with("n1", 8))
    pool.put_task(task("a1", device_count=8, submitted_at=NOW))
    (assignment,) = pool.plan(NOW, 10).assignments
    short = running(assignment, ALICE, NOW + 1)
    pool.put_running(short, NOW)
    pool.give(short, NOW + 1)
    pool.put_task(task("b1", account_id=BOB, device_count=8, submitted_at=NOW + HOUR))
    (assignment,) = pool.plan(NOW + HOUR, 10).assignments
    long = running(assignment, BOB, NOW + 6 * HOUR)
    pool.put_running(long, NOW + HOUR)
    pool.put_task(task("b2", account_id=BOB, device_count=8, submitted_at=NOW + 6 * HOUR - 9))
    pool.put_task(task("a2", device_count=8, submitted_at=NOW + 6 * HOUR - 3))
    pool.give(long, NOW + 6 * HOUR)
    (assignment,) = pool.plan(NOW + 6 * HOUR, 10).assignments
    assert assignment.task_id == "a2"


@pytest.mark.parametrize("seed", range(20))
def test_use_is_the_sum_of_what_each_attempt_had_for_as_long_as_it_had_it(seed: int) -> None:
    """As a new leader reads it back, attempt by attempt."""
    rng = random.Random(seed)
    account, live = SchedulerAccount(ALICE), RunningWork(Timetable(60.0))
    running_since: dict[AttemptId, tuple[int, float]] = {}
    past: list[tuple[int, float, float]] = []
    now = NOW
    for number in range(60):
        now += rng.choice([0.0, 1.0, 60.0, HOUR])
        if running_since and rng.random() < 0.5:
            attempt_id = rng.choice(sorted(running_since))
            live.drop(attempt_id, account, now)
            milli, start = running_since.pop(attempt_id)
            past.append((milli, start, now))
        else:
            attempt = _attempt(number, rng.choice([100, 500, 1000]))
            live.put(attempt, account, now)
            running_since[attempt.id] = (attempt.shares[0].milli, now)
        if rng.random() < 0.2:
            account.use(now - rng.choice([0.0, 30.0]))  # a look, perhaps by an older clock
    now += rng.choice([0.0, HOUR])
    spans = [*past, *((milli, start, now) for milli, start in running_since.values())]
    expected = sum(decayed_use(*span, now) for span in spans)
    has = sum(milli for milli, _ in running_since.values())
    assert account.use(now) == pytest.approx(expected + has * HALF_LIFE_SECONDS)


def _attempt(number: int, milli: int) -> RunningAttempt:
    return RunningAttempt(
        id=AttemptId(f"attempt_{number:02}"),
        task_id=TaskId(f"task_{number:02}"),
        account_id=ALICE,
        node_id=NodeId("n1"),
        shares=(DeviceShare(DeviceId("g1"), milli),),
        cores=1,
        memory_bytes=0,
        disk_bytes=0,
        expected_end=NOW,
    )
