"""Endings: many attempts that end at once, a hundred in a transaction.

One that can not be ended must not keep the others: if a hundred fail together, each is tried by
itself, and what fails then is told and left for the next time. Nothing more is tried of a database
that does not answer: each try may wait for long, and the next time comes by itself.
"""

from collections.abc import Callable, Sequence

import structlog

from potluck.model.error import Unavailable
from potluck.model.ids import AttemptId, NodeId
from potluck.model.task import EndReason
from potluck.server.flow.report.attempt_progress import Course
from potluck.server.flow.settle.settle import Ending, end_attempts
from potluck.server.services import Parts
from potluck.store.attempts import attempts
from potluck.store.attempts.attempts import EndingAttempt
from potluck.store.scheduler import leader
from potluck.store.scheduler.leader import Leadership

log = structlog.get_logger()

# Their rows are locked for as long as all of them take.
_TOGETHER = 100

# How a live attempt ends, seen under lock; None if it shall not.
Choose = Callable[[EndingAttempt], Ending | None]


async def end_many(
    parts: Parts,
    attempt_ids: Sequence[AttemptId],
    choose: Choose,
    leadership: Leadership | None = None,
) -> list[EndingAttempt]:
    """Those that ended: whoever ended one meanwhile wins. Of a term, only while it runs."""
    ended: list[EndingAttempt] = []
    try:
        for start in range(0, len(attempt_ids), _TOGETHER):
            batch = attempt_ids[start : start + _TOGETHER]
            done, left = await _survive(parts, batch, choose, leadership)
            ended += done
            for attempt_id in left:
                done, _ = await _survive(parts, [attempt_id], choose, leadership)
                ended += done
    except Unavailable as error:
        count = len(attempt_ids) - len(ended)
        log.warning("attempts wait for the database", count=count, detail=str(error))
    return ended


async def call_off(parts: Parts, node_id: NodeId) -> None:
    """What a node has not fetched goes elsewhere, if a device of it takes nothing new by now."""
    async with parts.database.transaction() as connection:
        closed = await attempts.unfetched(connection, node_id)
    await end_many(parts, closed, _withdrawal)


def _withdrawal(attempt: EndingAttempt) -> Ending | None:
    """Unless it was fetched or its devices were opened meanwhile."""
    if attempt.was_fetched or attempt.is_available:
        return None
    return Ending(EndReason.WITHDRAWN)


async def _survive(
    parts: Parts, batch: Sequence[AttemptId], choose: Choose, leadership: Leadership | None
) -> tuple[list[EndingAttempt], Sequence[AttemptId]]:
    try:
        return await _end(parts, batch, choose, leadership)
    except Unavailable:
        raise
    except Exception as error:  # noqa: BLE001  whatever it is, it is told, and the others go on
        if len(batch) == 1:
            log.error("an attempt could not be ended", attempt_id=batch[0], error=repr(error))
        return [], batch


async def _end(
    parts: Parts, batch: Sequence[AttemptId], choose: Choose, leadership: Leadership | None
) -> tuple[list[EndingAttempt], list[AttemptId]]:
    """One attempt of each task: what becomes of the task depends on the one before."""
    ready: dict[str, tuple[EndingAttempt, Ending]] = {}
    left: list[AttemptId] = []
    async with parts.database.transaction() as connection:
        if leadership is not None and not await leader.holds(connection, leadership):
            return [], []
        for attempt in await attempts.lock_many_for_end(connection, batch):
            ending = choose(attempt) if attempt.state.is_live else None
            if ending is None:
                continue
            if attempt.task_id in ready:
                left.append(attempt.id)
            else:
                ready[attempt.task_id] = (attempt, ending)
        if ready:
            ends = [(Course(attempt), ending) for attempt, ending in ready.values()]
            await end_attempts(parts, connection, ends)
    return [attempt for attempt, _ in ready.values()], left
