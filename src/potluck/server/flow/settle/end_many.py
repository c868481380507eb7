"""Ends many attempts, up to a hundred per transaction.

A failing batch is retried one by one, so that one attempt cannot block the others; what fails then
is logged and left for the next run. If the database does not answer, the rest is left too: each try
may block for long, and the next run comes by itself.
"""

from collections.abc import Callable, Sequence

import structlog

from potluck.decide.attempt_change import AttemptChange, end
from potluck.decide.locked_attempt import LockedAttempt
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

# All rows of a batch stay locked until it commits.
_BATCH = 100

# Why a locked live attempt ends; None if it does not.
Choose = Callable[[LockedAttempt], EndReason | None]


async def end_many(
    services: Services,
    attempt_ids: Sequence[AttemptId],
    choose: Choose,
    leadership: Leadership | None = None,
    detail: str = "",
) -> list[LockedAttempt]:
    """Returns those it ended, not those ended concurrently. With a term, only while it runs."""
    ended: list[LockedAttempt] = []

    async def end_batch(batch: Sequence[AttemptId]) -> dict[AttemptId, LockedAttempt | None]:
        answers = await _end(services, batch, choose, leadership, detail)
        ended.extend(attempt for attempt in answers.values() if attempt is not None)
        return answers

    try:
        for start in range(0, len(attempt_ids), _BATCH):
            batch = attempt_ids[start : start + _BATCH]
            await try_batch_then_each(batch, end_batch, but=Unavailable)
    except Unavailable as error:
        count = len(attempt_ids) - len(ended)
        log.warning(
            "attempts left for the next run: the database is unavailable",
            count=count,
            detail=str(error),
        )
    return ended


async def withdraw_unfetched(services: Services, node_id: NodeId) -> None:
    """Withdraws a node's unfetched attempts on devices that no longer take new work."""
    async with services.database.transaction() as connection:
        unfetched = await attempts.list_unfetched(connection, node_id)
    await end_many(services, unfetched, _withdrawal)


def _withdrawal(attempt: LockedAttempt) -> EndReason | None:
    """None if it was fetched or its devices became available again meanwhile."""
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
    """The ended attempts, and None for the others. Only the first attempt of each task is answered:
    the next one's outcome depends on it.
    """
    answers = dict[AttemptId, LockedAttempt | None].fromkeys(batch)
    ends: dict[TaskId, AttemptChange] = {}
    async with services.database.transaction() as connection:
        if leadership is not None and not await leader.is_current(connection, leadership):
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
