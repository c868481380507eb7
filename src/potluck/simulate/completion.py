"""Replays a trace of jobs through the scheduler in virtual time, and measures completion times.

All nodes have the same number of GPUs. A job that needs more than one node has takes whole nodes at
the same time. The decisions are those of the server: `decide/scheduler.py` plans after each arrival
and end.
"""

import heapq
import random
from math import exp

from msgspec import Struct

from potluck.decide.order.interface import OrderPolicy
from potluck.decide.placement.interface import Placement
from potluck.decide.reservations.reserve import ReserveSettings
from potluck.decide.scheduler import Scheduler
from potluck.decide.types import Assignment, FreeDevice, FreeNode, RunningAttempt, WaitingTask
from potluck.model.device import WHOLE_DEVICE_MILLI, DeviceKind
from potluck.model.error import InvalidInput
from potluck.model.ids import AccountId, AttemptId, DeviceId, NodeId, TaskId
from potluck.model.task import GIB, Limits, Requirements
from potluck.simulate.trace import TraceJob

_NO_LIMIT = Limits(run_seconds=1e12)
_ALL_AT_ONCE = 10**9
_MUCH_BYTES = 2**50


class SimulatedCluster(Struct, frozen=True):
    gpus: int
    gpus_per_node: int


class TraceOutcome(Struct, frozen=True):
    jobs: int
    mean_completion_s: float
    longest_wait_h: float
    mean_wait_s: float
    rounds: int


class Replay:
    """One trace, one policy, from the first job's arrival to the last one's end."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        order: OrderPolicy,
        placement: Placement,
        reserve: ReserveSettings | None = None,
    ) -> None:
        self._cluster = cluster
        self._scheduler = Scheduler(order, placement, reserve, reason_seconds=float("inf"))
        self._requirements: dict[int, Requirements] = {}
        self._jobs: dict[TaskId, tuple[TraceJob, float]] = {}  # with the expected seconds
        self._starts: dict[TaskId, float] = {}
        self._ends: list[tuple[float, int, RunningAttempt]] = []
        self._attempts = 0
        self._rounds = 0
        for number in range(cluster.gpus // cluster.gpus_per_node):
            self._scheduler.put_node(_node(number, cluster.gpus_per_node))

    def run(self, jobs: list[TraceJob], spread: float = 0.0, seed: int = 0) -> TraceOutcome:
        """With a spread, owners' estimates are wrong by a factor e^N(0, spread)."""
        chance = random.Random(seed)
        coming = iter(jobs)
        following = next(coming, None)
        while following is not None or self._ends:
            now = min(
                following.submitted_at if following else float("inf"),
                self._ends[0][0] if self._ends else float("inf"),
            )
            while self._ends and self._ends[0][0] <= now:
                self._scheduler.give(heapq.heappop(self._ends)[2], now)
            while following is not None and following.submitted_at <= now:
                self._submit(following, exp(chance.gauss(0, spread)) if spread else 1.0)
                following = next(coming, None)
            self._plan(now)
        return self._outcome(jobs)

    def _submit(self, job: TraceJob, factor: float) -> None:
        per_node = self._cluster.gpus_per_node
        nodes = -(-job.gpus // per_node)
        if nodes * per_node > self._cluster.gpus:
            raise InvalidInput(
                f"A job needs {job.gpus} GPUs, but the cluster has {self._cluster.gpus}.",
                "Simulate more GPUs, or remove the job from the trace.",
            )
        task_id = TaskId(f"task_{len(self._jobs):08}")
        self._jobs[task_id] = (job, job.seconds * factor)
        count = min(job.gpus, per_node)
        wanted = self._requirements.setdefault(
            count, Requirements(device_kind=DeviceKind.GPU, device_count=count)
        )
        self._scheduler.put_task(
            WaitingTask(
                id=task_id,
                account_id=AccountId(job.account),
                requirements=wanted,
                limits=_NO_LIMIT,
                priority=0,
                submitted_at=job.submitted_at,
                expected_seconds=job.seconds * factor,
                nodes=nodes,
            )
        )

    def _plan(self, now: float) -> None:
        is_complete = False
        while not is_complete:
            plan = self._scheduler.plan(now, _ALL_AT_ONCE)
            self._rounds += 1
            is_complete = plan.is_complete
            for assignment in plan.assignments:
                self._start(assignment, now)

    def _start(self, assignment: Assignment, now: float) -> None:
        job, expected_seconds = self._jobs[assignment.task_id]
        self._attempts += 1
        attempt = assignment.running(
            AttemptId(f"attempt_{self._attempts:08}"),
            AccountId(job.account),
            now + expected_seconds,
        )
        self._scheduler.put_running(attempt, now)
        heapq.heappush(self._ends, (now + job.seconds, self._attempts, attempt))
        self._starts[assignment.task_id] = now

    def _outcome(self, jobs: list[TraceJob]) -> TraceOutcome:
        assert len(self._starts) == len(jobs), "every job was started"
        waits = [
            start - self._jobs[task_id][0].submitted_at for task_id, start in self._starts.items()
        ]
        mean_wait = sum(waits) / len(waits)
        return TraceOutcome(
            jobs=len(jobs),
            mean_completion_s=mean_wait + sum(job.seconds for job in jobs) / len(jobs),
            longest_wait_h=max(waits) / 3600,
            mean_wait_s=mean_wait,
            rounds=self._rounds,
        )


def _node(number: int, gpus: int) -> FreeNode:
    return FreeNode(
        id=NodeId(f"node_{number:06}"),
        account_id=AccountId("the provider"),
        own_tasks_only=False,
        cores=gpus,
        free_cores=gpus,
        free_memory_bytes=_MUCH_BYTES,
        free_disk_bytes=_MUCH_BYTES,
        memory_bytes=_MUCH_BYTES,
        disk_bytes=_MUCH_BYTES,
        devices=tuple(
            FreeDevice(
                id=DeviceId(f"device_{number:06}_{index}"),
                kind=DeviceKind.GPU,
                model="GPU",
                memory_bytes=16 * GIB,
                price_micro_per_hour=0,
                free_milli=WHOLE_DEVICE_MILLI,
                free_memory_bytes=16 * GIB,
            )
            for index in range(gpus)
        ),
    )
