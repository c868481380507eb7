"""Results as they come, of all tasks that somebody in this process waits for.

Two threads ask. What was just submitted is waited for by one of them, so that a short call gets
its answer at once; what takes longer goes over to the other, whose poll is left alone for as long
as it likes. A poll that is to wait for one more task is cut and asked again; where tasks come so
fast that this would be all it does, polls become short instead.
"""

import threading
import time
from collections.abc import Callable
from itertools import islice
from typing import Protocol

from msgspec import Struct

from potluck.consumer.functions.cuttable_http import CuttableConnection
from potluck.consumer.http.transport import Transport, asked_seconds
from potluck.model.error import BadSettings, InvalidInput, NotFound, PotluckError
from potluck.model.ids import TaskId
from potluck.wire import routes
from potluck.wire.codec import decode_packed, encode_json
from potluck.wire.response import not_potluck
from potluck.wire.results import MOST_TASKS, AskResults, Results, TaskResult, Wanted

_FRESH_SECONDS = 1.0  # for so long a task is a short one
_POLL_SECONDS = 20.0
_SHORTEST_POLL_SECONDS = 0.005
# What was submitted just now is not done yet: the server had better begin with it. And what is
# submitted meanwhile is asked for together with it.
_GATHER_SECONDS = 0.003
_ROUND_SECONDS = 0.2  # of more tasks than one poll may name
_TASKS_A_SECOND = 10_000  # as many as may be named in polls that come one after the other
_PATIENCE_SECONDS = 600.0  # without a server; tasks go on, and their results are kept
_KEEP_OPEN = "Ask for results while it is open. The task goes on, and `potluck ps` shows it."


class ResultListener(Protocol):
    """Told, in the order in which it happens, until the task is over; or that nobody can say."""

    def told(self, result: TaskResult) -> None: ...

    def lost(self, error: PotluckError) -> None: ...


class _TaskWatch(Struct, eq=False):
    watcher: ResultListener
    since: float
    behind: int = 0


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
    """One thread that waits for results of the tasks that it is given."""

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
        self._unheard_since: float | None = None
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
        """The more a poll names, the more it costs to ask it again."""
        return _SHORTEST_POLL_SECONDS + min(len(self._watched), MOST_TASKS) / _TASKS_A_SECOND

    def _run(self) -> None:
        try:
            self._collect()
        finally:
            # Also if this thread met a mistake of ours: nobody is to wait for it for ever.
            with self._turn:
                self._is_closed = True
            self._lose(_closed())

    def _collect(self) -> None:
        while (asked := self._next()) is not None:
            try:
                for result in self._ask(asked):
                    self._tell(result)
                self._unheard_since, self._failures = None, 0
            except NotFound:
                self._drop_unknown(asked)
            except PotluckError as error:
                if not self._line.is_cut:
                    self._bear(error)

    def _next(self) -> AskResults | None:
        """What to ask now. Those that were asked for go to the end, so that each has its turn."""
        self._hand_on()
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
            wanted = tuple(Wanted(task_id, watch.behind) for task_id, watch in named)
            self._line.open()
            self._is_asking = True
            return AskResults(wanted, self._wait_seconds)

    def _choose_wait(self) -> None:
        """Short as long as more comes, then longer and longer."""
        most = self._longest_seconds if len(self._watched) <= MOST_TASKS else _ROUND_SECONDS
        next_seconds = self._shortest_seconds() if self._came_meanwhile else 4 * self._wait_seconds
        self._wait_seconds = min(next_seconds, most)
        self._came_meanwhile = False

    def _hand_on(self) -> None:
        """What has been here for long is no short one."""
        if self._pass_on is None:
            return
        with self._turn:
            before = time.monotonic() - _FRESH_SECONDS
            old = {name: each for name, each in self._watched.items() if each.since < before}
            for task_id in old:
                del self._watched[task_id]
        if old:
            self._pass_on(old)

    def _ask(self, asked: AskResults) -> list[TaskResult]:
        route = routes.ASK_RESULTS
        headers = {"Accept": "application/msgpack"}
        body = self._line.call(route.method, route.url(), encode_json(asked), headers)
        try:
            return decode_packed(body, Results).results
        except InvalidInput as error:
            raise not_potluck(self._line.url, error.detail) from error

    def _tell(self, result: TaskResult) -> None:
        is_over = result.state.is_final and not result.has_more
        with self._turn:
            watch = self._watched.get(result.task_id)
            if watch is None:
                return
            watch.behind = result.behind
            if is_over:
                del self._watched[result.task_id]
        watch.watcher.told(result)

    def _drop_unknown(self, asked: AskResults) -> None:
        """One that nobody knows any more is found by asking for each alone."""
        for wanted in asked.tasks:
            try:
                for result in self._ask(AskResults((wanted,))):
                    self._tell(result)
            except NotFound as unknown:
                with self._turn:
                    watch = self._watched.pop(wanted.task_id, None)
                if watch is not None:
                    watch.watcher.lost(unknown)
            except PotluckError:
                return

    def _bear(self, error: PotluckError) -> None:
        now = time.monotonic()
        self._unheard_since = self._unheard_since or now
        self._failures += 1
        if error.retryable and now - self._unheard_since < _PATIENCE_SECONDS:
            pause = self._line.patience.pause_seconds(self._failures, asked_seconds(error))
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
    return BadSettings("The client was closed before the result was there.", _KEEP_OPEN)
