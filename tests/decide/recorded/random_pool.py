"""A random history of a pool, with every kind of change that a scheduler is told of.

The same seed gives the same history to every scheduler that decides the same.
"""

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from potluck.decide.arrays.node_speed import ArrayProgress
from potluck.decide.order import ORDERS
from potluck.decide.placement import PLACEMENTS
from potluck.decide.reservations.reserve import ReserveSettings
from potluck.decide.scheduler import Scheduler
from potluck.decide.types import Assignment, FreeNode, RunningAttempt, WaitingTask
from potluck.model.ids import AttemptId, NodeId, TaskId
from tests.decide.recorded.random_parts import ACCOUNTS, RandomParts
from tests.decide.recorded.recorder import Recorder


class RandomPool:
    def __init__(self, seed: int, order: str, placement: str, nodes: int) -> None:
        self._chance = rng = Random(seed)
        self._parts = RandomParts(rng)
        reserve = ReserveSettings(
            after_seconds=rng.choice([30.0, 600.0]),
            promise_seconds=rng.choice([600.0, 4 * 3600.0]),
            every_seconds=rng.choice([5.0, 60.0]),
            most=rng.choice([8, 400]),
        )
        self._scheduler = Scheduler(ORDERS[order](), PLACEMENTS[placement](), reserve)
        self._now = 1_900_000_000.0
        self._numbers = 0
        self._nodes: dict[NodeId, FreeNode] = {}
        self._running: dict[AttemptId, RunningAttempt] = {}
        self._waiting: dict[TaskId, WaitingTask] = {}
        for account_id in ACCOUNTS:
            self._scheduler.put_account(self._parts.account(account_id))
        for _ in range(nodes):
            self._add_node()

    def run(self, steps: int, recorder: Recorder) -> None:
        """The plans are noted by whoever watches the scheduler."""
        weights: dict[Callable[[], object], int] = {
            self._add_tasks: 30,
            self._plan: 40,
            self._end_some: 20,
            self._pass_time: 12,
            self._drop_task: 4,
            self._change_task: 4,
            self._add_node: 3,
            self._drop_node: 2,
            self._read_node: 6,
            self._read_account: 5,
            self._observe: 3,
            lambda: recorder.note(self._ask()): 6,
        }
        for step in self._chance.choices(list(weights), list(weights.values()), k=steps):
            step()
        depth = self._scheduler.queue_depth()
        recorder.note(list(depth.items()), self._scheduler.waiting_count)

    def _number(self, kind: str) -> str:
        self._numbers += 1
        return f"{kind}_{self._numbers:06}"

    def _add_tasks(self) -> None:
        for _ in range(self._chance.choice([1, 3, 12, 40])):
            self._put(self._parts.task(self._number("task"), self._now, list(self._nodes)))

    def _put(self, task: WaitingTask) -> None:
        self._waiting[task.id] = task
        self._scheduler.put_task(task)

    def _plan(self) -> None:
        rng = self._chance
        self._now += rng.choice([0.0, 0.1])
        checks = rng.choice([None, None, 1, 5])
        ends = (lambda: False) if checks is None else time_for(checks)
        before = dict(self._waiting)
        plan = self._scheduler.plan(self._now, rng.choice([1, 7, 500]), ends)
        given_up = []
        for assignment in plan.assignments:
            task = before[assignment.task_id]
            remaining_task = self._scheduler.task(task.id)
            self._waiting.pop(task.id, None)
            if remaining_task is not None:
                self._waiting[task.id] = remaining_task
            if rng.random() < 0.06:
                given_up.append((assignment, task))
            else:
                self._start(assignment, task)
        for assignment, task in given_up:
            self._scheduler.refused(assignment, self._now)
            if rng.random() < 0.5:  # its end is reported before the attempt was read
                unread = assignment.running(AttemptId("unread"), task.account_id, self._now)
                self._scheduler.give(unread, self._now)
            else:
                self._put(replace(task))  # read again
        for assignment, _ in given_up:
            self._scheduler.put_node(self._as_it_is(assignment.node_id))

    def _start(self, assignment: Assignment, task: WaitingTask) -> None:
        seconds = assignment.expected_seconds * self._chance.choice([1.0, 1.0, 0.3])
        attempt_id = AttemptId(self._number("attempt"))
        attempt = assignment.running(attempt_id, task.account_id, self._now + seconds)
        self._running[attempt_id] = attempt
        self._scheduler.put_running(attempt, self._now)

    def _as_it_is(self, node_id: NodeId) -> FreeNode:
        """The node as the database has it: without what was only planned."""
        node = self._nodes[node_id]
        free = {device.id: device for device in node.devices}
        cores, memory, disk = node.free_cores, node.free_memory_bytes, node.free_disk_bytes
        for attempt in self._running.values():
            if attempt.node_id != node_id:
                continue
            cores -= attempt.cores
            memory -= attempt.memory_bytes
            disk -= attempt.disk_bytes
            for share in attempt.shares:
                device = free[share.device_id]
                free[share.device_id] = replace(
                    device,
                    free_milli=device.free_milli - share.milli,
                    free_memory_bytes=device.free_memory_bytes - share.memory_bytes,
                    serves=attempt.account_id if device.serves is None else device.serves,
                )
        return replace(
            node,
            free_cores=cores,
            free_memory_bytes=memory,
            free_disk_bytes=disk,
            devices=tuple(free.values()),
        )

    def _end_some(self) -> None:
        for _ in range(self._chance.choice([1, 2, 10])):
            if self._running:
                attempt = self._running.pop(self._chance.choice(list(self._running)))
                if attempt.node_id in self._nodes:
                    self._scheduler.give(attempt, self._now)
                else:
                    self._scheduler.drop_running(attempt.id, self._now)

    def _pass_time(self) -> None:
        self._now += self._chance.choice([1.0, 7.0, 61.0, 61.0, 700.0, -0.5])

    def _drop_task(self) -> None:
        if self._waiting:
            task_id = self._chance.choice(list(self._waiting))
            del self._waiting[task_id]
            self._scheduler.drop_task(task_id)

    def _change_task(self) -> None:
        if self._waiting:
            task = self._waiting[self._chance.choice(list(self._waiting))]
            failed = frozenset(self._chance.sample(list(self._nodes), k=min(1, len(self._nodes))))
            priority = self._chance.choice([task.priority, 3])
            self._put(replace(task, failed_on=task.failed_on | failed, priority=priority))

    def _add_node(self) -> None:
        node = self._parts.node(self._number("node"))
        self._nodes[node.id] = node
        self._scheduler.put_node(node)

    def _drop_node(self) -> None:
        if len(self._nodes) > 2:
            node_id = self._chance.choice(list(self._nodes))
            del self._nodes[node_id]
            self._scheduler.drop_node(node_id)

    def _read_node(self) -> None:
        """Read again: as it is, or its owner has changed something."""
        if self._nodes:
            node_id = self._chance.choice(list(self._nodes))
            node = self._nodes[node_id]
            if self._chance.random() < 0.3:
                node = replace(node, is_cordoned=not node.is_cordoned and not self._parts.is_plain)
            elif self._chance.random() < 0.3:
                node = replace(node, reliability=self._chance.choice([1.0, 0.996, 0.7]))
            self._nodes[node_id] = node
            self._scheduler.put_node(self._as_it_is(node_id))

    def _read_account(self) -> None:
        account_id = self._chance.choice(ACCOUNTS)
        self._scheduler.put_account(self._parts.account(account_id))
        if self._chance.random() < 0.2:
            self._scheduler.recall(account_id, self._chance.choice([1e4, 1e7]), self._now)

    def _observe(self) -> None:
        arrays = [task for task in self._waiting.values() if task.pending]
        if arrays and self._nodes:
            node_ids = self._chance.sample(list(self._nodes), k=min(3, len(self._nodes)))
            progress = {
                node_id: ArrayProgress(self._chance.choice([0.1, 5.0, 300.0]), in_vain=0)
                for node_id in node_ids
            }
            self._scheduler.observed(self._chance.choice(arrays).id, progress)

    def _ask(self) -> list[object]:
        """What it says of a task, of a node, and of a task that was not submitted."""
        answers: list[object] = []
        if self._waiting:
            task_id = self._chance.choice(list(self._waiting))
            answers.append(self._scheduler.explain(task_id, self._now))
        if self._nodes:
            node_id = self._chance.choice(list(self._nodes))
            answers.append(self._scheduler.explain_node(node_id))
        task = self._parts.task("asked", self._now, list(self._nodes))
        answers.append(self._scheduler.estimate(task, self._now))
        return answers


def time_for(checks: int) -> Callable[[], bool]:
    """True from the given look on."""
    remaining_checks = iter(range(checks))
    return lambda: next(remaining_checks, None) is None
