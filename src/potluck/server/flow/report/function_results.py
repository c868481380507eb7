"""Values: what functions gave is kept in the transaction that accepts it.

Of a call: once the task is over, so that a try which is repeated leaves nothing. Of an array: with
the items that it is of, and an error for each item that failed for good. Only of functions: what
other kinds leave are files and logs.
"""

from collections.abc import Sequence

from potluck.decide.arrays.items import ItemFailure
from potluck.decide.attempt_change import LockedAttempt, NewResult
from potluck.model.blob import Value
from potluck.model.error import InvalidInput
from potluck.model.task import EndReason
from potluck.model.terms import TaskKind
from potluck.store.database import Connection
from potluck.store.files import blobs
from potluck.wire.provider import Finished, ItemsDone, ReturnedItems


def check_value(value: Value | None) -> None:
    if value is not None and value.blob is not None and value.data:
        raise InvalidInput("A value is given twice, as data and as a blob.")


def find_mismatch(attempt: LockedAttempt, each: Finished) -> str:
    """Why an attempt can not end with the value that it has, or lacks; empty if it can."""
    is_call = attempt.kind is TaskKind.FUNCTION and attempt.array is None
    if each.value is not None and not (is_call and each.reason.facts.has_value):
        return "Only a function that is no array ends with a value or an error."
    if each.value is None and is_call and each.reason is EndReason.COMPLETED:
        return "A function that completed ends with what it returned."
    return ""


def item_results(
    attempt: LockedAttempt,
    told: ItemsDone,
    returned: Sequence[ReturnedItems],
    failures: Sequence[ItemFailure],
) -> list[NewResult]:
    """Of a part of a range: what was returned, and what those raised that failed for good."""
    is_function = attempt.kind is TaskKind.FUNCTION
    if returned and not is_function:
        raise InvalidInput("Only functions return values.")
    for run in returned:
        check_value(run.values)
    if not is_function:
        return []
    if any(outcome.reason is EndReason.COMPLETED for outcome in told.outcomes):
        raise InvalidInput("An item of a function that succeeded comes with what it returned.")
    pieces = [
        NewResult(attempt.task_id, attempt.id, run.start, run.end, run.values) for run in returned
    ]
    errors = {outcome.item: outcome.error for outcome in reversed(told.outcomes)}
    pieces += [
        NewResult(
            attempt.task_id, attempt.id, one.item, one.item + 1, Value(errors[one.item]), True
        )
        for one in failures
        if one.is_final
    ]
    return pieces


async def hold_blobs(
    connection: Connection, attempt: LockedAttempt, pieces: Sequence[NewResult]
) -> None:
    """Those of one attempt, which must have sent them. After all else: blobs are locked last."""
    large = [(piece.start, piece.value.blob) for piece in pieces if piece.value.blob is not None]
    if large:
        consumer_id = attempt.billable.consumer_id
        await blobs.keep_values(connection, consumer_id, attempt.task_id, attempt.id, large)
