"""Report: a node says how an attempt goes and how it ended. Many at once, an answer for each.

Fenced by (attempt, token, node); idempotent: the same final report again gets the same answer,
another one a conflict.
"""

import hashlib

from potluck.decide.lifecycle import REPORTABLE, is_consistent
from potluck.model.error import Conflict, InvalidInput
from potluck.model.event import EventKind
from potluck.model.ids import NodeId
from potluck.server.flow.lease import check_token, hear, stale
from potluck.server.flow.notify import hurry, tell
from potluck.server.flow.settle import Ending, end_attempt
from potluck.server.parts import Parts
from potluck.store import attempts, tasks
from potluck.store.database import Connection
from potluck.store.events import Event
from potluck.store.nodes import Owner
from potluck.wire import codec
from potluck.wire.provider import (
    Finished,
    Preparing,
    Report,
    ReportAnswer,
    ReportAnswers,
    Reports,
    Started,
)


async def report(parts: Parts, owner: Owner, node_id: NodeId, reports: Reports) -> ReportAnswers:
    await hear(parts, owner, node_id)
    answers = [await _answer(parts, node_id, each) for each in reports.reports]
    await hurry(parts)
    return ReportAnswers(answers)


async def _answer(parts: Parts, node_id: NodeId, each: Report) -> ReportAnswer:
    """One report in a transaction of its own, so that nobody fails for another."""
    try:
        check_token(parts, each.lease)
        async with parts.database.transaction() as connection:
            await _take(parts, connection, node_id, each)
    except (Conflict, InvalidInput) as refused:
        return ReportAnswer(each.lease.attempt_id, accepted=False, code=refused.code)
    return ReportAnswer(each.lease.attempt_id, accepted=True)


async def _take(parts: Parts, connection: Connection, node_id: NodeId, each: Report) -> None:
    match each:
        case Preparing():
            await _preparing(connection, node_id, each)
        case Started():
            await _started(connection, node_id, each)
        case Finished():
            await _finished(parts, connection, node_id, each)


async def _preparing(connection: Connection, node_id: NodeId, each: Preparing) -> None:
    await attempts.lock_task(connection, each.lease.attempt_id)
    task_id = await attempts.prepare(connection, each.lease.attempt_id, node_id)
    if task_id is None:
        raise stale(each.lease.attempt_id)
    await tasks.touch(connection, task_id)


async def _started(connection: Connection, node_id: NodeId, each: Started) -> None:
    await attempts.lock_task(connection, each.lease.attempt_id)
    task_id = await attempts.start(connection, each.lease.attempt_id, node_id)
    if task_id is None:
        raise stale(each.lease.attempt_id)
    owner_id = await tasks.start(connection, task_id)
    if owner_id is not None:
        await tell(connection, Event(owner_id, EventKind.TASK_RUNNING, task_id))


async def _finished(parts: Parts, connection: Connection, node_id: NodeId, each: Finished) -> None:
    if each.reason not in REPORTABLE:
        raise InvalidInput(f"A node can not say that an attempt ended by {each.reason}.")
    if not is_consistent(each.reason, each.exit_code):
        raise InvalidInput(f"{each.reason} does not go with exit status {each.exit_code}.")
    attempt = await attempts.lock_for_end(connection, each.lease.attempt_id)
    if attempt is None or attempt.node_id != node_id:
        raise stale(each.lease.attempt_id)
    report_hash = hashlib.sha256(codec.encode_json(each)).digest()
    if not attempt.state.is_live:
        _check_repeated(attempt, report_hash)
        return
    ending = Ending(each.reason, each.exit_code, each.detail, each.usage, report_hash)
    await end_attempt(parts, connection, attempt, ending)


def _check_repeated(attempt: attempts.EndingAttempt, report_hash: bytes) -> None:
    if attempt.report_hash is None:
        raise stale(attempt.id)
    if attempt.report_hash != report_hash:
        raise Conflict(f"{attempt.id} was reported differently before.")
