"""Appends to a call stream, and reports about it, that arrive during a commit share the next one.

A client sends one append at a time and a node one report, but a stream may be on many nodes. Their
statements lock its task one after the other anyway.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from potluck.model.error import Unavailable
from potluck.model.ids import AccountId, TaskId
from potluck.server.flow.batch import try_batch_then_each
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.tasks import streams

A = TypeVar("A")
StreamWrite: TypeAlias = Callable[[Connection], Awaitable[Any]]


async def write_stream(
    services: Services,
    account_id: AccountId,
    task_id: TaskId,
    write: Callable[[Connection], Awaitable[A]],
) -> A:
    """Runs one statement about a stream of the account, alone or in a transaction with others."""
    batch = partial(_write_batch, services, task_id)
    answer: A = await services.stream_writes.add((account_id, task_id), write, batch)
    return answer


async def _write_batch(
    services: Services, task_id: TaskId, writes: Sequence[StreamWrite]
) -> list[Any]:
    """The answer or the error of each; what fails together is tried alone."""

    async def write_all(places: Sequence[int]) -> dict[int, Any]:
        if len(places) < 2:
            return {}
        async with services.database.transaction() as connection:
            # First and in order: each statement locks the attempts that it needs, as heartbeats do.
            await streams.lock_attempts(connection, task_id)
            return {place: await writes[place](connection) for place in places}

    async def write_one(place: int) -> Any:
        try:
            async with services.database.statement() as connection:
                return await writes[place](connection)
        except Exception as error:  # noqa: BLE001 - it belongs to the caller
            return error

    # Without the database nothing is tried again: the batch may have been stored.
    answers = await try_batch_then_each(range(len(writes)), write_all, write_one, but=Unavailable)
    return [answers[place] for place in range(len(writes))]
