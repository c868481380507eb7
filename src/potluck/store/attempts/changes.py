"""What becomes of attempts and their tasks by reports and ends: written in one statement.

The caller has locked the attempts and the tasks, has decided, and says here what is true now.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from potluck.decide.arrays.items import Accepted
from potluck.model.ids import AttemptId, TaskId
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, ItemRange, TaskState
from potluck.model.usage import Usage
from potluck.store.database import Connection
from potluck.store.events import outbox
from potluck.store.events.outbox import Event
from potluck.store.item_ranges import multirange_text
from potluck.store.sealing.vault import Vault
from potluck.store.sql_files import load
from potluck.store.tasks.function_results import NewResult, sealed_columns

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
        _sql.write,
        *_columns([_attempt_row(each) for each in changes.attempts], 16),
        *_columns([_task_row(each, changes.results) for each in changes.tasks], 18),
        *sealed_columns(vault, changes.results),
        *outbox.columns(changes.events),
    )


def _columns(rows: list[tuple[Any, ...]], count: int) -> list[list[Any]]:
    return [[row[place] for row in rows] for place in range(count)]


def _attempt_row(change: AttemptChange) -> tuple[Any, ...]:
    accepted = change.accepted
    items_done = sum(map(len, accepted.done))
    return (
        change.attempt_id,
        change.state,
        change.reason,
        change.detail,
        change.exit_code,
        change.usage,
        change.charge_micro,
        change.report_hash,
        change.has_begun,
        change.reason is not None,
        int(change.is_finished),
        int(change.is_nodes_loss),
        multirange_text(accepted.done),
        items_done,
        items_done - accepted.succeeded,
        accepted.run_seconds,
    )


def _task_row(change: TaskChange, results: Sequence[NewResult]) -> tuple[Any, ...]:
    accepted = change.accepted
    return (
        change.task_id,
        change.state,
        change.is_decided,
        change.reason,
        change.detail,
        change.exit_code,
        change.has_begun,
        bool(accepted.done),
        change.failures,
        change.losses,
        change.charge_micro,
        change.not_before,
        multirange_text((*accepted.again, *change.back)),
        accepted.succeeded,
        change.items_failed + sum(failure.is_final for failure in accepted.failures),
        accepted.run_seconds,
        sum(piece.task_id == change.task_id for piece in results),
        change.state.is_final,
    )
