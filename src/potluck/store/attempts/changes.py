"""What becomes of attempts and their tasks by reports and ends: written in one statement.

The caller has locked the attempts and the tasks, has decided, and says here what is true now.
"""

from collections.abc import Sequence
from typing import Any

from potluck.decide.attempt_change import AttemptChange, TaskChange
from potluck.model.ids import TaskId
from potluck.store.database import Connection
from potluck.store.events import outbox
from potluck.store.events.outbox import Event
from potluck.store.item_ranges import multirange_text
from potluck.store.sealing.vault import Vault
from potluck.store.sql_files import load
from potluck.store.tasks.function_results import sealed_columns

_sql = load("changes")


async def write(
    connection: Connection,
    vault: Vault,
    changes: Sequence[AttemptChange],
    told: Sequence[Event],
) -> None:
    """Of several attempts of one task the first says what becomes of it. The events are in order of
    being told. The caller keeps the blobs of results from being removed.
    """
    if not changes:
        return
    tasks: dict[TaskId, AttemptChange] = {}
    for change in changes:
        tasks.setdefault(change.attempt.task_id, change)
    results = [piece for change in changes for piece in change.results]
    await connection.execute(
        _sql.write,
        *_columns([_attempt_row(change) for change in changes], 16),
        *_columns([_task_row(change) for change in tasks.values()], 18),
        *sealed_columns(vault, results),
        *outbox.columns(told),
    )


def _columns(rows: list[tuple[Any, ...]], count: int) -> list[list[Any]]:
    return [[row[place] for row in rows] for place in range(count)]


def _attempt_row(change: AttemptChange) -> tuple[Any, ...]:
    accepted = change.accepted
    items_done = sum(map(len, accepted.done))
    return (
        change.attempt.id,
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


def _task_row(change: AttemptChange) -> tuple[Any, ...]:
    """Unless it is decided, why the task is as it is stays said."""
    accepted, attempt = change.accepted, change.attempt
    task = change.task or TaskChange(attempt.task_state)
    failed = sum(failure.is_final for failure in accepted.failures)
    return (
        attempt.task_id,
        task.state,
        change.task is not None,
        task.reason,
        task.detail,
        task.exit_code,
        change.has_task_begun,
        bool(accepted.done),
        task.failures,
        task.losses,
        task.charge_micro,
        task.not_before,
        multirange_text((*accepted.again, *task.back)),
        accepted.succeeded,
        failed + (task.given_up is not None),
        accepted.run_seconds,
        len(change.results),
        task.state.is_final,
    )
