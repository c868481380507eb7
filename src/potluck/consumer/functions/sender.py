"""The queue of submissions: one thread sends everything that arrived during the last request.

So a loop of `.submit()` costs a few requests, and a single call is sent immediately. A batch
without a response is sent again under the same idempotency key. The queue is bounded: callers that
are faster than the network wait in `put`.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar
from uuid import uuid4

from msgspec import Struct

from potluck.consumer.http.transport import Patience, Transport, call_api, get_requested_pause
from potluck.model.error import BadSettings, Internal, InvalidInput, PotluckError, by_code
from potluck.model.ids import TaskId
from potluck.model.task import TaskRequest
from potluck.model.task_spec import FunctionSpec
from potluck.wire import routes
from potluck.wire.codec import encode_request
from potluck.wire.consumer import TaskView
from potluck.wire.response import decode_response, not_potluck
from potluck.wire.results import MOST_SUBMITTED, SubmitTasks, Submitted, TasksSubmitted

T = TypeVar("T")

_LIST_BYTES = 4 * 2**20
_MOST_WAITING = 10_000
_MOST_WAITING_BYTES = 64 * 2**20
_ENVELOPE_BYTES = 1_000  # of a request, besides its content


class ResponseHandler(Protocol):
    """Receives the outcome of a request: one of the two methods is called, once."""

    def submitted(self, task_id: TaskId) -> None: ...

    def refused(self, error: PotluckError) -> None: ...


class Submission(Struct, eq=False):
    request: TaskRequest
    addressee: ResponseHandler

    @property
    def content_bytes(self) -> int:
        spec = self.request.spec
        return len(spec.code.data) + len(spec.inputs.data) if isinstance(spec, FunctionSpec) else 0


class SubmitQueue:
    """The thread that sends submissions. `check` is called before each batch, and refuses it by
    raising an error."""

    def __init__(self, transport: Transport, check: Callable[[], None] = lambda: None):
        self._transport = transport
        self._check = check
        self._turn = threading.Condition()
        self._waiting: deque[Submission] = deque()
        self._waiting_bytes = 0
        self._to_cancel: deque[TaskId] = deque()
        self._unanswered: set[Submission] = set()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="potluck-sender", daemon=True)
        self._thread.start()

    def put(self, submission: Submission) -> None:
        with self._turn:
            while (
                len(self._waiting) >= _MOST_WAITING or self._waiting_bytes >= _MOST_WAITING_BYTES
            ) and not self._is_closed:
                self._turn.wait()
            if self._is_closed:
                raise _closed()
            self._waiting.append(submission)
            self._waiting_bytes += submission.content_bytes
            self._unanswered.add(submission)
            self._turn.notify_all()

    def take_back(self, addressee: ResponseHandler) -> bool:
        """Removes a submission from the queue; false if it has been sent."""
        with self._turn:
            for submission in self._waiting:
                if submission.addressee is addressee:
                    self._waiting.remove(submission)
                    self._waiting_bytes -= submission.content_bytes
                    self._unanswered.remove(submission)
                    self._turn.notify_all()
                    return True
        return False

    def call_off(self, task_id: TaskId) -> None:
        """Cancels a task later, in the sender's thread."""
        with self._turn:
            self._to_cancel.append(task_id)
            self._turn.notify_all()

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until the server has answered all present submissions; false after the timeout."""
        with self._turn:
            before = set(self._unanswered)
            return self._turn.wait_for(
                lambda: before.isdisjoint(self._unanswered) and not self._to_cancel, timeout
            )

    def close(self) -> None:
        with self._turn:
            self._is_closed = True
            self._turn.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join(self._transport.patience.read_seconds)

    def _run(self) -> None:
        try:
            self._deliver()
        finally:
            # Also after a bug in this thread: no caller may wait for ever.
            with self._turn:
                self._is_closed = True
                left, self._waiting = self._waiting, deque()
                self._to_cancel.clear()
                self._unanswered.clear()
                self._turn.notify_all()
            for submission in left:
                submission.addressee.refused(_closed())

    def _deliver(self) -> None:
        while (submissions := self._next()) is not None:
            if submissions:
                self._send(submissions)
                with self._turn:
                    self._unanswered.difference_update(submissions)
                    self._turn.notify_all()
            else:
                self._cancel()

    def _next(self) -> list[Submission] | None:
        """The next batch; empty if there is a task to cancel, None when closed."""
        with self._turn:
            self._turn.wait_for(lambda: self._waiting or self._to_cancel or self._is_closed)
            if not self._waiting:
                return [] if self._to_cancel else None
            taken: list[Submission] = []
            size = 0
            while self._waiting and len(taken) < MOST_SUBMITTED:
                size += self._waiting[0].content_bytes * 4 // 3 + _ENVELOPE_BYTES
                if taken and size > _LIST_BYTES:
                    break
                taken.append(self._waiting.popleft())
            self._waiting_bytes -= sum(submission.content_bytes for submission in taken)
            self._turn.notify_all()
            return taken

    def _send(self, submissions: list[Submission]) -> None:
        try:
            self._persist(self._check)
        except Exception as error:  # noqa: BLE001 - no caller may wait for ever
            refusal = error if isinstance(error, PotluckError) else _internal(error)
            for submission in submissions:
                submission.addressee.refused(refusal)
            return
        try:
            outcomes = self._outcomes(_encoded(submissions), len(submissions))
        except Exception as error:  # noqa: BLE001 - no caller may wait for ever
            refusal = error if isinstance(error, PotluckError) else _internal(error)
            if len(submissions) > 1 and isinstance(refusal, InvalidInput):
                # One of them may be invalid, which must not affect the others. Only this error
                # means that none was stored; after others, new keys would store them twice.
                for submission in submissions:
                    self._send([submission])
                return
            for submission in submissions:
                submission.addressee.refused(refusal)
        else:
            for submission, outcome in zip(submissions, outcomes, strict=True):
                _notify(submission.addressee, outcome)

    def _outcomes(self, body: bytes, number: int) -> list[Submitted]:
        """Sends the batch under one key until there is a response."""
        route, headers = routes.SUBMIT_TASKS, {"Idempotency-Key": uuid4().hex}

        def send() -> list[Submitted]:
            data = self._transport.call(route.method, route.url(), body, headers)
            response = decode_response(data, TasksSubmitted, self._transport.url)
            if len(response.tasks) != number:
                raise not_potluck(self._transport.url, "its response is for another batch")
            return response.tasks

        return self._persist(send)

    def _persist(self, send: Callable[[], T]) -> T:
        return persist(send, self._transport.patience, lambda: self._is_closed)

    def _cancel(self) -> None:
        with self._turn:
            task_id = self._to_cancel[0]
        with suppress(Exception):  # it is final, or the server is away: the task's limits end it
            names = {"task_id": task_id}
            call_api(self._transport, routes.CANCEL_TASK, TaskView, names, repeatable=True)
        with self._turn:
            self._to_cancel.popleft()
            self._turn.notify_all()


def persist(send: Callable[[], T], patience: Patience, is_closed: Callable[[], bool]) -> T:
    """Calls `send`, which must be safe to repeat, until there is an answer or patience ends."""
    give_up_at = time.monotonic() + patience.give_up_seconds
    failures = 0
    while True:
        try:
            return send()
        except PotluckError as error:
            failures += 1
            if not error.retryable or time.monotonic() > give_up_at or is_closed():
                raise
            time.sleep(patience.pause_seconds(failures, get_requested_pause(error)))


def _encoded(submissions: Sequence[Submission]) -> bytes:
    try:
        return encode_request(SubmitTasks(tuple(submission.request for submission in submissions)))
    except Exception as error:
        raise InvalidInput(
            f"The task cannot be encoded: {type(error).__name__}: {error}.", "Check its options."
        ) from error


def _internal(error: Exception) -> Internal:
    return Internal(
        f"Sending the task failed: {type(error).__name__}: {error}.",
        "Check with `potluck ps` whether the server has it.",
    )


def _closed() -> BadSettings:
    return BadSettings("The client is closed.", "Submit while it is open.")


def _notify(addressee: ResponseHandler, outcome: Submitted) -> None:
    if outcome.task_id is not None:
        addressee.submitted(outcome.task_id)
    else:
        addressee.refused(by_code(outcome.code)(outcome.detail, outcome.hint))
