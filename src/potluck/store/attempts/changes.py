"""What becomes of attempts and their tasks by reports and ends: written in one statement.

The caller has locked the attempts and the tasks, has decided, and says here what is true now.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from potluck.decide.arrays.items import Accepted
from potluck.model.ids import AttemptId, TaskId
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, ItemRange, TaskState
from potluck.model.usage import Usage
from potluck.store.database import Connection
from potluck.store.events.outbox import Event
from potluck.store.item_ranges import multirange_text
from potluck.store.sealing.vault import Vault
from potluck.store.sql_files import load
from potluck.store.tasks.function_results import NewResult, sealed_values

_sql = load("changes")
NONE_ACCEPTED = Accepted((), 0, (), (), 0.0)


class AttemptChange(Struct, frozen=True):
    """An attempt that is live, and goes on or ends: it does if there is a reason."""

    attempt_id: AttemptId
    state: AttemptState
    reason: EndReason | None = None
    charge_micro: int = 0
    exit_code: int | None = None
    detail: str = ""
    usage: Usage | None = None
    report_hash: bytes | None = None
    is_finished: bool = False  # the node brought it to an end of its own
    is_nodes_loss: bool = False
    has_begun: bool = False  # it was started, perhaps just before its end
    accepted: Accepted = NONE_ACCEPTED  # of a range

    @property
    def is_over(self) -> bool:
        return self.reason is not None

    @property
    def done(self) -> str:
        return multirange_text(self.accepted.done)

    @property
    def items_done(self) -> int:
        return sum(map(len, self.accepted.done))

    @property
    def items_failed(self) -> int:
        return self.items_done - self.accepted.succeeded


class TaskChange(Struct, frozen=True):
    """What becomes of a task when its attempt goes on or ends."""

    task_id: TaskId
    state: TaskState
    reason: EndReason | None = None
    not_before: datetime | None = None
    exit_code: int | None = None
    detail: str = ""
    failures: int = 0
    losses: int = 0
    charge_micro: int = 0
    back: Sequence[ItemRange] = ()  # items that somebody else may be granted
    items_failed: int = 0  # beside those that were accepted as failed
    is_decided: bool = True  # an attempt has ended; else why the task is as it is stays said
    has_begun: bool = False
    accepted: Accepted = NONE_ACCEPTED

    @property
    def has_outcomes(self) -> bool:
        return bool(self.accepted.done)

    @property
    def pending(self) -> str:
        """The items that go back to the queue."""
        return multirange_text((*self.accepted.again, *self.back))

    @property
    def all_items_failed(self) -> int:
        return self.items_failed + sum(failure.is_final for failure in self.accepted.failures)


class Changes(Struct, frozen=True):
    """Of different attempts and different tasks; events in the order in which they are told."""

    attempts: Sequence[AttemptChange] = ()
    tasks: Sequence[TaskChange] = ()
    results: Sequence[NewResult] = ()
    events: Sequence[Event] = ()


async def write(connection: Connection, vault: Vault, changes: Changes) -> None:
    """Whoever gives results has seen to it that blobs stay, or does so after this."""
    if not (changes.attempts or changes.tasks or changes.events):
        return
    await connection.execute(
        *_sql.write(
            attempts=changes.attempts,
            tasks=changes.tasks,
            result_counts=[
                sum(result.task_id == task.task_id for result in changes.results)
                for task in changes.tasks
            ],
            results=changes.results,
            sealed_values=sealed_values(vault, changes.results),
            events=changes.events,
        )
    )
