"""Functions in domain words: submitted, granted, and what they give."""

from typing import Any

from potluck.model.blob import Value
from potluck.model.ids import TaskId
from potluck.model.task import EndReason, Limits, Requirements, TaskRequest
from potluck.model.task_spec import FunctionSpec
from potluck.server.flow.report import result_poll
from potluck.server.flow.submit import submit
from potluck.wire import item_file
from potluck.wire.consumer import TaskView
from potluck.wire.provider import Finished, Grant, ItemOutcome, ItemsDone, ReturnedItems
from potluck.wire.results import AskResults, ResultPiece, TaskResult, Wanted
from tests.server.flow.pool import Pool, lease_of

SPEC = FunctionSpec("double", Value(b"code"), Value(b"inputs"), "3.11")


def function(**changes: Any) -> TaskRequest:
    requirements = {k: changes.pop(k) for k in list(changes) if k in Requirements.__struct_fields__}
    limits = {k: changes.pop(k) for k in list(changes) if k in Limits.__struct_fields__}
    spec = changes.pop("spec", SPEC)
    return TaskRequest(spec, None, Requirements(**requirements), Limits(**limits), **changes)


async def call(pool: Pool, **changes: Any) -> TaskView:
    return await submit.submit(pool.services, pool.alice, function(**changes), None)


def returned(grant: Grant, start: int, end: int, values: Value | None = None) -> ItemsDone:
    """Each item gave its own number, unless it is said."""
    packed_items = Value(item_file.pack([str(item).encode() for item in range(start, end)]))
    return ItemsDone(
        lease_of(grant), returned=(ReturnedItems(start, end, 0.0, values or packed_items),)
    )


def raised(grant: Grant, item: int, error: bytes = b"an error") -> ItemsDone:
    outcome = ItemOutcome(item, EndReason.EXCEPTION, 0.0, None, "", error)
    return ItemsDone(lease_of(grant), (outcome,))


def gave(grant: Grant, data: bytes, reason: EndReason = EndReason.COMPLETED) -> Finished:
    exit_code = 0 if reason is EndReason.COMPLETED else None
    return Finished(lease_of(grant), reason, exit_code, value=Value(data))


async def ask(pool: Pool, task_id: TaskId, behind: int = 0, wait: float = 0.0) -> list[TaskResult]:
    request = AskResults((Wanted(task_id, behind),), wait)
    return (await result_poll.wait_for_results(pool.services, pool.alice, request)).results


def shown(pieces: list[ResultPiece]) -> list[tuple[int, int, bytes, bool]]:
    return [
        (result_piece.start, result_piece.end, result_piece.value.data, result_piece.is_error)
        for result_piece in pieces
    ]
