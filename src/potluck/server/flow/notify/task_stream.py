"""Task stream: the state and log of one task, live, from any position on.

The position is (version, attempt, log offset) and identifies everything sent before, so a stream
that was cut resumes exactly. Data always comes from the database; wake-ups only speed it up.
"""

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from potluck.decide.explain.sentences import (
    waits_after_decline,
    waits_for_back_off,
    waits_for_start,
    waits_for_tasks,
)
from potluck.decide.lease_grace import LATEST_BEAT
from potluck.model.error import InvalidInput
from potluck.model.ids import AccountId, AttemptId, NodeId, TaskId
from potluck.model.task import EndReason, TaskState, WaitingReason
from potluck.server import topics
from potluck.server.flow.execute.attempt_log import read_log
from potluck.server.leader import scheduler_health
from potluck.server.services import Services
from potluck.store.tasks import tasks
from potluck.store.tasks.tasks import TaskRecord
from potluck.wire import codec
from potluck.wire.consumer import (
    AttemptView,
    FollowedLog,
    FollowedState,
    FollowEvent,
    NodeSilence,
    TaskView,
)

# Numbers that fit their columns, and between them an attempt id, or nothing yet.
_POSITION = re.compile(r"([0-9]{1,18})\.(attempt_[0-9a-z]{26})?\.([0-9]{1,9})")


class StreamPosition(Struct, frozen=True):
    """How far a follower has read."""

    version: int = 0
    attempt_id: AttemptId | None = None
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.version}.{self.attempt_id or ''}.{self.offset}"


def parse_position(text: str | None) -> StreamPosition:
    """Parses a Last-Event-ID. Only a missing one starts from the beginning: a follower with a
    malformed one would receive everything twice.
    """
    if text is None:
        return StreamPosition()
    match = _POSITION.fullmatch(text)
    if match is None:
        raise InvalidInput(
            "That `Last-Event-ID` is not a position in a task stream.",
            "Send the last `id` of this task's stream, or none to start from the beginning.",
        )
    return StreamPosition(int(match[1]), AttemptId(match[2]) if match[2] else None, int(match[3]))


class TaskStreamItem(Struct, frozen=True):
    position: StreamPosition
    event: FollowEvent | None  # None keeps a quiet connection alive


async def view(services: Services, account_id: AccountId, task_id: TaskId) -> TaskView:
    """The task with the reason it waits for."""
    async with services.database.statement() as connection:
        task = await tasks.get(connection, services.vault, task_id, account_id)
    return (await to_task_views(services, account_id, [task]))[0]


async def to_task_views(
    services: Services, account_id: AccountId, records: list[TaskRecord]
) -> list[TaskView]:
    """Adds waiting reasons, silence of nodes and the time until which results are kept."""
    retention = timedelta(seconds=services.settings.keep_results_seconds)
    return [
        task if task.finished_at is None else replace(task, kept_until=task.finished_at + retention)
        for task in await _with_reasons(
            services, account_id, [_with_silence(services, record) for record in records]
        )
    ]


def _with_silence(services: Services, record: TaskRecord) -> TaskView:
    task, contact = add_pause_reason(record), record.contact
    overdue_after = timedelta(seconds=services.settings.heartbeat_seconds * LATEST_BEAT)
    if contact is None or contact.read_at - contact.seen_at <= overdue_after:
        return task
    return replace(task, silence=NodeSilence(contact.seen_at, contact.lease_expires_at))


def add_pause_reason(record: TaskRecord) -> TaskView:
    """Adds the reason, if the task waits for a time or other tasks rather than for capacity."""
    task = record.view
    if task.state is not TaskState.QUEUED:
        return task
    if record.waits_for:
        return replace(task, waiting=waits_for_tasks(record.waits_for))
    return replace(task, waiting=_pause(task)) if record.is_put_off else task


def _pause(task: TaskView) -> WaitingReason:
    if not task.attempts:
        assert task.not_before is not None, "a delayed task has a start time"
        return waits_for_start(task.not_before)
    last = task.attempts[-1]
    is_declined = last.reason is EndReason.DECLINED
    return waits_after_decline(last.node_name, last.detail) if is_declined else waits_for_back_off()


async def _with_reasons(
    services: Services, account_id: AccountId, views: list[TaskView]
) -> list[TaskView]:
    """Adds the reason from the last round to tasks that wait for capacity."""
    waiting = [task for task in views if task.state is TaskState.QUEUED and task.waiting is None]
    if not waiting:
        return views
    failed_on = await _failed_on(services, waiting)
    names = [
        topics.waiting(_line(account_id, task, failed_on.get(task.id, ()))) for task in waiting
    ]
    *encoded, failing = await services.live.get_many([*names, topics.TROUBLE])
    if failing is not None:  # older reasons may be outdated
        encoded = [codec.encode_json(scheduler_health.REASON)] * len(names)
    reasons = {task.id: reason for task, reason in zip(waiting, encoded, strict=True) if reason}
    return [_with_reason(task, reasons.get(task.id)) for task in views]


def _line(account_id: AccountId, task: TaskView, failed_on: Iterable[NodeId] = ()) -> str:
    array = None if task.items is None else task.id
    return topics.line_name(
        account_id, task.priority, task.requirements, task.limits, failed_on, array, task.kind
    )


async def _failed_on(services: Services, waiting: list[TaskView]) -> dict[TaskId, list[NodeId]]:
    """Not from the attempts in the view, which are only the newest; arrays avoid no node."""
    tried = [task.id for task in waiting if task.attempts and task.items is None]
    if not tried:
        return {}
    async with services.database.statement() as connection:
        return await tasks.failed_on(connection, tried)


def _with_reason(task: TaskView, reason: bytes | None) -> TaskView:
    if reason is None:
        return task
    return replace(task, waiting=codec.decode_json(reason, WaitingReason))


async def follow(
    services: Services, account_id: AccountId, task_id: TaskId, position: StreamPosition
) -> AsyncIterator[TaskStreamItem]:
    """Ends after the final state, once the whole log was sent, or when the server stops."""
    shown: tuple[WaitingReason | None, NodeSilence | None] = None, None
    line = topics.line(_line(account_id, await view(services, account_id, task_id)))
    shutdown_topic = topics.shutdown(services.instance)
    async with services.live.listen(topics.task(task_id), line, shutdown_topic) as listener:
        while True:
            task = await view(services, account_id, task_id)
            # What ended attempts wrote, the state, then what the live one writes.
            ended = [attempt for attempt in task.attempts if attempt.finished_at is not None]
            live = [attempt for attempt in task.attempts if attempt.finished_at is None]
            async for followed in _log(services, account_id, task, ended, position):
                position = followed.position
                yield followed
            if task.version > position.version or (task.waiting, task.silence) != shown:
                position = replace(position, version=task.version)
                shown = task.waiting, task.silence
                yield TaskStreamItem(position, FollowedState(task))
            async for followed in _log(services, account_id, task, live, position):
                position = followed.position
                yield followed
            if task.state.is_final or services.stopping.is_set():
                return
            if not await listener.wait(services.settings.follow_poll_seconds):
                yield TaskStreamItem(position, None)


async def _log(
    services: Services,
    account_id: AccountId,
    task: TaskView,
    attempts: Sequence[AttemptView],
    position: StreamPosition,
) -> AsyncIterator[TaskStreamItem]:
    """The logs of the attempts, one after the other, beyond the position.

    Not for arrays: their attempts run in parallel, and their logs are read one by one.
    """
    if task.items is not None:
        return
    for attempt in attempts:
        # Ids sort by time: earlier attempts were sent before.
        if position.attempt_id is not None and attempt.id < position.attempt_id:
            continue
        offset = position.offset if position.attempt_id == attempt.id else 0
        while True:
            page = await read_log(services, account_id, task.id, attempt.number, offset)
            if not page.pieces:
                break
            offset = page.next_offset
            yield TaskStreamItem(
                StreamPosition(position.version, attempt.id, offset), FollowedLog(page)
            )
