"""The threads that submit function calls and collect their results, once for each client.

Threads do not survive a fork, so a child process starts its own. When the program ends, pending
submissions are still sent, for a few seconds; tasks continue without the program.
"""

import atexit
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from potluck.consumer.client import Potluck
from potluck.consumer.functions.call_sender import CallSender
from potluck.consumer.functions.collector import Collector
from potluck.consumer.functions.sender import SubmitQueue
from potluck.model.blob import INLINE_BYTES, BlobRef, Value
from potluck.model.error import BadSettings, InvalidInput, PotluckError
from potluck.model.ids import TaskId
from potluck.model.node import NodeState
from potluck.model.task import TaskState
from potluck.model.terms import TaskKind

_MOST_THREADS = 4


class Fetches:
    """Downloads large values in a few daemon threads, so that small ones need not wait."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._is_closed = False

    def put(self, fetch: Callable[[], None]) -> None:
        """Runs `fetch`, which must not raise, soon; after `close` in a thread of its own."""
        run = fetch
        with self._lock:
            if not self._is_closed:
                run = self._run
                self._waiting.put(fetch)
                if self._threads == _MOST_THREADS:
                    return
                self._threads += 1
        threading.Thread(target=run, name="potluck-fetch", daemon=True).start()

    def close(self) -> None:
        """Ends the threads after the pending fetches."""
        with self._lock:
            self._is_closed = True
            for _ in range(_MOST_THREADS):
                self._waiting.put(None)

    def _run(self) -> None:
        while (fetch := self._waiting.get()) is not None:
            fetch()


class PreparationThread:
    """Prepares submissions in order, in a daemon thread, for callers in an event loop."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_busy = False
        self._is_running = False
        self._is_closed = False

    def put(self, prepare: Callable[[], None]) -> None:
        """Runs `prepare`, which must not raise, soon."""
        with self._turn:
            self._waiting.append(prepare)
            self._turn.notify_all()
            if self._is_running:
                return
            self._is_running = True
        threading.Thread(target=self._run, name="potluck-prepare", daemon=True).start()

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until nothing is left; false after the timeout."""
        with self._turn:
            return self._turn.wait_for(lambda: not self._waiting and not self._is_busy, timeout)

    def close(self) -> None:
        """Ends the thread after the pending preparations, so that their callers get an error."""
        with self._turn:
            self._is_closed = True
            self._turn.notify_all()

    def _run(self) -> None:
        while (prepare := self._next()) is not None:
            prepare()

    def _next(self) -> Callable[[], None] | None:
        with self._turn:
            self._is_busy = False
            self._turn.notify_all()
            self._turn.wait_for(lambda: self._waiting or self._is_closed)
            if not self._waiting:
                self._is_running = False
                return None
            self._is_busy = True
            return self._waiting.popleft()


_EXIT_SECONDS = 10.0
_REUSE_SECONDS = 3600.0  # of an upload, whose pin lasts a day
_LOCK = threading.RLock()

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


class Dispatch:
    """The threads of one client."""

    def __init__(self, client: Potluck):
        self.client = client
        self.sender = SubmitQueue(client.transport, self.check_python)
        self.collector = Collector(client.transport)
        self.calls = CallSender(self)
        self.fetches = Fetches()
        self.preparing = PreparationThread()
        self._is_python_checked = False
        self._wallet: str | None = None
        self._process = os.getpid()

    def close(self) -> None:
        self.preparing.close()
        self.calls.close()
        self.sender.close()
        self.collector.close()
        self.fetches.close()

    def is_ours(self) -> bool:
        """Whether it belongs to this process, and not to the one that forked it."""
        return os.getpid() == self._process

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until the server has answered all submissions; false after the timeout."""
        until = None if timeout is None else time.monotonic() + timeout
        is_done = self.preparing.flush(timeout)
        for queue in (self.calls, self.sender):
            rest = None if until is None else max(0.0, until - time.monotonic())
            is_done = queue.flush(rest) and is_done
        return is_done

    def check_process(self) -> None:
        if not self.is_ours():
            raise BadSettings(
                "This was submitted by the parent process.",
                "Get its result there, or submit it here.",
            )

    def value(self, data: bytes, inline_bytes: int = INLINE_BYTES) -> Value:
        """The data as a value; larger data is uploaded as a blob first."""
        if len(data) <= inline_bytes:
            return Value(data)
        return Value(blob=self.client.files.upload_bytes(data))

    def cancel(self, task_id: TaskId) -> bool:
        """Cancels a task; true if it is cancelled now."""
        try:
            return self.client.tasks.cancel(task_id).state is TaskState.CANCELLED
        except PotluckError:
            return False

    def is_waiting(self, task_id: TaskId) -> bool:
        """Whether the task has not started yet; false if the server does not answer."""
        try:
            state = self.client.tasks.get(task_id).state
        except PotluckError:
            return False
        return state in (TaskState.QUEUED, TaskState.ASSIGNED)

    def stage(self, task_id: TaskId) -> str:
        """The phase of a task, and its node or the reason why it waits, as text."""
        try:
            task = self.client.tasks.get(task_id)
        except PotluckError as error:
            return f"{task_id}: {error.detail}"
        where = next((f" on {attempt.node_name}" for attempt in reversed(task.attempts)), "")
        why = "" if task.waiting is None else f": {task.waiting.sentence}"
        stage = f"{task.name} ({task_id}): {task.phase}{why or where}"
        return "".join(letter if letter.isprintable() else "?" for letter in stage)

    @property
    def wallet(self) -> str:
        if self._wallet is None:
            self._wallet = self.client.account.me().address
        return self._wallet

    def check_python(self) -> None:
        """Before the first task, checks that a node has this Python: pickles need the same one.

        The threads that send call it, so that callers do not wait for the server.
        """
        if self._is_python_checked:
            return
        versions = {
            ".".join(version.split(".")[:2])
            for node in self.client.resources.nodes()
            if node.state is NodeState.ONLINE and TaskKind.FUNCTION in node.sandbox.kinds
            for version in (node.python_version, *node.more_pythons)
        }
        if versions and PYTHON not in versions:
            available = ", ".join(sorted(versions))
            raise InvalidInput(
                f"This is Python {PYTHON}, and the pool has only Python {available}: a pickled"
                " function needs the same version.",
                f"Run your program with Python {available}, or send it as a script: `potluck run`.",
            )
        self._is_python_checked = True


class UploadedFunction:
    """The newest upload for each key; repeated after a while, since pins expire."""

    def __init__(self) -> None:
        self._uploads: dict[object, tuple[object, float, BlobRef]] = {}

    def get(self, key: object, version: object, upload: Callable[[], BlobRef]) -> BlobRef:
        uploaded, at, blob = self._uploads.get(key, (None, 0.0, None))
        if blob is None or uploaded != version or time.monotonic() - at > _REUSE_SECONDS:
            blob = upload()
            self._uploads[key] = (version, time.monotonic(), blob)
        return blob


_DISPATCHES: dict[Potluck, Dispatch] = {}
_DEFAULT: list[Potluck] = []  # made on first use


def get_dispatch(client: Potluck | None) -> Dispatch:
    """The dispatch of this client; without one, of the server in the profile."""
    with _LOCK:
        if client is None:
            if not _DEFAULT:
                _DEFAULT.append(Potluck())
            client = _DEFAULT[0]
        if client not in _DISPATCHES:
            _DISPATCHES[client] = Dispatch(client)
            client.at_close(lambda: _end(client))
        return _DISPATCHES[client]


def _end(client: Potluck) -> None:
    with _LOCK:
        dispatch = _DISPATCHES.pop(client, None)
    if dispatch is not None:
        dispatch.close()


def flush(timeout: float | None = None) -> bool:
    """Waits until the server has stored every submitted task; false after the timeout."""
    with _LOCK:
        dispatches = list(_DISPATCHES.values())
    until = None if timeout is None else time.monotonic() + timeout
    is_done = True
    for dispatch in dispatches:
        rest = None if until is None else max(0.0, until - time.monotonic())
        is_done = dispatch.flush(rest) and is_done
    return is_done


def _leave() -> None:
    """When the program ends: reports tasks that the server did not accept in time."""
    is_sent = flush(_EXIT_SECONDS)
    for dispatch in list(_DISPATCHES.values()):
        dispatch.calls.close_streams()
    if not is_sent:
        sys.stderr.write("potluck: the server did not accept every task in time; some are lost.\n")


def _begin_anew() -> None:
    """In a child process: threads and connections are the parent's, which may hold the locks."""
    global _LOCK
    _LOCK = threading.RLock()
    for client in _DISPATCHES:
        client.begin_anew()
    _DISPATCHES.clear()
    _DEFAULT.clear()


atexit.register(_leave)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
