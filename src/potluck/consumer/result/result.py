"""What became of a task, in one object.

    result = client.results.get(task_id).wait()
    result.state, result.exit_code, result.cost
    result.value                      # of a function; of an array, a list of them
    result.files.download("out")      # checked, and taken up where it was broken off
    print(result.stdout)

It knows the task as it was when it was last asked for, and asks for the rest when somebody looks:
a list of files, a log and a value cost nothing before.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property, reduce
from typing import Any, Self

from potluck.consumer.files.files import Files
from potluck.consumer.files.transfer_retry import Absence
from potluck.consumer.functions.decode_value import FailedValue, Opener
from potluck.consumer.functions.failure_text import ended
from potluck.consumer.result.files import ResultFiles
from potluck.consumer.result.items import ItemReader, ResultItem, failed_items
from potluck.consumer.result.log import Log
from potluck.consumer.result.notebook_view import result_html
from potluck.consumer.result.pieces import Pieces
from potluck.consumer.tasks import Tasks
from potluck.model.credit import MICRO
from potluck.model.error import Conflict, InvalidInput, NotFound, PotluckError
from potluck.model.ids import TaskId
from potluck.model.task import EndReason, TaskState
from potluck.model.terms import TaskKind
from potluck.model.usage import Usage
from potluck.wire.consumer import AttemptView, FailedItem, TaskView
from potluck.wire.results import TaskResult


def usage_in_all(tasks: Tasks, task_id: str) -> Usage | None:
    """Sums, and of the memory the highest peak; None if no attempt has told anything."""
    found: list[Usage] = []
    cursor: int | None = None
    while True:
        page = tasks.attempts(task_id, cursor)
        found += [each.usage for each in page.attempts if each.usage is not None]
        cursor = page.next_cursor
        if cursor is None:
            return reduce(_both, found) if found else None


def _both(one: Usage, other: Usage) -> Usage:
    joules = [each.energy_joules for each in (one, other) if each.energy_joules is not None]
    return Usage(
        one.prepare_seconds + other.prepare_seconds,
        one.run_seconds + other.run_seconds,
        one.cpu_seconds + other.cpu_seconds,
        max(one.memory_peak_bytes, other.memory_peak_bytes),
        one.log_bytes + other.log_bytes,
        one.device_seconds + other.device_seconds,
        sum(joules) if joules else None,
        one.input_bytes + other.input_bytes,
        one.output_bytes + other.output_bytes,
    )


_POLL_SECONDS = 20.0


class Result:
    """Of one task. `wait()` brings it to the end; `refresh()` asks how it is now."""

    def __init__(self, tasks: Tasks, files: Files, pieces: Pieces, task: TaskView, opener: Opener):
        self._tasks = tasks
        self._files = files
        self._pieces = pieces
        self._task = task
        self._opener = opener

    @property
    def task(self) -> TaskView:
        """All that is known of the task, as it was when last asked."""
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
        """Why it ended as it did, in a sentence; empty when there is nothing to explain."""
        return self._task.detail

    @property
    def cost_micro(self) -> int:
        """What it cost, all its attempts together, in millionths of a credit."""
        return self._task.charge_micro

    @property
    def cost(self) -> float:
        """The same in credits."""
        return self._task.charge_micro / MICRO

    @property
    def kept_until(self) -> datetime | None:
        """Values, files and logs are kept until then; None as long as it is not over."""
        return self._task.kept_until

    @cached_property
    def usage(self) -> Usage | None:
        """What its newest attempt used; of an array, what all of them used together."""
        if self._task.items is None:
            return None if self._newest is None else self._newest.usage
        return usage_in_all(self._tasks, self.task_id)

    @property
    def value(self) -> Any:
        """What the function returned; of an array, a list of what its items returned.

        Raises what the function raised, as `RemoteError`, or why there is no value.
        """
        self._check_function()
        if self._task.items is not None:
            return list(self.values)
        return self._only().value

    @property
    def values(self) -> Iterator[Any]:
        """What the items returned, in order. One that failed raises its error in its turn."""
        return (item.value for item in self.items)

    @property
    def items(self) -> Iterator[ResultItem]:
        """The items of an array of function calls with their values or errors; of one call, it."""
        self._check_function()
        if self._task.items is None:
            return iter([self._only()])
        reader = ItemReader(self._told, self._opener, self._files, self._tasks)
        return reader.items(self._task.items.total)

    @property
    def failed_items(self) -> Iterator[FailedItem]:
        """Items of an array, of whatever kind, that failed for good, in order."""
        if self._task.items is None:
            raise InvalidInput(f"{self.name} is no array.", "Look at `state` and `detail`.")
        return failed_items(self._tasks, self.task_id)

    @cached_property
    def files(self) -> ResultFiles:
        """What it left in its output directory."""
        return ResultFiles(self._files, self.task_id)

    @cached_property
    def logs(self) -> Log:
        """What its newest attempt wrote; `log(…)` has those of others."""
        return self.log()

    @property
    def stdout(self) -> str:
        return self.logs.stdout

    @property
    def stderr(self) -> str:
        return self.logs.stderr

    def log(self, attempt: int | None = None, *, item: int | None = None) -> Log:
        """What an attempt wrote: the newest, this one, or the newest that had an item."""
        if item is not None:
            had = self._tasks.attempts(self.task_id, item=item, limit=1).attempts
            if not had:
                raise NotFound(
                    f"No attempt of {self.name} has had an item {item}.",
                    "An array's items begin with 0; one that waits has had no attempt yet.",
                )
            attempt = had[0].number
        newest = None if self._newest is None else self._newest.number
        return Log(self._tasks, self.task_id, attempt or newest)

    def refresh(self) -> Self:
        """Asks how it is now."""
        self._task = self._tasks.get(self.task_id)
        for name in ("usage", "logs"):
            self.__dict__.pop(name, None)
        if not self._task.state.is_final:
            self.__dict__.pop("files", None)
        return self

    def wait(self, timeout: float | None = None) -> Self:
        """Until the task is over, and gives this object back; raises TimeoutError if it is not."""
        until = None if timeout is None else time.monotonic() + timeout
        absence = Absence(self._tasks.patience)
        while not self.is_over:
            rest = _POLL_SECONDS if until is None else until - time.monotonic()
            if rest <= 0:
                raise TimeoutError(f"{self.name} has not ended within {timeout:g} seconds.")
            try:
                is_over = self._pieces.is_over(self.task_id, min(rest, _POLL_SECONDS))
                absence = Absence(self._tasks.patience)
            except PotluckError as error:
                absence.wait(error)
            else:
                if is_over:
                    self.refresh()
        return self

    def __repr__(self) -> str:
        return f"<Result of {self.name} ({self.task_id}): {self.state.value}>"

    def _repr_html_(self) -> str:
        """In a notebook: what is known of it, its files and its pictures."""
        return result_html(self)

    @property
    def _newest(self) -> AttemptView | None:
        return max(self._task.attempts, key=lambda each: each.number, default=None)

    def _told(self, behind: int) -> TaskResult:
        return self._pieces.get(self.task_id, behind)

    def _check_function(self) -> None:
        if self._task.kind != TaskKind.FUNCTION:
            raise InvalidInput(
                f"{self.name} is a {self._task.kind}, which returns no value.",
                "What it has written is in `stdout`, what it left in `files`.",
            )
        if not self.is_over:
            self.refresh()
        if not self.is_over:
            raise Conflict(f"{self.name} has not ended yet.", "Call `wait()` first.")

    def _only(self) -> ResultItem:
        told = self._told(0)
        if not told.pieces:
            gone = self.ok or self._is_past_keeping()
            return ResultItem(0, None, self._gone() if gone else ended(told))
        piece = told.pieces[-1]
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
            f"What {self.name} returned is no longer kept{since}.",
            "How long results are kept is the pool's choice; submit it again.",
        )
