"""Who is served first, policy by policy, and that nobody starves."""

from collections.abc import Iterator
from typing import Any

import pytest

from potluck.decide.account import HALF_LIFE_SECONDS, SchedulerAccount
from potluck.decide.order import ORDERS
from potluck.decide.order.policies import STEP_SECONDS
from potluck.decide.types import AccountShare, WaitingTask
from potluck.model.ids import AccountId
from potluck.model.task import ItemRange
from tests.decide.builders import ALICE, BOB, task
from tests.decide.schedulers import NOW, node_with, running, scheduler

CAROL = AccountId("account_carol")


def served(order: str, tasks: list[WaitingTask], *shares: AccountShare) -> list[str]:
    """The order in which one device serves them, each of them for a second."""
    pool = scheduler(order)
    pool.put_node(node_with("n1", 1))
    for share in shares:
        pool.put_account(share)
    for waiting_task in tasks:
        pool.put_task(waiting_task)
    owners = {waiting_task.id: waiting_task.account_id for waiting_task in tasks}
    served_ids: list[str] = []
    while pool.waiting_count:
        (assignment,) = pool.plan(NOW + len(served_ids), 1).assignments
        served_ids.append(assignment.task_id)
        attempt = running(assignment, owners[assignment.task_id], NOW + len(served_ids))
        pool.put_running(attempt, NOW + len(served_ids) - 1)
        pool.give(attempt, NOW + len(served_ids))
    return served_ids


def tasks(*names: str, **changes: Any) -> Iterator[WaitingTask]:
    """Submitted one second after the other; the first letter says whose they are."""
    owners = {"a": ALICE, "b": BOB, "c": CAROL}
    for number, name in enumerate(names):
        yield task(
            name,
            account_id=owners[name[0]],
            submitted_at=NOW - 100 + number,
            **changes.get(name, {}),
        )


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("fcfs", ["a1", "a2", "b1", "a3", "b2", "c1"]),
        ("round-robin", ["a1", "b1", "c1", "a2", "b2", "a3"]),
        ("priority", ["c1", "a1", "a2", "b1", "a3", "b2"]),  # c1 has the higher one
        ("fair", ["c1", "a1", "b1", "a2", "b2", "a3"]),  # the class first, then turns by use
        ("shortest", ["b2", "a1", "a2", "b1", "a3", "c1"]),  # b2 says that it is the shortest
    ],
)
def test_each_policy_has_its_own_idea_of_who_is_next(order: str, expected: list[str]) -> None:
    waiting = tasks(
        *("a1", "a2", "b1", "a3", "b2", "c1"), c1={"priority": 1}, b2={"expected_seconds": 1.0}
    )
    assert served(order, list(waiting)) == expected


@pytest.mark.parametrize("order", sorted(ORDERS))
def test_equal_tasks_are_served_by_age(order: str) -> None:
    names = [f"a{number}" for number in range(9)]
    assert served(order, list(tasks(*names))) == names


def test_ten_tasks_of_a_second_account_wait_for_few_of_ten_thousand() -> None:
    """Two accounts, one with 10,000 tasks first: the second waits for a small constant."""
    pool = scheduler("fair")
    for number in range(10):
        pool.put_node(node_with(f"n{number}", 1))
    many_tasks = [task(f"a{number:05}", submitted_at=NOW) for number in range(10_000)]
    few_tasks = [
        task(f"b{number}", account_id=BOB, submitted_at=NOW + 3600) for number in range(10)
    ]
    for waiting_task in many_tasks:
        pool.put_task(waiting_task)
    owners = {
        waiting_task.id: waiting_task.account_id for waiting_task in [*many_tasks, *few_tasks]
    }
    live, ends = [], 0
    now = NOW
    while (
        not all(pool.task(waiting_task.id) is None for waiting_task in few_tasks)
        or now < NOW + 3600
    ):
        now += 600.0
        if now == NOW + 3600:
            for waiting_task in few_tasks:
                pool.put_task(waiting_task)
        for assignment in pool.plan(now, 100).assignments:
            live.append(running(assignment, owners[assignment.task_id], now + 600))
            pool.put_running(live[-1], now)
        if now >= NOW + 3600:
            ends += 1
        for attempt in live:
            pool.give(attempt, now + 600.0)
        live.clear()
    assert ends <= 2, "ten devices are free at each end: the ten are served in a round or two"
    assert pool.waiting_count > 9_000


def test_a_heavier_account_gets_more_in_proportion() -> None:
    waiting = [
        *(task(f"a{number:02}", submitted_at=NOW) for number in range(40)),
        *(task(f"b{number:02}", account_id=BOB, submitted_at=NOW) for number in range(40)),
    ]
    pool = scheduler("fair")
    pool.put_account(AccountShare(ALICE, weight=3.0))
    pool.put_node(node_with("n1", 20))
    for waiting_task in waiting:
        pool.put_task(waiting_task)
    accounts_served = [assignment.task_id[0] for assignment in pool.plan(NOW, 100).assignments]
    assert (accounts_served.count("a"), accounts_served.count("b")) == (15, 5)


def test_recent_use_counts_and_decays() -> None:
    account = SchedulerAccount(ALICE)
    account.recall(8000.0, NOW)
    assert account.use(NOW) == 8000.0
    assert account.use(NOW + HALF_LIFE_SECONDS) == pytest.approx(4000.0)
    account.have(1000, NOW + HALF_LIFE_SECONDS)
    before = account.use(NOW + HALF_LIFE_SECONDS)
    assert account.use(NOW + HALF_LIFE_SECONDS + 60) > before


def test_an_account_that_gets_nothing_overtakes_higher_priorities() -> None:
    fair = ORDERS["fair"]()
    pool = scheduler("fair")
    pool.put_node(node_with("n1", 1))
    pool.put_task(task("a0", submitted_at=NOW))
    started = None
    for number in range(2000):
        now = NOW + 60.0 * number
        pool.put_task(task(f"b{number:04}", account_id=BOB, priority=10, submitted_at=now))
        (assignment,) = pool.plan(now, 1).assignments
        if assignment.task_id == "a0":
            started = now
            break
        attempt = running(assignment, BOB, now)
        pool.put_running(attempt, now)
        pool.give(attempt, now + 60.0)
    assert started is not None and started - NOW <= 11 * STEP_SECONDS, fair


def test_a_low_priority_of_ones_own_does_not_starve() -> None:
    low = task("low", priority=-10, submitted_at=NOW)
    late_task = task("late", priority=10, submitted_at=NOW + 20 * STEP_SECONDS + 1)
    early = task("early", priority=10, submitted_at=NOW + 20 * STEP_SECONDS - 1)
    for name in ("priority", "fair"):
        order = ORDERS[name]()
        assert order.within(early) < order.within(low) < order.within(late_task)


def test_the_length_of_an_array_is_that_of_its_remaining_items() -> None:
    shortest = ORDERS["shortest"]()
    array = task("t1", pending=(ItemRange(0, 10),), expected_seconds=5.0)
    single = task("t2", expected_seconds=40.0)
    assert shortest.within(single) < shortest.within(array)
    remaining_array = task("t1", pending=(ItemRange(3, 10),), expected_seconds=5.0)
    assert shortest.within(remaining_array) < shortest.within(single)


def test_an_estimate_above_the_time_limit_is_ignored() -> None:
    """Without an estimate the limit is what counts; above it an estimate means nothing."""
    shortest = ORDERS["shortest"]()
    assert shortest.within(task("t1", run_seconds=60.0)) == 60.0
    assert shortest.within(task("t1", run_seconds=60.0, expected_seconds=90.0)) == 60.0
    assert shortest.within(task("t1", device_count=4, expected_seconds=5.0)) == 20.0
