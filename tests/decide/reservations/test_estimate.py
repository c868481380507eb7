"""What a task would meet: the truth, at no price to anybody who really waits."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from potluck.decide.order import ORDERS
from potluck.decide.pool.feasibility import Fit, Refusal, fit
from potluck.decide.reservations.reserve import ReserveSettings
from potluck.decide.scheduler import Scheduler, SchedulerPlan
from potluck.decide.task_estimate import Estimated
from potluck.decide.types import AccountShare, FreeNode, WaitingTask
from potluck.model.credit import MICRO
from potluck.model.device import Availability
from potluck.model.ids import TaskId
from potluck.model.task import GIB, ItemRange
from tests.decide.builders import ALICE, BOB, cpu, gpu, node, task
from tests.decide.schedulers import NOW, node_with, running, scheduler

MANY = 10_000


def asked(pool: Scheduler, **fields: Any) -> Estimated:
    return pool.estimate(task("asked", submitted_at=NOW, **fields), NOW)


def test_free_devices_are_counted_and_priced() -> None:
    pool = scheduler()
    pool.put_account(AccountShare(ALICE, available_micro=10 * MICRO))
    pool.put_node(node("n1", gpu("g1", price_micro_per_hour=300_000)))
    busy = gpu("g3", price_micro_per_hour=600_000, free_milli=0)
    pool.put_node(node("n2", gpu("g2", price_micro_per_hour=500_000), busy))
    pool.put_node(node("n3", cpu("c1")))
    estimate = asked(pool, device_kind="gpu")
    assert estimate.starts_now and estimate.can_run
    assert estimate.sentence == "It would start now: 2 of 3 suitable devices are free."
    market = estimate.market
    assert (market.nodes, market.devices, market.free_devices, estimate.nodes) == (2, 3, 2, 3)
    assert (market.cheapest_micro_per_hour, market.dearest_micro_per_hour) == (300_000, 600_000)
    assert estimate.forecast is not None and estimate.forecast.start == NOW


def test_a_task_that_would_wait_gets_a_start_time() -> None:
    pool = scheduler()
    pool.put_node(node_with("n1", 1))
    pool.put_task(task("t1"))
    (given_,) = pool.plan(NOW, MANY).assignments
    pool.put_running(running(given_, ALICE, NOW + 500), NOW)
    estimate = asked(pool)
    assert (estimate.starts_now, estimate.can_run) == (False, True)
    assert estimate.sentence == "It would wait: 1 node has its devices in use."
    assert estimate.forecast is not None and estimate.forecast.start == NOW + 500
    assert estimate.forecast.basis == "the tasks running there should end by then"


NEVER = [
    # (what it wants, what the node is, why not)
    ({"device_model": "H100"}, {}, Refusal.DEVICE_MODEL),
    ({"owners": ("0xb",)}, {"wallet": "0xa"}, Refusal.OWNER),
    ({"owners": ("0xa",)}, {"wallet": "0xa", "own_tasks_only": True}, Refusal.OWN_TASKS_ONLY),
    ({"min_reliability": 0.9}, {"reliability": 0.5}, Refusal.RELIABILITY),
    ({"cores": 9}, {}, Refusal.CORES),
]


@pytest.mark.parametrize(("requirements", "offered", "refusal"), NEVER)
def test_a_task_that_no_node_could_run_gets_suggested_changes(
    requirements: dict[str, Any], offered: dict[str, Any], refusal: Refusal
) -> None:
    pool = scheduler()
    pool.put_node(node(**offered))
    estimate = asked(pool, **requirements)
    assert (estimate.starts_now, estimate.can_run, estimate.market.devices) == (False, False, 0)
    assert estimate.sentence.startswith("As things are, it would never start: 1 node ")
    assert estimate.refusals == {refusal: 1} and estimate.forecast is None
    assert estimate.changes or refusal is Refusal.OWN_TASKS_ONLY


def test_unavailable_devices_may_come_back() -> None:
    pool = scheduler()
    pool.put_node(node("n1", gpu(availability=Availability.OUTSIDE_HOURS)))
    estimate = asked(pool)
    assert (estimate.starts_now, estimate.can_run) == (False, True) and estimate.forecast is None


def test_a_pool_without_nodes_is_reported() -> None:
    estimate = asked(scheduler())
    assert not estimate.can_run and "potluck provide" in estimate.sentence


def test_a_purse_that_is_too_small_is_told() -> None:
    pool = scheduler()
    pool.put_account(AccountShare(ALICE, available_micro=999_999))
    pool.put_node(node("n1", gpu(price_micro_per_hour=MICRO)))
    estimate = asked(pool, run_seconds=3600.0)
    assert not estimate.starts_now and estimate.refusals == {Refusal.CREDIT: 1}
    assert estimate.forecast is None, "it is not devices that it would wait for"
    pool.put_account(AccountShare(ALICE, available_micro=MICRO))
    assert asked(pool, run_seconds=3600.0).starts_now


def test_a_quota_is_told() -> None:
    pool = scheduler()
    pool.put_account(AccountShare(ALICE, most_running_milli=1000))
    pool.put_node(node_with("n1", 4))
    assert asked(pool).starts_now
    too_large = asked(pool, device_count=2)
    assert not too_large.can_run and "larger quota" in too_large.sentence


def test_reserved_devices_are_not_promised() -> None:
    """Somebody has waited long for both devices, and one of them is in use."""
    pool = told("fcfs", [node_with("n1", 2)], 0, [task("t1", run_seconds=500.0)])
    (busy,) = pool.plan(NOW, MANY).assignments
    pool.put_running(running(busy, ALICE, NOW + 500), NOW)
    pool.put_task(task("large", device_count=2, submitted_at=NOW - 5000.0))
    for moment in (NOW + 2, NOW + 4):
        pool.plan(moment, MANY)
    long, short = (
        task("new", submitted_at=NOW + 4, run_seconds=seconds) for seconds in (3600.0, 60.0)
    )
    estimate = pool.estimate(long, NOW + 4)
    assert (
        not estimate.starts_now
        and "reserved for tasks that have waited longer" in estimate.sentence
    )
    assert pool.estimate(short, NOW + 4).starts_now, "it is over before the other could start"
    pool.put_task(long)
    assert not pool.plan(NOW + 4, MANY).assignments


def test_an_array_is_guessed_as_a_whole_by_all_that_suits_it() -> None:
    pool = scheduler()
    pool.put_node(node_with("n1", 4))
    pool.put_node(node_with("n2", 1))
    items = (ItemRange(0, 12),)
    estimate = asked(pool, pending=items, expected_seconds=10.0, device_kind="gpu")
    assert (estimate.market.slots, estimate.item_seconds, estimate.whole_seconds) == (5, 10.0, 30.0)
    assert asked(pool, pending=items).whole_seconds is None, "nobody knows how long an item takes"
    pool.put_account(AccountShare(ALICE, most_running_milli=2000))
    estimate = asked(pool, pending=items, expected_seconds=10.0, device_kind="gpu")
    assert estimate.whole_seconds == 60.0


names = st.uuids().map(str)
WALLETS = ("", "0xa", "0xb")


def tasks_of(**fixed: Any) -> st.SearchStrategy[WaitingTask]:
    return st.builds(
        task,
        names,
        account_id=st.sampled_from([ALICE, BOB]),
        priority=st.integers(-1, 1),
        device_count=st.integers(1, 2),
        device_kind=st.sampled_from([None, "gpu"]),
        owners=st.sampled_from([(), (), ("0xa",), ("0xa", "0xb")]),
        min_reliability=st.sampled_from([None, None, 0.8]),
        cores=st.integers(1, 4),
        memory_bytes=st.integers(1, 12).map(lambda n: n * GIB),
        run_seconds=st.sampled_from([60.0, 3600.0]),
        submitted_at=st.sampled_from([NOW - 5000.0, NOW - 10.0]),
        **fixed,
    )


def _node(name: str, kinds: Sequence[Any], price: int, **changes: Any) -> FreeNode:
    devices = [
        kind(f"{name}-{index}", price_micro_per_hour=price * (index + 1))
        for index, kind in enumerate(kinds)
    ]
    return node(name, *devices, memory_bytes=16 * GIB, disk_bytes=16 * GIB, **changes)


nodes = st.lists(
    st.builds(
        _node,
        names,
        st.lists(st.sampled_from([gpu, gpu, cpu]), min_size=1, max_size=3),
        st.integers(0, 30),
        wallet=st.sampled_from(WALLETS),
        reliability=st.sampled_from([1.0, 0.5]),
        own_tasks_only=st.booleans(),
        account_id=st.sampled_from([ALICE, BOB]),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda item: item.id,
)
waiting = st.lists(tasks_of(), max_size=8, unique_by=lambda item: item.id)
orders = st.sampled_from(sorted(ORDERS))


def told(order: str, offered: list[FreeNode], purse: int, tasks: list[WaitingTask]) -> Scheduler:
    """What waits long gets something promised soon."""
    reserve = ReserveSettings(after_seconds=100.0, promise_seconds=2000.0, every_seconds=1.0)
    pool = scheduler(order, reserve=reserve)
    for account_id in (ALICE, BOB):
        pool.put_account(AccountShare(account_id, available_micro=purse))
    for offer in offered:
        pool.put_node(offer)
    for waiting_task in tasks:
        pool.put_task(waiting_task)
    return pool


def rounds(
    pool: Scheduler, later: list[WaitingTask], asked_tasks: list[WaitingTask]
) -> list[SchedulerPlan]:
    """Some come, some of what runs ends, and others come; between all that somebody asks."""

    def ask() -> None:
        for waiting_task in asked_tasks:
            pool.estimate(waiting_task, NOW)

    ask()
    plans = [pool.plan(NOW, MANY)]
    ask()
    attempts = [
        running(assignment, ALICE, NOW + 50.0 * (1 + index))
        for index, assignment in enumerate(plans[0].assignments)
    ]
    for attempt in attempts:
        pool.put_running(attempt, NOW)
    ask()
    plans.append(pool.plan(NOW + 2, 3))
    for attempt in attempts[::2]:
        pool.give(attempt, NOW + 3)
    for waiting_task in later:
        pool.put_task(waiting_task)
        ask()
    plans += [pool.plan(NOW + 4, 2), pool.plan(NOW + 5, MANY)]
    return plans


@settings(max_examples=25)
@given(orders, nodes, st.integers(0, 100), waiting, waiting, waiting)
def test_estimates_do_not_change_the_plan(
    order: str,
    offered: list[FreeNode],
    purse: int,
    tasks: list[WaitingTask],
    later: list[WaitingTask],
    asking: list[WaitingTask],
) -> None:
    unasked = rounds(told(order, offered, purse, tasks), later, [])
    assert rounds(told(order, offered, purse, tasks), later, asking) == unasked


def as_new(waiting_task: WaitingTask) -> WaitingTask:
    """Whoever comes now stands behind all others: its id is the newest, too."""
    return replace(waiting_task, id=TaskId(f"z{waiting_task.id}"), submitted_at=NOW)


new_task = tasks_of(expected_seconds=st.sampled_from([None, 5.0, 600.0])).map(as_new)


def apply_all(pool: Scheduler, tasks: list[WaitingTask], purse: int) -> None:
    """Rounds until nothing more can be placed; what was planned runs, and is paid for."""
    owners = {waiting_task.id: waiting_task.account_id for waiting_task in tasks}
    purses = dict.fromkeys((ALICE, BOB), purse)
    plan = pool.plan(NOW, MANY)
    while plan.assignments or not plan.is_complete:
        for assignment in plan.assignments:
            account_id = owners[assignment.task_id]
            pool.put_running(running(assignment, account_id, NOW + 500.0), NOW)
            purses[account_id] -= assignment.hold_micro
        for account_id, available_micro in purses.items():
            pool.put_account(AccountShare(account_id, available_micro=available_micro))
        plan = pool.plan(NOW, MANY)


@settings(max_examples=80)
@given(orders, nodes, st.integers(0, 100), waiting, new_task)
def test_would_start_now_is_what_the_planner_then_does(
    order: str, offered: list[FreeNode], purse: int, tasks: list[WaitingTask], new: WaitingTask
) -> None:
    pool = told(order, offered, purse, tasks)
    apply_all(pool, tasks, purse)
    estimate = pool.estimate(new, NOW)
    pool.put_task(new)
    started = {assignment.task_id for assignment in pool.plan(NOW, MANY).assignments}
    assert estimate.starts_now == (new.id in started)


@settings(max_examples=25)
@given(nodes, new_task)
def test_refusals_are_those_of_each_node(offered: list[FreeNode], new: WaitingTask) -> None:
    pool = told("fair", offered, MICRO, [])
    outcomes = [fit(new, free_node) for free_node in offered]
    refusals = [outcome for outcome in outcomes if not isinstance(outcome, Fit)]
    estimate = pool.estimate(new, NOW)
    assert sum(estimate.refusals.values()) == len(refusals)
    assert all(estimate.refusals[refusal] == refusals.count(refusal) for refusal in refusals)
