"""Thousands of lines that ask for the same: nobody is passed over, and few are looked at."""

from random import Random

import pytest
from msgspec.structs import replace

from potluck.decide.queue.task_groups import BlockReason
from potluck.decide.scheduler import Scheduler, SchedulerPlan
from potluck.decide.types import AccountShare, Assignment, FreeNode, RunningAttempt, WaitingTask
from potluck.model.ids import AccountId, AttemptId, NodeId, TaskId
from potluck.model.task import ItemRange
from tests.decide.builders import ALICE, BOB, gpu, task
from tests.decide.schedulers import NOW, node_with, running, scheduler


def array(name: str, items: int = 10, **changes: object) -> WaitingTask:
    """Each stands in a line of its own."""
    return task(name, pending=(ItemRange(0, items),), **changes)


def planned(pool: Scheduler, now: float = NOW) -> list[SchedulerPlan]:
    """Round by round until there is nothing more to decide, nor to tell."""
    plans = [pool.plan(now, 1000)]
    while not (plans[-1].is_complete and plans[-1].has_all_reasons):
        plans.append(pool.plan(now, 1000))
    return plans


def test_room_for_one_has_few_of_many_lines_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = scheduler()
    pool.put_node(node_with("n1", 1, free_cores=0))
    for number in range(3000):
        pool.put_task(array(f"t{number:04}", submitted_at=float(number)))
    planned(pool)
    lookups = 0
    find = pool._ready.take

    def counted(account_id: AccountId) -> object:
        nonlocal lookups
        lookups += 1
        return find(account_id)

    monkeypatch.setattr(pool._ready, "take", counted)
    pool.put_node(node_with("n1", 1))
    (plan,) = planned(pool, NOW + 1)
    assert [assignment.task_id for assignment in plan.assignments] == ["t0000"]
    assert lookups <= 3


def test_lines_behind_the_first_are_served_in_their_order() -> None:
    """Also one that got an older head while it stood behind."""
    pool = scheduler()
    pool.put_node(node_with("n1", 3, free_cores=0))
    pool.put_task(task("young", submitted_at=9.0, priority=1))
    for number in range(5):
        pool.put_task(array(f"t{number}", 1, submitted_at=float(number), priority=1))
    pool.put_task(task("other", submitted_at=8.0, device_memory_bytes=1))
    planned(pool)
    pool.put_task(task("old", submitted_at=0.5, priority=1))
    pool.put_node(node_with("n1", 3))
    assert [assignment.task_id for assignment in pool.plan(NOW, 10).assignments] == [
        "t0",
        "old",
        "t1",
    ]


def test_when_the_first_goes_away_the_next_has_its_turn() -> None:
    pool = scheduler()
    pool.put_node(node_with("n1", 2, free_cores=0))
    for number in range(4):
        pool.put_task(array(f"t{number}", 1, submitted_at=float(number)))
    planned(pool)
    pool.put_node(node_with("n1", 2))
    assert [assignment.task_id for assignment in pool.plan(NOW, 1).assignments] == ["t0"]
    pool.drop_task(TaskId("t1"))
    assert [assignment.task_id for assignment in pool.plan(NOW, 1).assignments] == ["t2"]


def test_when_the_first_can_not_pay_the_next_has_its_turn() -> None:
    pool = scheduler()
    pool.put_account(AccountShare(ALICE, available_micro=100))
    priced = (gpu("n1-g0", price_micro_per_hour=100),)
    pool.put_node(replace(node_with("n1", 1, free_cores=0), devices=priced))
    pool.put_task(array("long", 1, submitted_at=0.0, run_seconds=7200.0))
    pool.put_task(array("short", 1, submitted_at=1.0, run_seconds=3600.0))
    planned(pool)
    pool.put_node(replace(node_with("n1", 1), devices=priced))
    assert [assignment.task_id for assignment in pool.plan(NOW, 10).assignments] == ["short"]


def test_lines_that_came_and_went_are_forgotten() -> None:
    pool = scheduler()
    pool.put_task(array("first", submitted_at=0.0))
    for number in range(1000):
        pool.put_task(array(f"t{number}", submitted_at=1.0 + number))
        pool.plan(NOW + number, 10)
        pool.drop_task(TaskId(f"t{number}"))
    (heaps,) = pool._blocked._heaps.values()
    assert sum(map(len, heaps.values())) < 100


ACCOUNTS = [ALICE, BOB, AccountId("account_c")]


class History:
    """Tasks, nodes and ends, as they come, until nothing more can be decided."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.pool = scheduler(self.chance.choice(["fair", "fcfs", "shortest", "priority"]))
        self.now = NOW
        self.whose: dict[TaskId, AccountId] = {}
        self.live: list[RunningAttempt] = []
        self.nodes: dict[NodeId, FreeNode] = {}
        self.given: list[tuple[str, str]] = []
        for _ in range(4):
            self.node_comes()

    def step(self) -> None:
        self.now += 3 * self.chance.random()
        steps = [self.task_comes] * 5 + [self.attempt_ends] * 3
        steps += [self.node_comes, self.node_goes, self.span_moves, self.task_goes]
        self.chance.choice(steps)()
        while not self.plan(self.chance.choice([1, 5, 50])):
            pass

    def plan(self, limit: int) -> bool:
        plan = self.pool.plan(self.now, limit)
        for assignment in plan.assignments:
            self.given.append((assignment.task_id, assignment.node_id))
            self.start(assignment)
        return plan.is_complete

    def start(self, assignment: Assignment) -> None:
        attempt = running(assignment, self.whose[assignment.task_id], self.now + 5)
        name = AttemptId(f"{attempt.id} {len(self.given)}")
        self.live.append(replace(attempt, id=name))
        self.pool.put_running(self.live[-1], self.now)

    def task_comes(self) -> None:
        rng = self.chance
        part = rng.choice([None, None, None, 300, 500])
        waiting_task = task(
            f"t{len(self.whose):03}",
            account_id=rng.choice(ACCOUNTS),
            submitted_at=self.now,
            device_count=1 if part else rng.choice([1, 1, 2]),
            device_milli=part,
            expected_seconds=rng.choice([None, 1.0, 5.0, 100.0]),
            priority=rng.choice([0, 0, 1]),
            min_reliability=rng.choice([None, None, 0.9]),
            failed_on=frozenset(rng.choice([(), (), (NodeId("n1"),)])),
            pending=rng.choice([(), (ItemRange(0, rng.randint(1, 30)),)]),
        )
        self.whose[waiting_task.id] = waiting_task.account_id
        self.pool.put_task(waiting_task)

    def attempt_ends(self) -> None:
        if self.live:
            ended_attempt = self.live.pop(self.chance.randrange(len(self.live)))
            self.pool.give(ended_attempt, self.now)

    def node_comes(self) -> None:
        rng = self.chance
        name = NodeId(f"n{len(self.nodes)}")
        self.nodes[name] = node_with(
            name,
            rng.choice([1, 2]),
            account_id=rng.choice(ACCOUNTS),
            own_tasks_only=rng.random() < 0.15,
            reliability=rng.choice([0.5, 1.0]),
        )
        self.pool.put_node(self.nodes[name])

    def node_goes(self) -> None:
        node_id = self.chance.choice(list(self.nodes))
        self.pool.drop_node(node_id)
        for attempt in [attempt for attempt in self.live if attempt.node_id == node_id]:
            self.live.remove(attempt)
            self.pool.drop_running(attempt.id, self.now)

    def span_moves(self) -> None:
        if waiting := self.pool.task_ids():
            waiting_task = self.pool.task(self.chance.choice(waiting))
            assert waiting_task is not None
            seconds = self.chance.choice([0.1, 1.0, 10.0, 1000.0])
            self.pool.put_task(replace(waiting_task, expected_seconds=seconds))

    def task_goes(self) -> None:
        if waiting := self.pool.task_ids():
            self.pool.drop_task(self.chance.choice(waiting))


@pytest.mark.parametrize("seed", range(40))
def test_no_task_waits_while_a_device_fits_it(seed: int) -> None:
    history = History(seed)
    pool = history.pool
    for _ in range(60):
        history.step()
        for task_id in pool.task_ids():
            waiting = pool.task(task_id)
            assert waiting is not None
            line = pool._groups.group_of(waiting)
            assert line is not None and line.block_reason is not BlockReason.NONE
            assert (
                line.block_reason is not BlockReason.NO_CAPACITY
                or pool._capacity.find(waiting) is None
            )
