"""Stores function results in the transaction that accepts them.

For a call: when the task ends, so that a repeated try leaves nothing. For an array: with its items,
and an error for each item that failed permanently. Other task kinds leave only files and logs.
"""

from collections.abc import Sequence

from potluck.decide.arrays.items import ItemFailure
from potluck.decide.attempt_change import NewResult
from potluck.decide.locked_attempt import LockedAttempt
from potluck.model.blob import Value
from potluck.model.error import InvalidInput
from potluck.model.task import EndReason
from potluck.model.terms import TaskKind
from potluck.store.database import Connection
from potluck.store.files import blobs
from potluck.wire.provider import Finished, ItemsDone, ReturnedItems


def check_value(value: Value | None) -> None:
    if value is not None and value.blob is not None and value.data:
        raise InvalidInput("A value has both data and a blob.")


def find_mismatch(attempt: LockedAttempt, report: Finished) -> str:
    """Why an attempt cannot end with, or without, this value; empty if it can."""
    is_call = attempt.kind is TaskKind.FUNCTION and attempt.array is None
    if report.value is not None and not (is_call and report.reason.facts.has_value):
        return "Only a function that is not an array ends with a value or an error."
    if report.value is None and is_call and report.reason is EndReason.COMPLETED:
        return "A completed function must end with its return value."
    return ""


def item_results(
    attempt: LockedAttempt,
    report: ItemsDone,
    returned: Sequence[ReturnedItems],
    failures: Sequence[ItemFailure],
) -> list[NewResult]:
    """The results of some items: returned values, and the errors of permanent failures."""
    is_function = attempt.kind is TaskKind.FUNCTION
    if returned and not is_function:
        raise InvalidInput("Only functions return values.")
    for run in returned:
        check_value(run.values)
    if not is_function:
        return []
    if any(outcome.reason is EndReason.COMPLETED for outcome in report.outcomes):
        raise InvalidInput("A succeeded item of a function must include its return value.")
    pieces = [
        NewResult(attempt.task_id, attempt.id, run.start, run.end, run.values) for run in returned
    ]
    errors = {outcome.item: outcome.error for outcome in reversed(report.outcomes)}
    pieces += [
        NewResult(
            attempt.task_id,
            attempt.id,
            failure.item,
            failure.item + 1,
            Value(errors[failure.item]),
            True,
        )
        for failure in failures
        if failure.is_final
    ]
    return pieces


async def hold_blobs(
    connection: Connection, attempt: LockedAttempt, pieces: Sequence[NewResult]
) -> None:
    """Claims blobs that the attempt uploaded. Call last: blobs come last in the lock order."""
    large = [(piece.start, piece.value.blob) for piece in pieces if piece.value.blob is not None]
    if large:
        consumer_id = attempt.billable.consumer_id
        await blobs.keep_values(connection, consumer_id, attempt.task_id, attempt.id, large)
