"""Endings: many attempts that end at once, a hundred in a transaction.

One that can not be ended must not keep the others: if a hundred fail together, each is tried by
itself, and what fails then is told and left for the next time. Nothing more is tried of a database
that does not answer: each try may wait for long, and the next time comes by itself.
"""

from collections.abc import Callable, Sequence

import structlog

from potluck.decide.attempt_change import AttemptChange, LockedAttempt, end
from potluck.model.error import Unavailable
from potluck.model.ids import AttemptId, NodeId, TaskId
from potluck.model.task import EndReason
from potluck.server.flow.batch import try_batch_then_each
from potluck.server.flow.settle.settle import retry_wait, write_changes
from potluck.server.services import Services
from potluck.store.attempts import attempts
from potluck.store.scheduler import leader
from potluck.store.scheduler.leader import Leadership

log = structlog.get_logger()

# Their rows are locked for as long as all of them take.
_TOGETHER = 100

# Why a live attempt ends, seen under lock; None if it does not.
Choose = Callable[[LockedAttempt], EndReason | None]


async def end_many(
    services: Services,
    attempt_ids: Sequence[AttemptId],
    choose: Choose,
    leadership: Leadership | None = None,
    detail: str = "",
) -> list[LockedAttempt]:
    """Those that ended: whoever ended one meanwhile wins. Of a term, only while it runs."""
    ended: list[LockedAttempt] = []

    async def end_batch(batch: Sequence[AttemptId]) -> dict[AttemptId, LockedAttempt | None]:
        answers = await _end(services, batch, choose, leadership, detail)
        ended.extend(attempt for attempt in answers.values() if attempt is not None)
        return answers

    try:
        for start in range(0, len(attempt_ids), _TOGETHER):
            batch = attempt_ids[start : start + _TOGETHER]
            await try_batch_then_each(batch, end_batch, but=Unavailable)
    except Unavailable as error:
        count = len(attempt_ids) - len(ended)
        log.warning("attempts wait for the database", count=count, detail=str(error))
    return ended


async def withdraw_unfetched(services: Services, node_id: NodeId) -> None:
    """What a node has not fetched goes elsewhere, if a device of it takes nothing new by now."""
    async with services.database.transaction() as connection:
        closed = await attempts.unfetched(connection, node_id)
    await end_many(services, closed, _withdrawal)


def _withdrawal(attempt: LockedAttempt) -> EndReason | None:
    """Unless it was fetched or its devices were opened meanwhile."""
    if attempt.was_fetched or attempt.is_available:
        return None
    return EndReason.WITHDRAWN


async def _end(
    services: Services,
    batch: Sequence[AttemptId],
    choose: Choose,
    leadership: Leadership | None,
    detail: str,
) -> dict[AttemptId, LockedAttempt | None]:
    """Those that ended, and None for the others; but of each task only the first has an answer, as
    what becomes of the task depends on the one before.
    """
    answers = dict[AttemptId, LockedAttempt | None].fromkeys(batch)
    ends: dict[TaskId, AttemptChange] = {}
    async with services.database.transaction() as connection:
        if leadership is not None and not await leader.holds(connection, leadership):
            return answers
        for attempt in await attempts.lock_many_for_end(connection, batch):
            reason = choose(attempt) if attempt.state.is_live else None
            if reason is None:
                continue
            if attempt.task_id in ends:
                del answers[attempt.id]
            else:
                change = AttemptChange(attempt)
                ends[attempt.task_id] = end(change, reason, retry_wait(services), detail=detail)
                answers[attempt.id] = attempt
        await write_changes(services, connection, list(ends.values()))
    return answers
