"""What was submitted, on its way: one thread sends all that has gathered while the last list went.

So a loop of `.submit()` costs a few requests, and a single call waits for nobody. A list that got
no answer is sent again under the same key until the server has said what became of it. The room
for what waits is bounded: whoever is faster than the network waits in `put`.
"""

import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol
from uuid import uuid4

from msgspec import Struct

from potluck.consumer.http.api_call import ask
from potluck.consumer.http.transport import Transport, asked_seconds
from potluck.model.error import BadSettings, Internal, InvalidInput, PotluckError, by_code
from potluck.model.ids import TaskId
from potluck.model.task import TaskRequest
from potluck.model.task_spec import FunctionSpec
from potluck.wire import routes
from potluck.wire.codec import encode_json
from potluck.wire.consumer import TaskView
from potluck.wire.response import decoded, not_potluck
from potluck.wire.results import MOST_TASKS, SubmitTasks, Submitted, TasksSubmitted

_LIST_BYTES = 4 * 2**20
_MOST_WAITING = 10_000
_MOST_WAITING_BYTES = 64 * 2**20
_ENVELOPE_BYTES = 1_000  # of a request, beside what is in it


class ResponseHandler(Protocol):
    """Who is told what became of a request. One of the two is called, once."""

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
    def __init__(self, transport: Transport):
        self._transport = transport
        self._turn = threading.Condition()
        self._waiting: deque[Submission] = deque()
        self._waiting_bytes = 0
        self._unwanted: deque[TaskId] = deque()
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
        """What was not sent yet is not sent; false if it is on its way."""
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
        """Nobody waits for it any more; it is cancelled when there is time for it."""
        with self._turn:
            self._unwanted.append(task_id)
            self._turn.notify_all()

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until the server has answered for all that was put before; false: not in time."""
        with self._turn:
            before = set(self._unanswered)
            return self._turn.wait_for(
                lambda: before.isdisjoint(self._unanswered) and not self._unwanted, timeout
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
            # Also if this thread met a mistake of ours: nobody is to wait for it for ever.
            with self._turn:
                self._is_closed = True
                left, self._waiting = self._waiting, deque()
                self._unwanted.clear()
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
        """All that waits, up to the measure of a list; none, if something is to be cancelled."""
        with self._turn:
            self._turn.wait_for(lambda: self._waiting or self._unwanted or self._is_closed)
            if not self._waiting:
                return [] if self._unwanted else None
            taken: list[Submission] = []
            size = 0
            while self._waiting and len(taken) < MOST_TASKS:
                size += self._waiting[0].content_bytes * 4 // 3 + _ENVELOPE_BYTES
                if taken and size > _LIST_BYTES:
                    break
                taken.append(self._waiting.popleft())
            self._waiting_bytes -= sum(submission.content_bytes for submission in taken)
            self._turn.notify_all()
            return taken

    def _send(self, submissions: list[Submission]) -> None:
        try:
            answers = self._answers(_encoded(submissions), len(submissions))
        except Exception as error:  # noqa: BLE001 - nobody is to wait for ever
            refusal = error if isinstance(error, PotluckError) else _mistake(error)
            if len(submissions) > 1 and isinstance(refusal, InvalidInput):
                # One of them may be what is wrong; it is no matter to the others. No other error
                # says that none was entered, and under new keys they would be there twice.
                for submission in submissions:
                    self._send([submission])
                return
            for submission in submissions:
                submission.addressee.refused(refusal)
        else:
            for submission, answer in zip(submissions, answers, strict=True):
                _tell(submission.addressee, answer)

    def _answers(self, body: bytes, number: int) -> list[Submitted]:
        """Asked under one key until there is an answer; the network may take its time."""
        route, headers = routes.SUBMIT_TASKS, {"Idempotency-Key": uuid4().hex}
        patience = self._transport.patience
        give_up_at = time.monotonic() + patience.give_up_seconds
        failures = 0
        while True:
            try:
                told = self._transport.call(route.method, route.url(), body, headers)
                answer = decoded(told, TasksSubmitted, self._transport.url)
                if len(answer.tasks) != number:
                    raise not_potluck(self._transport.url, "it answers for another list")
                return answer.tasks
            except PotluckError as error:
                failures += 1
                if not error.retryable or time.monotonic() > give_up_at or self._is_closed:
                    raise
                time.sleep(patience.pause_seconds(failures, asked_seconds(error)))

    def _cancel(self) -> None:
        with self._turn:
            task_id = self._unwanted[0]
        with suppress(Exception):  # it is over, or nobody answers: it ends by its own limits
            named = {"task_id": task_id}
            ask(self._transport, routes.CANCEL_TASK, TaskView, named, repeatable=True)
        with self._turn:
            self._unwanted.popleft()
            self._turn.notify_all()


def _encoded(submissions: Sequence[Submission]) -> bytes:
    try:
        return encode_json(SubmitTasks(tuple(submission.request for submission in submissions)))
    except Exception as error:
        raise InvalidInput(
            f"The task can not be sent: {type(error).__name__}: {error}.", "Look at its options."
        ) from error


def _mistake(error: Exception) -> Internal:
    return Internal(
        f"Sending the task failed: {type(error).__name__}: {error}.",
        "Look with `potluck ps` whether the server has it.",
    )


def _closed() -> BadSettings:
    return BadSettings("The client is closed.", "Submit while it is open.")


def _tell(addressee: ResponseHandler, answer: Submitted) -> None:
    if answer.task_id is not None:
        addressee.submitted(answer.task_id)
    else:
        addressee.refused(by_code(answer.code)(answer.detail, answer.hint))
