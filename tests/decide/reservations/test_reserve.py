"""What has waited long gets its devices, and nobody is held up more than that needs."""

from functools import partial
from itertools import product

import pytest

from potluck.decide.reservations.reserve import ReserveSettings
from potluck.decide.scheduler import Scheduler
from potluck.decide.types import AccountShare, RunningAttempt, WaitingTask
from potluck.model.device import DeviceKind
from potluck.model.ids import NodeId, TaskId
from potluck.model.task import ItemRange
from tests.decide import builders
from tests.decide.builders import ALICE, BOB
from tests.decide.schedulers import NOW, node_with, running, scheduler, with_cpu

PROMISE = 1000.0
ORDERS = ["fcfs", "fair", "priority", "round-robin", "shortest"]
task = partial(builders.task, device_kind=DeviceKind.GPU)
SETTINGS = ReserveSettings(after_seconds=100.0, promise_seconds=PROMISE, every_seconds=1.0)


class Clock:
    """A pool with virtual time: what is assigned runs for as long as was expected."""

    def __init__(self, order: str, *gpus: int) -> None:
        self.pool: Scheduler = scheduler(order, reserve=SETTINGS)
        self.now = NOW
        self.starts: dict[TaskId, float] = {}
        self.live: list[RunningAttempt] = []
        self._tasks: dict[TaskId, WaitingTask] = {}
        for number, count in enumerate(gpus):
            self.pool.put_node(with_cpu(node_with(f"n{number}", count)))

    def submit(self, *tasks: WaitingTask) -> None:
        for waiting_task in tasks:
            self._tasks[waiting_task.id] = waiting_task
            self.pool.put_task(waiting_task)

    def run(self, seconds: float, step: float = 10.0) -> None:
        end = self.now + seconds
        while self.now < end:
            for attempt in [
                ended_attempt
                for ended_attempt in self.live
                if ended_attempt.expected_end <= self.now
            ]:
                self.live.remove(attempt)
                self.pool.give(attempt, self.now)
            for assignment in self.pool.plan(self.now, 10_000).assignments:
                expected = self._tasks[assignment.task_id].expected_seconds or 0.0
                attempt = running(assignment, ALICE, self.now + expected)
                self.live.append(attempt)
                self.pool.put_running(attempt, self.now)
                self.starts.setdefault(assignment.task_id, self.now)
            self.now += step


def stream(clock: Clock, seconds: float, interval: float, takes: float, cores: int = 1) -> None:
    """Small tasks, one after the other, enough of them to keep all devices busy for ever."""
    end = clock.now + seconds
    number = 0
    while clock.now < end:
        number += 1
        name = f"s{clock.now:.0f}-{number}"
        clock.submit(task(name, submitted_at=clock.now, expected_seconds=takes, cores=cores))
        clock.run(interval)


@pytest.mark.parametrize("order", ORDERS)
def test_a_large_task_is_not_overtaken_for_ever(order: str) -> None:
    """Four devices, a stream of small tasks that would keep all of them busy, and one for all."""
    clock = Clock(order, 4)
    stream(clock, 200.0, interval=10.0, takes=50.0)
    clock.submit(task("large", device_count=4, submitted_at=clock.now, expected_seconds=100.0))
    submitted = clock.now
    stream(clock, 2 * PROMISE, interval=10.0, takes=50.0)
    assert "large" in clock.starts
    assert clock.starts[TaskId("large")] - submitted <= PROMISE + 60.0


@pytest.mark.parametrize("order", ["fair", "shortest"])
def test_a_task_for_all_cores_is_not_overtaken_by_gpu_tasks(order: str) -> None:
    clock = Clock(order, 4)
    stream(clock, 200.0, interval=10.0, takes=50.0, cores=16)
    cores = builders.task(
        "cores",
        device_kind=DeviceKind.CPU,
        cores=64,
        submitted_at=clock.now,
        expected_seconds=100.0,
    )
    clock.submit(cores)
    submitted = clock.now
    stream(clock, 1.5 * PROMISE, interval=10.0, takes=50.0, cores=16)
    assert clock.starts[TaskId("cores")] - submitted <= PROMISE + 60.0


def test_reserved_gpus_leave_the_cores_to_others() -> None:
    clock = Clock("fcfs", 2)
    clock.submit(task("busy", submitted_at=clock.now, expected_seconds=500.0))
    clock.run(10.0)
    clock.submit(task("both", device_count=2, submitted_at=clock.now - 200))
    clock.run(20.0)
    kind = DeviceKind.CPU
    clock.submit(builders.task("cpu", device_kind=kind, expected_seconds=5000.0, cores=8))
    clock.run(20.0)
    assert set(clock.starts) == {"busy", "cpu"}


@pytest.mark.parametrize("order", ["fcfs", "fair", "priority", "shortest"])
def test_an_unplaceable_task_takes_no_reservation(order: str) -> None:
    """More of them than are laid out at a time, older and with a higher priority."""
    clock = Clock(order, 4)
    settings = ReserveSettings(100.0, PROMISE, 1.0, most=16)
    clock.pool = scheduler(order, reserve=settings)
    clock.pool.put_node(with_cpu(node_with("n0", 4)))
    for number, account_id in product(range(20), (ALICE, BOB)):
        name = f"never{number}{account_id}"
        unplaceable = {
            "account_id": account_id,
            "device_model": "H100",
            "disk_bytes": 2**20 + number,
        }
        clock.submit(task(name, priority=9, submitted_at=clock.now - 600, **unplaceable))
    stream(clock, 200.0, interval=10.0, takes=50.0)
    clock.submit(task("large", device_count=4, submitted_at=clock.now, expected_seconds=100.0))
    submitted = clock.now
    stream(clock, 1.5 * PROMISE, interval=10.0, takes=50.0)
    assert clock.starts[TaskId("large")] - submitted <= PROMISE + 60.0


def test_one_account_does_not_get_all_reservations() -> None:
    """Its tasks go before, and there are more of them than places."""
    clock = Clock("priority", 4, 4)
    clock.submit(
        *(task(f"busy{number}", submitted_at=NOW, expected_seconds=300.0) for number in range(8))
    )
    clock.run(10.0)
    for number in range(20):
        requirements = {"device_count": 4, "cores": 1 + number, "priority": 9}
        clock.submit(
            task(f"a{number}", submitted_at=NOW - 200, expected_seconds=1e6, **requirements)
        )
    clock.submit(task("b", device_count=4, account_id=BOB, submitted_at=NOW - 150))
    clock.run(20.0)
    explanation = clock.pool.explain(TaskId("b"), clock.now)
    assert explanation is not None and explanation.forecast is not None
    assert "reserved for it" in explanation.forecast.basis


def test_a_node_that_failed_the_task_is_not_reserved_for_it() -> None:
    """The node that failed it is free sooner, and is not let stand idle."""
    clock = Clock("fair")
    for name, takes in (("n1", 500.0), ("n0", 100.0)):
        clock.pool.put_node(with_cpu(node_with(name, 2)))
        clock.submit(task(f"{name}-a", expected_seconds=takes, submitted_at=NOW))
        clock.submit(task(f"{name}-b", expected_seconds=takes, submitted_at=NOW))
        clock.run(10.0)
    large = {"device_count": 2, "failed_on": frozenset({NodeId("n0")})}
    clock.submit(task("large", submitted_at=NOW - 200, expected_seconds=100.0, **large))
    clock.run(20.0)
    clock.submit(task("long", submitted_at=clock.now, expected_seconds=5000.0))
    clock.run(500.0)
    assert clock.starts[TaskId("long")] <= NOW + 150.0
    assert clock.starts[TaskId("large")] <= NOW + 520.0


def test_without_reservations_it_would_be() -> None:
    """The same stream, and nobody is laid out: the large one never finds four free devices."""
    settings = ReserveSettings(after_seconds=1e9, promise_seconds=1e9)
    clock = Clock("fcfs", 4)
    clock.pool = scheduler("fcfs", reserve=settings)
    clock.pool.put_node(with_cpu(node_with("n0", 4)))
    stream(clock, 200.0, interval=10.0, takes=50.0)
    clock.submit(task("large", device_count=4, submitted_at=clock.now, expected_seconds=100.0))
    stream(clock, 2 * PROMISE, interval=10.0, takes=50.0)
    assert "large" not in clock.starts


def test_a_task_that_ends_before_the_reservation_goes_first() -> None:
    """Two devices, one of them busy for 500 s: who wants both gets them then, and no later."""
    clock = Clock("fcfs", 2)
    clock.submit(task("busy", submitted_at=clock.now, expected_seconds=500.0))
    clock.run(10.0)
    both = task("both", device_count=2, submitted_at=clock.now - 200, expected_seconds=10.0)
    clock.submit(both)
    clock.run(20.0)
    clock.submit(
        task("long", cores=2, submitted_at=clock.now, expected_seconds=5000.0),
        task("short", cores=3, submitted_at=clock.now, expected_seconds=100.0),
    )
    clock.run(20.0)
    assert set(clock.starts) == {"busy", "short"}
    clock.run(480.0)
    assert clock.starts[TaskId("both")] <= NOW + 510.0
    assert clock.starts[TaskId("long")] > clock.starts[TaskId("both")]


def test_a_task_that_waits_for_reserved_devices_gets_that_reason() -> None:
    clock = Clock("fcfs", 2)
    clock.submit(task("busy", submitted_at=clock.now, expected_seconds=500.0))
    clock.run(10.0)
    clock.submit(task("both", device_count=2, submitted_at=clock.now - 200))
    clock.run(20.0)
    clock.submit(task("long", cores=2, submitted_at=clock.now, expected_seconds=5000.0))
    waiting_groups = clock.pool.plan(clock.now, 100).waiting.values()
    assert [(group.example.id, group.reason.code) for group in waiting_groups] == [("long", "kept")]


def test_a_short_task_uses_a_reserved_device_before_a_long_one() -> None:
    """What is kept from the long one may serve the short one until then."""
    clock = Clock("fcfs", 2)
    clock.submit(task("busy", submitted_at=clock.now, expected_seconds=500.0))
    clock.run(10.0)
    clock.submit(task("both", device_count=2, submitted_at=clock.now - 200))
    clock.run(20.0)
    clock.submit(
        task("long", submitted_at=clock.now, expected_seconds=5000.0),
        task("short", submitted_at=clock.now + 1, expected_seconds=50.0),
    )
    clock.run(20.0)
    assert set(clock.starts) == {"busy", "short"}


def test_a_promise_lets_shorter_ones_go_first_for_as_long_as_is_safe() -> None:
    """One device: the long one waits while there are shorter ones, and starts as promised."""
    clock = Clock("shortest", 1)
    clock.submit(task("long", submitted_at=clock.now, expected_seconds=2000.0))
    first = clock.now
    clock.submit(task("s0", submitted_at=clock.now, expected_seconds=30.0))
    stream(clock, 1.2 * PROMISE, interval=20.0, takes=30.0)
    waited = clock.starts[TaskId("long")] - first
    assert 0.7 * PROMISE <= waited <= PROMISE


def test_an_account_at_its_quota_reserves_nothing() -> None:
    clock = Clock("shortest", 2)
    clock.pool.put_account(AccountShare(ALICE, most_running_milli=1000))
    clock.submit(
        task("a1", submitted_at=NOW, expected_seconds=5000.0),
        task("a2", submitted_at=NOW, expected_seconds=5000.0),
    )
    clock.run(0.9 * PROMISE)
    clock.submit(task("b1", account_id=BOB, submitted_at=clock.now, expected_seconds=9000.0))
    clock.run(20.0)
    assert set(clock.starts) == {"a1", "b1"}


def test_a_gang_gets_its_nodes_together() -> None:
    clock = Clock("shortest", 2, 2, 2)
    for number in range(6):
        clock.submit(task(f"s{number}", submitted_at=NOW, expected_seconds=100.0 + 90 * number))
    clock.run(10.0)
    gang = task("gang", nodes=2, device_count=2, submitted_at=NOW, expected_seconds=5000.0)
    clock.submit(gang)
    stream(clock, 1.2 * PROMISE, interval=25.0, takes=60.0)
    assert clock.starts[TaskId("gang")] - NOW <= PROMISE


def test_a_wrong_estimate_is_not_believed_for_ever() -> None:
    """What should be over and is not gets more time, so that what is kept is kept for later."""
    clock = Clock("fcfs", 1)
    clock.submit(task("busy", submitted_at=clock.now, expected_seconds=50.0))
    clock.run(10.0)
    attempt = clock.live.pop()
    clock.submit(task("next", submitted_at=clock.now - 200, expected_seconds=10.0))
    clock.run(300.0)
    explanation = clock.pool.explain(TaskId("next"), clock.now)
    assert explanation is not None and explanation.forecast is not None
    assert explanation.forecast.start > clock.now
    clock.pool.give(attempt, clock.now)
    clock.run(20.0)
    assert "next" in clock.starts


def test_a_task_behind_a_reserved_start_gets_its_reason() -> None:
    clock = Clock("shortest", 1)
    clock.submit(task("busy", submitted_at=clock.now, expected_seconds=0.9 * PROMISE))
    clock.run(10.0)
    clock.submit(task("old", submitted_at=NOW, expected_seconds=500.0))
    clock.run(PROMISE)
    assert "old" in clock.starts
    clock.submit(task("new", submitted_at=clock.now, expected_seconds=500.0))
    waiting_groups = clock.pool.plan(clock.now, 10).waiting.values()
    assert [group.example.id for group in waiting_groups] == ["new"]


def test_a_range_that_would_run_into_a_reservation_is_not_assigned() -> None:
    """One item would be over in time; a range of them would not."""
    clock = Clock("fcfs", 2)
    clock.submit(task("busy", submitted_at=clock.now, expected_seconds=24.0))
    clock.run(10.0)
    clock.submit(task("both", device_count=2, submitted_at=clock.now - 200))
    clock.run(10.0)  # the other device is free for some 4 s
    items = (ItemRange(0, 1000),)
    clock.submit(task("array", pending=items, submitted_at=clock.now, expected_seconds=0.5))
    assert [assignment.task_id for assignment in clock.pool.plan(clock.now, 100).assignments] == []
    clock.submit(task("item", submitted_at=clock.now + 1, expected_seconds=0.5))
    assert [assignment.task_id for assignment in clock.pool.plan(clock.now, 100).assignments] == [
        "item"
    ]


def test_an_assignment_says_how_long_all_of_its_items_will_take() -> None:
    pool = scheduler()
    pool.put_node(node_with("n1", 1))
    items = (ItemRange(0, 1000),)
    pool.put_task(task("array", pending=items, run_seconds=3600.0, expected_seconds=0.5))
    (array,) = pool.plan(NOW, 10).assignments
    assert array.items is not None and len(array.items) > 1
    assert array.expected_seconds == 0.5 * len(array.items)
    pool.put_node(node_with("n2", 1))
    pool.put_task(task("single", account_id=BOB, run_seconds=60.0))
    (single,) = pool.plan(NOW, 10).assignments
    assert single.expected_seconds == 60.0
