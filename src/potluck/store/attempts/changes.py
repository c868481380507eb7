"""Writes the effects of reports and ends on attempts and their tasks, in one statement.

The caller has locked the attempts and tasks, and has decided.
"""

from collections.abc import Sequence

from potluck.decide.attempt_change import AttemptChange, TaskChange
from potluck.model.ids import TaskId
from potluck.store.database import Connection
from potluck.store.events.outbox import Event
from potluck.store.item_ranges import multirange_text
from potluck.store.sealing.vault import Vault
from potluck.store.sql_files import load
from potluck.store.tasks.function_results import seal_values
from potluck.store.tasks.last_lines import seal_attempts

_sql = load("changes")


async def write(
    connection: Connection,
    vault: Vault,
    changes: Sequence[AttemptChange],
    events: Sequence[Event],
    slice_seconds: float,
) -> None:
    """Of several attempts of one task, the first decides about the task. Events are in order. The
    caller keeps result blobs from being removed.
    """
    if not changes:
        return
    first: dict[TaskId, AttemptChange] = {}
    for change in changes:
        first.setdefault(change.attempt.task_id, change)
    decisive = list(first.values())
    tasks = [change.task or TaskChange(change.attempt.task_state) for change in decisive]
    results = [piece for change in changes for piece in change.results]
    await connection.execute(
        *_sql.write(
            attempts=changes,
            slice_seconds=slice_seconds,
            done=[multirange_text(change.accepted.done) for change in changes],
            sealed_last_lines=seal_attempts(vault, changes),
            refuting=[change for change in decisive if change.is_refuting],
            decisive=decisive,
            tasks=tasks,
            pending=[
                multirange_text((*change.accepted.again, *task.back))
                for change, task in zip(decisive, tasks, strict=True)
            ],
            failed=[
                change.accepted.failed_for_good + (task.given_up is not None)
                for change, task in zip(decisive, tasks, strict=True)
            ],
            result_counts=[len(change.results) for change in decisive],
            results=results,
            sealed_values=seal_values(vault, results),
            events=events,
        )
    )


async def pass_on(
    connection: Connection, ended: Sequence[AttemptChange], slice_seconds: float
) -> None:
    """The next attempt in line takes the share over; after `write`, in the same transaction."""
    holders = [change.attempt.id for change in ended if change.attempt.has_heirs]
    if holders:
        await connection.execute(*_sql.pass_on(attempt_ids=holders, slice_seconds=slice_seconds))
