"""Collects the results of all tasks that this process waits for.

Two threads poll. One waits for fresh tasks, so that short calls return quickly; tasks that take
longer move to the other, whose long polls are rarely disturbed. When a task is added, the running
poll is cut and sent again; when tasks are added too fast for that, polls become short instead.
"""

import threading
import time
from collections.abc import Callable
from itertools import islice
from typing import Protocol

from msgspec import Struct

from potluck.consumer.functions.cuttable_http import CuttableConnection
from potluck.consumer.http.transport import Transport, get_requested_pause
from potluck.model.error import BadSettings, InvalidInput, NotFound, PotluckError
from potluck.model.ids import TaskId
from potluck.wire import routes
from potluck.wire.codec import decode_packed, encode_json
from potluck.wire.response import not_potluck
from potluck.wire.results import MOST_TASKS, AskResults, Results, TaskResult, Wanted

_FRESH_SECONDS = 1.0  # after which a task moves to the steady poll
_POLL_SECONDS = 20.0
_SHORTEST_POLL_SECONDS = 0.005
# A task that was just submitted is not done yet; meanwhile more may arrive for the same poll.
_GATHER_SECONDS = 0.003
_ROUND_SECONDS = 0.2  # when there are more tasks than one poll may name
_TASKS_A_SECOND = 10_000  # the limit for tasks named in consecutive polls
_PATIENCE_SECONDS = 600.0  # without a server; tasks continue, and their results are kept
_KEEP_OPEN = "Get results while it is open. The task continues, and `potluck ps` shows it."


class ResultListener(Protocol):
    """Receives a task's results in order until it is final, or the error that ends the waiting."""

    def receive(self, result: TaskResult) -> None: ...

    def lost(self, error: PotluckError) -> None: ...


class _TaskWatch(Struct, eq=False):
    watcher: ResultListener
    since: float
    behind: int = 0
    cancelled: int = 0


class Collector:
    def __init__(self, transport: Transport):
        self._steady = _Poll(transport, "potluck-results", _POLL_SECONDS)
        self._fresh = _Poll(
            transport, "potluck-fresh-results", _FRESH_SECONDS, self._steady.take_over
        )

    def watch(self, task_id: TaskId, watcher: ResultListener) -> None:
        self._fresh.add(task_id, watcher)

    def forget(self, task_id: TaskId) -> None:
        self._fresh.forget(task_id)
        self._steady.forget(task_id)

    def close(self) -> None:
        self._fresh.close()
        self._steady.close()


class _Poll:
    """One thread that polls for the results of its tasks."""

    def __init__(
        self,
        transport: Transport,
        name: str,
        longest_seconds: float,
        pass_on: Callable[[dict[TaskId, _TaskWatch]], None] | None = None,
    ):
        self._line = CuttableConnection(transport)
        self._longest_seconds = min(longest_seconds, transport.patience.read_seconds * 2 / 3)
        self._pass_on = pass_on
        self._turn = threading.Condition()
        self._watched: dict[TaskId, _TaskWatch] = {}
        self._wait_seconds = self._longest_seconds
        self._is_asking = False
        self._came_meanwhile = False  # while the last poll was under way
        self._is_closed = False
        self._failing_since: float | None = None
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def add(self, task_id: TaskId, watcher: ResultListener) -> None:
        self.take_over({task_id: _TaskWatch(watcher, time.monotonic())})

    def take_over(self, watches: dict[TaskId, _TaskWatch]) -> None:
        with self._turn:
            self._watched |= watches
            self._came_meanwhile = self._is_asking
            if self._is_asking and self._wait_seconds > self._shortest_seconds():
                self._line.cut()
            self._turn.notify_all()
            is_closed = self._is_closed
        if is_closed:
            self._lose(_closed())

    def forget(self, task_id: TaskId) -> None:
        with self._turn:
            self._watched.pop(task_id, None)

    def close(self) -> None:
        with self._turn:
            self._is_closed = True
            self._line.cut()
            self._turn.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join(1.0)
        self._line.close()

    def _shortest_seconds(self) -> float:
        """Grows with the number of tasks that a poll names: repeating it costs more."""
        return _SHORTEST_POLL_SECONDS + min(len(self._watched), MOST_TASKS) / _TASKS_A_SECOND

    def _run(self) -> None:
        try:
            self._collect()
        finally:
            # Also after a bug in this thread: no caller may wait for ever.
            with self._turn:
                self._is_closed = True
            self._lose(_closed())

    def _collect(self) -> None:
        while (request := self._next()) is not None:
            try:
                for result in self._ask(request):
                    self._deliver(result)
                self._failing_since, self._failures = None, 0
            except NotFound:
                self._drop_unknown(request)
            except PotluckError as error:
                if not self._line.is_cut:
                    self._back_off(error)

    def _next(self) -> AskResults | None:
        """The next poll. Tasks that it names go to the end, so that each has its turn."""
        self._pass_old_on()
        with self._turn:
            self._is_asking = False
            while not (self._watched or self._is_closed):
                self._wait_seconds = self._longest_seconds
                self._turn.wait_for(lambda: self._watched or self._is_closed)
                self._turn.wait_for(lambda: self._is_closed, _GATHER_SECONDS)
            if self._is_closed:
                return None
            self._choose_wait()
            named = list(islice(self._watched.items(), MOST_TASKS))
            if len(self._watched) > MOST_TASKS:
                for task_id, watch in named:
                    del self._watched[task_id]
                    self._watched[task_id] = watch
            wanted = tuple(
                Wanted(task_id, watch.behind, watch.cancelled) for task_id, watch in named
            )
            self._line.open()
            self._is_asking = True
            return AskResults(wanted, self._wait_seconds)

    def _choose_wait(self) -> None:
        """Short while tasks are being added, then growing."""
        most = self._longest_seconds if len(self._watched) <= MOST_TASKS else _ROUND_SECONDS
        next_seconds = self._shortest_seconds() if self._came_meanwhile else 4 * self._wait_seconds
        self._wait_seconds = min(next_seconds, most)
        self._came_meanwhile = False

    def _pass_old_on(self) -> None:
        if self._pass_on is None:
            return
        with self._turn:
            before = time.monotonic() - _FRESH_SECONDS
            old = {id_: watch for id_, watch in self._watched.items() if watch.since < before}
            for task_id in old:
                del self._watched[task_id]
        if old:
            self._pass_on(old)

    def _ask(self, request: AskResults) -> list[TaskResult]:
        route = routes.ASK_RESULTS
        headers = {"Accept": "application/msgpack"}
        body = self._line.call(route.method, route.url(), encode_json(request), headers)
        try:
            return decode_packed(body, Results).results
        except InvalidInput as error:
            raise not_potluck(self._line.url, error.detail) from error

    def _deliver(self, result: TaskResult) -> None:
        is_over = result.state.is_final and not result.has_more
        with self._turn:
            watch = self._watched.get(result.task_id)
            if watch is None:
                return
            watch.behind = result.behind
            watch.cancelled = sum(map(len, result.cancelled))
            if is_over:
                del self._watched[result.task_id]
        watch.watcher.receive(result)

    def _drop_unknown(self, request: AskResults) -> None:
        """Finds the task that the server no longer knows by polling for each alone."""
        for wanted in request.tasks:
            try:
                for result in self._ask(AskResults((wanted,))):
                    self._deliver(result)
            except NotFound as unknown:
                with self._turn:
                    watch = self._watched.pop(wanted.task_id, None)
                if watch is not None:
                    watch.watcher.lost(unknown)
            except PotluckError:
                return

    def _back_off(self, error: PotluckError) -> None:
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        self._failures += 1
        if error.retryable and now - self._failing_since < _PATIENCE_SECONDS:
            pause = self._line.patience.pause_seconds(self._failures, get_requested_pause(error))
            with self._turn:
                self._turn.wait_for(lambda: self._is_closed, pause)
            return
        self._lose(error)

    def _lose(self, error: PotluckError) -> None:
        with self._turn:
            lost, self._watched = self._watched, {}
        for watch in lost.values():
            watch.watcher.lost(error)


def _closed() -> BadSettings:
    return BadSettings("The client was closed before the result arrived.", _KEEP_OPEN)
