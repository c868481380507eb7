"""Values: what functions gave is kept in the transaction that accepts it.

Of a call: once the task is over, so that a try which is repeated leaves nothing. Of an array: with
the items that it is of, and an error for each item that failed for good. Only of functions: what
other kinds leave are files and logs.
"""

from collections.abc import Sequence

from msgspec import Struct

from potluck.decide.arrays.items import ItemFailure
from potluck.model.blob import Value
from potluck.model.error import InvalidInput
from potluck.model.ids import AccountId
from potluck.model.task import EndReason, TaskState
from potluck.model.terms import TaskKind
from potluck.server.parts import Parts
from potluck.store import blobs, results
from potluck.store.attempts import EndingAttempt
from potluck.store.database import Connection
from potluck.store.items import LockedRange
from potluck.store.results import NewResult
from potluck.wire.provider import Finished, ItemsDone, ReturnedItems

_WITH_VALUE = (EndReason.COMPLETED, EndReason.EXCEPTION)


class Given(Struct, frozen=True):
    """How an attempt ended, what came with it, and where that leaves its task."""

    attempt: EndingAttempt
    reason: EndReason
    value: Value | None
    given_up: ItemFailure | None
    task_state: TaskState


def check(value: Value | None) -> None:
    if value is not None and value.blob is not None and value.data:
        raise InvalidInput("A value is given twice, as data and as a blob.")


def fits(attempt: EndingAttempt, each: Finished) -> bool:
    """Whether the attempt may have given a value, if it says that it has."""
    if each.value is None:
        return True
    is_call = attempt.kind is TaskKind.FUNCTION and attempt.array is None
    return is_call and each.reason in _WITH_VALUE


async def keep(parts: Parts, connection: Connection, given: Sequence[Given]) -> None:
    """What ended attempts gave, and an error for each item that was given up."""
    pieces: list[NewResult] = []
    for each in given:
        new = _pieces(each)
        await _keep_blobs(connection, each.attempt.billable.consumer_id, new)
        pieces += new
    await results.add(connection, parts.vault, pieces)


def _pieces(each: Given) -> list[NewResult]:
    attempt = each.attempt
    if attempt.kind is not TaskKind.FUNCTION:
        return []
    if each.given_up is not None:
        item = each.given_up.item
        return [NewResult(attempt.task_id, attempt.id, item, item + 1, Value(), True)]
    if each.value is None or not each.task_state.is_final:
        return []
    is_error = each.reason is EndReason.EXCEPTION
    return [NewResult(attempt.task_id, attempt.id, 0, 1, each.value, is_error)]


async def keep_items(
    parts: Parts,
    connection: Connection,
    locked: LockedRange,
    told: ItemsDone,
    returned: Sequence[ReturnedItems],
    failures: Sequence[ItemFailure],
) -> None:
    """Of a part of a range: what was returned, and what those raised that failed for good."""
    is_function = locked.kind is TaskKind.FUNCTION
    if returned and not is_function:
        raise InvalidInput("Only functions return values.")
    for run in returned:
        check(run.values)
    if not is_function:
        return
    if any(outcome.reason is EndReason.COMPLETED for outcome in told.outcomes):
        raise InvalidInput("An item of a function that succeeded comes with what it returned.")
    attempt_id = told.lease.attempt_id
    pieces = [
        NewResult(locked.task_id, attempt_id, run.start, run.end, run.values) for run in returned
    ]
    errors = {outcome.item: outcome.error for outcome in reversed(told.outcomes)}
    pieces += [
        NewResult(locked.task_id, attempt_id, one.item, one.item + 1, Value(errors[one.item]), True)
        for one in failures
        if one.is_final
    ]
    await _keep_blobs(connection, locked.consumer_id, pieces)
    await results.add(connection, parts.vault, pieces)


async def _keep_blobs(
    connection: Connection, account_id: AccountId, pieces: Sequence[NewResult]
) -> None:
    """Those of one attempt, which must have sent them."""
    large = [(piece.start, piece.value.blob) for piece in pieces if piece.value.blob is not None]
    if large:
        task_id, attempt_id = pieces[0].task_id, pieces[0].attempt_id
        await blobs.keep_values(connection, account_id, task_id, attempt_id, large)
