"""The result of a task in one object.

    result = client.results.get(task_id).wait()
    result.state, result.exit_code, result.cost
    result.value                      # of a function; of an array, a list of them
    result.files.download("out")      # verified, and resumed after an interruption
    print(result.stdout)

It holds the task as of the last `refresh` and fetches files, logs and values on first access.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property, reduce
from typing import Any, Self

from potluck.consumer.files.files import Files
from potluck.consumer.files.upload import TransferRetry
from potluck.consumer.functions.decode_value import FailedValue, ValueDecoder
from potluck.consumer.functions.failure_text import task_error
from potluck.consumer.result.files import ResultFiles
from potluck.consumer.result.items import ItemReader, ResultItem, failed_items
from potluck.consumer.result.log import Log, Pieces
from potluck.consumer.result.notebook_view import result_html
from potluck.consumer.tasks import Tasks
from potluck.model.credit import MICRO
from potluck.model.error import Conflict, InvalidInput, NotFound, PotluckError
from potluck.model.ids import TaskId
from potluck.model.task import EndReason, TaskState
from potluck.model.terms import TaskKind
from potluck.model.usage import Usage
from potluck.wire.consumer import AttemptView, FailedItem, TaskView
from potluck.wire.results import TaskResult


def sum_usage(tasks: Tasks, task_id: str) -> Usage | None:
    """The sums over all attempts, and the highest memory peak; None without any report."""
    usages: list[Usage] = []
    cursor: int | None = None
    while True:
        page = tasks.attempts(task_id, cursor)
        usages += [attempt.usage for attempt in page.attempts if attempt.usage is not None]
        cursor = page.next_cursor
        if cursor is None:
            return reduce(_add_usage, usages) if usages else None


def _add_usage(total: Usage, usage: Usage) -> Usage:
    joules = [part.energy_joules for part in (total, usage) if part.energy_joules is not None]
    return Usage(
        total.prepare_seconds + usage.prepare_seconds,
        total.run_seconds + usage.run_seconds,
        total.cpu_seconds + usage.cpu_seconds,
        max(total.memory_peak_bytes, usage.memory_peak_bytes),
        total.log_bytes + usage.log_bytes,
        total.device_seconds + usage.device_seconds,
        sum(joules) if joules else None,
        total.input_bytes + usage.input_bytes,
        total.output_bytes + usage.output_bytes,
        total.network_bytes + usage.network_bytes,
    )


_POLL_SECONDS = 20.0


class Result:
    """The result of one task. `wait()` waits for its end; `refresh()` updates it."""

    def __init__(
        self, tasks: Tasks, files: Files, pieces: Pieces, task: TaskView, opener: ValueDecoder
    ):
        self._tasks = tasks
        self._files = files
        self._pieces = pieces
        self._task = task
        self._opener = opener

    @property
    def task(self) -> TaskView:
        """The task as of the last refresh."""
        return self._task

    @property
    def task_id(self) -> TaskId:
        return self._task.id

    @property
    def name(self) -> str:
        return self._task.name

    @property
    def state(self) -> TaskState:
        return self._task.state

    @property
    def is_over(self) -> bool:
        return self._task.state.is_final

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self._task.state is TaskState.SUCCEEDED

    @property
    def exit_code(self) -> int | None:
        return self._task.exit_code

    @property
    def reason(self) -> EndReason | None:
        return self._task.reason

    @property
    def detail(self) -> str:
        """The reason of its end in a sentence; empty when there is nothing to explain."""
        return self._task.detail

    @property
    def cost_micro(self) -> int:
        """The cost of all its attempts, in millionths of a credit."""
        return self._task.charge_micro

    @property
    def cost(self) -> float:
        """The cost in credits."""
        return self._task.charge_micro / MICRO

    @property
    def kept_until(self) -> datetime | None:
        """Values, files and logs are kept until then; None while it is not final."""
        return self._task.kept_until

    @cached_property
    def usage(self) -> Usage | None:
        """The usage of its newest attempt; of an array, of all attempts together."""
        if self._task.items is None:
            return None if self._newest is None else self._newest.usage
        return sum_usage(self._tasks, self.task_id)

    @property
    def value(self) -> Any:
        """The function's return value; of an array, the list of its items' values.

        Raises the function's exception as `RemoteError`, or the reason why there is no value.
        """
        self._check_function()
        if self._task.items is not None:
            return list(self.values)
        return self._only().value

    @property
    def values(self) -> Iterator[Any]:
        """The items' values, in order. A failed item raises its error in its turn."""
        return (item.value for item in self.items)

    @property
    def items(self) -> Iterator[ResultItem]:
        """The items of an array of function calls with their values or errors; a single call is
        one item."""
        self._check_function()
        if self._task.items is None:
            return iter([self._only()])
        reader = ItemReader(self._pieces_after, self._opener, self._files, self._tasks)
        return reader.items(self._task.items.total)

    @property
    def failed_items(self) -> Iterator[FailedItem]:
        """The items of an array, of any kind, that failed for good, in order."""
        if self._task.items is None:
            raise InvalidInput(f"{self.name} is not an array.", "Look at `state` and `detail`.")
        return failed_items(self._tasks, self.task_id)

    @cached_property
    def files(self) -> ResultFiles:
        """The files in its output directory."""
        return ResultFiles(self._files, self.task_id)

    @cached_property
    def logs(self) -> Log:
        """The log of its newest attempt; `log(…)` has those of others."""
        return self.log()

    @property
    def stdout(self) -> str:
        return self.logs.stdout

    @property
    def stderr(self) -> str:
        return self.logs.stderr

    def log(self, attempt: int | None = None, *, item: int | None = None) -> Log:
        """The log of an attempt: of the newest, of this one, or of the newest for an item."""
        if item is not None:
            attempts = self._tasks.attempts(self.task_id, item=item, limit=1).attempts
            if not attempts:
                raise NotFound(
                    f"No attempt of {self.name} has run item {item}.",
                    "Items are counted from 0; a waiting item has had no attempt yet.",
                )
            attempt = attempts[0].number
        newest = None if self._newest is None else self._newest.number
        return Log(self._tasks, self.task_id, attempt or newest)

    def refresh(self) -> Self:
        """Fetches the present state."""
        self._task = self._tasks.get(self.task_id)
        for name in ("usage", "logs"):
            self.__dict__.pop(name, None)
        if not self._task.state.is_final:
            self.__dict__.pop("files", None)
        return self

    def wait(self, timeout: float | None = None) -> Self:
        """Waits for the end of the task and returns this object; raises TimeoutError."""
        until = None if timeout is None else time.monotonic() + timeout
        absence = TransferRetry(self._tasks.patience)
        while not self.is_over:
            rest = _POLL_SECONDS if until is None else until - time.monotonic()
            if rest <= 0:
                self.refresh()
                why = "" if self._task.waiting is None else f": {self._task.waiting.sentence}"
                raise TimeoutError(
                    f"{self.name} ({self.task_id}) has not ended within {timeout:g} seconds; it is"
                    f" {self._task.phase}{why}"
                )
            try:
                is_over = self._pieces.is_over(self.task_id, min(rest, _POLL_SECONDS))
                absence = TransferRetry(self._tasks.patience)
            except PotluckError as error:
                absence.wait(error)
            else:
                if is_over:
                    self.refresh()
        return self

    def __repr__(self) -> str:
        return f"<Result of {self.name} ({self.task_id}): {self.state.value}>"

    def _repr_html_(self) -> str:
        """In a notebook: the facts, the files and the pictures."""
        return result_html(self)

    @property
    def _newest(self) -> AttemptView | None:
        return max(self._task.attempts, key=lambda attempt: attempt.number, default=None)

    def _pieces_after(self, behind: int) -> TaskResult:
        return self._pieces.get(self.task_id, behind)

    def _check_function(self) -> None:
        if self._task.kind != TaskKind.FUNCTION:
            raise InvalidInput(
                f"{self.name} is a {self._task.kind}, which returns no value.",
                "Its output is in `stdout`, its files are in `files`.",
            )
        if not self.is_over:
            self.refresh()
        if not self.is_over:
            raise Conflict(f"{self.name} has not ended yet.", "Call `wait()` first.")

    def _only(self) -> ResultItem:
        result = self._pieces_after(0)
        if not result.pieces:
            is_gone = self.ok or self._is_past_keeping()
            return ResultItem(0, None, self._gone() if is_gone else task_error(result))
        piece = result.pieces[-1]
        blob = piece.value.blob
        if blob is None:
            data = piece.value.data
        else:
            data = self._files.download_bytes(blob, self._opener.most_bytes)
        if piece.is_error:
            return ResultItem(0, None, self._opener.error(data, piece))
        value = self._opener.value(data, piece)
        if isinstance(value, FailedValue):
            return ResultItem(0, None, value.error)
        return ResultItem(0, value)

    def _is_past_keeping(self) -> bool:
        return self.kept_until is not None and self.kept_until < datetime.now(UTC)

    def _gone(self) -> NotFound:
        since = "" if self.kept_until is None else f" since {self.kept_until:%Y-%m-%d}"
        return NotFound(
            f"The value of {self.name} is no longer kept{since}.",
            "The pool decides how long results are kept; submit the task again.",
        )
