"""All that goes between this process and a server for its functions: made once for each client.

Threads do not survive a fork, so a child process makes its own. At the end of the program what was
submitted is still sent, for a few seconds; tasks go on without us.
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
    def __init__(self) -> None:
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._is_closed = False

    def put(self, fetch: Callable[[], None]) -> None:
        """Called soon; it raises nothing. One that comes after the end has a thread of its own."""
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
        """What was put before is still brought."""
        with self._lock:
            self._is_closed = True
            for _ in range(_MOST_THREADS):
                self._waiting.put(None)

    def _run(self) -> None:
        while (fetch := self._waiting.get()) is not None:
            fetch()


class PreparationThread:
    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_at_work = False
        self._is_begun = False
        self._is_closed = False

    def put(self, prepare: Callable[[], None]) -> None:
        """Called soon; it raises nothing."""
        with self._turn:
            self._waiting.append(prepare)
            self._turn.notify_all()
            if self._is_begun:
                return
            self._is_begun = True
        threading.Thread(target=self._run, name="potluck-prepare", daemon=True).start()

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until nothing is left; false if that was not so in time."""
        with self._turn:
            return self._turn.wait_for(lambda: not self._waiting and not self._is_at_work, timeout)

    def close(self) -> None:
        """What was put before is still prepared: whoever waits for it is told that it is over."""
        with self._turn:
            self._is_closed = True
            self._turn.notify_all()

    def _run(self) -> None:
        while (prepare := self._next()) is not None:
            prepare()

    def _next(self) -> Callable[[], None] | None:
        with self._turn:
            self._is_at_work = False
            self._turn.notify_all()
            self._turn.wait_for(lambda: self._waiting or self._is_closed)
            if not self._waiting:
                self._is_begun = False
                return None
            self._is_at_work = True
            return self._waiting.popleft()


_EXIT_SECONDS = 10.0
_KNOWN_SECONDS = 3600.0  # of a pin, which lasts a day
_LOCK = threading.RLock()

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


class Dispatch:
    """Of one client."""

    def __init__(self, client: Potluck):
        self.client = client
        self.sender = SubmitQueue(client.transport)
        self.collector = Collector(client.transport)
        self.fetches = Fetches()
        self.preparing = PreparationThread()
        self._pythons_known = False
        self._wallet: str | None = None
        self._process = os.getpid()

    def close(self) -> None:
        self.preparing.close()
        self.sender.close()
        self.collector.close()
        self.fetches.close()

    def is_ours(self) -> bool:
        """Whether it is this process's, and not that of the one that it was forked from."""
        return os.getpid() == self._process

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until the server has answered for all that was submitted; false: not in time."""
        until = None if timeout is None else time.monotonic() + timeout
        is_prepared = self.preparing.flush(timeout)
        rest = None if until is None else max(0.0, until - time.monotonic())
        return self.sender.flush(rest) and is_prepared

    def check_process(self) -> None:
        if not self.is_ours():
            raise BadSettings(
                "This was submitted by the process that this one was forked from.",
                "Ask for its result there, or submit it here.",
            )

    def value(self, data: bytes, inline_bytes: int = INLINE_BYTES) -> Value:
        """A large one as a blob, which is there when this returns."""
        if len(data) <= inline_bytes:
            return Value(data)
        return Value(blob=self.client.files.upload_bytes(data))

    def cancel(self, task_id: TaskId) -> bool:
        """Whether it is called off now."""
        try:
            return self.client.tasks.cancel(task_id).state is TaskState.CANCELLED
        except PotluckError:
            return False

    def is_waiting(self, task_id: TaskId) -> bool:
        """Whether it has not begun yet; not known, if nobody answers."""
        try:
            state = self.client.tasks.get(task_id).state
        except PotluckError:
            return False
        return state in (TaskState.QUEUED, TaskState.ASSIGNED)

    def stage(self, task_id: TaskId) -> str:
        """Where a task is, and why it waits, in words."""
        try:
            task = self.client.tasks.get(task_id)
        except PotluckError as error:
            return f"{task_id}: {error.detail}"
        where = next((f" on {each.node_name}" for each in reversed(task.attempts)), "")
        why = "" if task.waiting is None else f": {task.waiting.sentence}"
        return f"{task.name} ({task_id}): {task.phase}{why or where}"

    @property
    def wallet(self) -> str:
        if self._wallet is None:
            self._wallet = self.client.account.me().address
        return self._wallet

    def check_python(self) -> None:
        """Asked before the first task: a pickle is for one Python, and waiting would not help."""
        if self._pythons_known:
            return
        found = {
            ".".join(node.python_version.split(".")[:2])
            for node in self.client.resources.nodes()
            if node.state is NodeState.ONLINE and TaskKind.FUNCTION in node.sandbox.kinds
        }
        if found and PYTHON not in found:
            several = ", ".join(sorted(found))
            raise InvalidInput(
                f"This is Python {PYTHON}, and the pool has Python {several} only: a function that"
                " was pickled by one can not be run by another.",
                f"Run your program with Python {several}, or send it as a script: `potluck run`.",
            )
        self._pythons_known = True


class UploadedFunction:
    """What was uploaded for a function, and is uploaded again after a while: pins do not last.

    Of each thing the newest version is known, and no other.
    """

    def __init__(self) -> None:
        self._known: dict[object, tuple[object, float, BlobRef]] = {}

    def get(self, key: object, version: object, upload: Callable[[], BlobRef]) -> BlobRef:
        known, at, blob = self._known.get(key, (None, 0.0, None))
        if blob is None or known != version or time.monotonic() - at > _KNOWN_SECONDS:
            blob = upload()
            self._known[key] = (version, time.monotonic(), blob)
        return blob


_DISPATCHES: dict[Potluck, Dispatch] = {}
_DEFAULT: list[Potluck] = []  # made when it is first needed


def dispatch_of(client: Potluck | None) -> Dispatch:
    """The one for this client; without one, for the server that this machine is signed in to."""
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
    """Waits until the server has every task that was submitted so far: then they are durable.

    False if that was not so in time.
    """
    with _LOCK:
        dispatches = list(_DISPATCHES.values())
    until = None if timeout is None else time.monotonic() + timeout
    is_done = True
    for dispatch in dispatches:
        rest = None if until is None else max(0.0, until - time.monotonic())
        is_done = dispatch.flush(rest) and is_done
    return is_done


def _leave() -> None:
    """At the end of the program; what the server does not take in time is lost, and said so."""
    if not flush(_EXIT_SECONDS):
        sys.stderr.write("potluck: the server did not take every task in time; some are lost.\n")


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
