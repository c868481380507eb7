"""Counts what happened to tasks, attempts and nodes, from committed events.

The leader counts an event when it announces it, so nothing is counted that was rolled back. What a
leader announced in the last second before it was killed is counted again by the next one.
"""

from collections import OrderedDict
from collections.abc import Iterable

from potluck.local.metrics.registry import MetricRegistry
from potluck.model.event import EventKind
from potluck.model.ids import TaskId
from potluck.model.task import EndReason, TaskState
from potluck.server.metrics import definitions as names
from potluck.store.events.outbox import PlacedEvent

# Tasks that were assigned and have not started. More than this are not all measured.
_MOST_STARTING = 100_000


class WorkMetrics:
    def __init__(self, registry: MetricRegistry) -> None:
        queued = registry.counter(names.TASKS_QUEUED)
        self._submitted, self._retried = map(queued.labels, ("submitted", "retried"))
        finished = registry.counter(names.TASKS_FINISHED)
        self._finished = {
            state.value: finished.labels(state) for state in TaskState if state.is_final
        }
        ended = registry.counter(names.ATTEMPTS_ENDED)
        self._ended = {reason.value: ended.labels(reason) for reason in EndReason}
        self._started = registry.counter(names.ATTEMPTS_STARTED)
        self._silenced = registry.counter(names.NODES_LOST)
        self._start_seconds = registry.histogram(names.TASK_START)
        # Tasks that were assigned without having waited, in order.
        self._starting: OrderedDict[TaskId, None] = OrderedDict()

    def expect_starts(self, task_ids: Iterable[TaskId]) -> None:
        """These tasks never had to wait for capacity, credit or a quota, and are assigned now."""
        self._starting.update(dict.fromkeys(task_ids))
        while len(self._starting) > _MOST_STARTING:
            self._starting.popitem(last=False)

    def drop_expected(self, task_ids: Iterable[TaskId]) -> None:
        """They could not be assigned."""
        for task_id in task_ids:
            self._starting.pop(task_id, None)

    def count(self, placed: Iterable[PlacedEvent]) -> None:
        for item in placed:
            match item.event.kind:
                case EventKind.TASK_QUEUED:
                    (self._retried if item.is_of_attempt else self._submitted).inc()
                case EventKind.TASK_RUNNING:
                    self._observe_start(item)
                case EventKind.TASK_FINISHED:
                    self._finish(item)
                case EventKind.ATTEMPT_RUNNING:
                    self._started.inc()
                case EventKind.ATTEMPT_ENDED if item.reason in self._ended:
                    self._ended[item.reason].inc()
                case EventKind.NODE_SILENT:
                    self._silenced.inc()

    def _observe_start(self, item: PlacedEvent) -> None:
        if self._is_expected(item) and item.start_seconds is not None:
            self._start_seconds.observe(max(0.0, item.start_seconds))

    def _finish(self, item: PlacedEvent) -> None:
        self._is_expected(item)
        if item.state in self._finished:
            self._finished[item.state].inc()

    def _is_expected(self, item: PlacedEvent) -> bool:
        """Whether the task's start is to be measured; from now on it is not."""
        task_id = item.event.task_id
        if task_id is None or task_id not in self._starting:
            return False
        del self._starting[task_id]
        return True
