"""Follow: what happens to one task, as it happens, from any point on.

The position is (version, attempt, log offset): all that was sent before is known by it, so a stream
that was cut goes on exactly where it ended. The truth is read; wake-ups only hurry.
"""

import re
from collections.abc import AsyncIterator, Iterable
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from potluck.decide.explain.sentences import (
    waits_for_start,
    waits_for_taker,
    waits_for_tasks,
    waits_for_time,
)
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
from potluck.wire.consumer import FollowedLog, FollowedState, FollowEvent, TaskView

# Numbers that fit a column, and between them an attempt, or none yet.
_POSITION = re.compile(r"([0-9]{1,18})\.(attempt_[0-9a-z]{26})?\.([0-9]{1,9})")


class StreamPosition(Struct, frozen=True):
    """How far a follower has come."""

    version: int = 0
    attempt_id: AttemptId | None = None
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.version}.{self.attempt_id or ''}.{self.offset}"


def parse_position(text: str | None) -> StreamPosition:
    """From a Last-Event-ID. From the beginning is for those who say nothing: whoever was cut off
    and is misunderstood would be told everything twice.
    """
    if text is None:
        return StreamPosition()
    found = _POSITION.fullmatch(text)
    if found is None:
        raise InvalidInput(
            "That `Last-Event-ID` is no position in a task.",
            "Send the `id` that this task's stream sent last, or none to begin anew.",
        )
    return StreamPosition(int(found[1]), AttemptId(found[2]) if found[2] else None, int(found[3]))


class TaskStreamItem(Struct, frozen=True):
    position: StreamPosition
    event: FollowEvent | None  # None keeps a quiet connection alive


async def view(services: Services, account_id: AccountId, task_id: TaskId) -> TaskView:
    """The task as it is, with the reason for which it waits."""
    async with services.database.transaction() as connection:
        task = await tasks.get(connection, task_id, account_id)
    return (await as_shown(services, account_id, [task]))[0]


async def as_shown(
    services: Services, account_id: AccountId, found: list[TaskRecord]
) -> list[TaskView]:
    """With why they wait, and with how long what they leave is kept."""
    kept = timedelta(seconds=services.settings.keep_results_seconds)
    return [
        task if task.finished_at is None else replace(task, kept_until=task.finished_at + kept)
        for task in await _with_reasons(
            services, account_id, [add_pause_reason(one) for one in found]
        )
    ]


def add_pause_reason(found: TaskRecord) -> TaskView:
    """With why it waits, if it is not for something to become free."""
    task = found.view
    if task.state is not TaskState.QUEUED:
        return task
    if found.waits_for:
        return replace(task, waiting=waits_for_tasks(found.waits_for))
    return replace(task, waiting=_pause(task)) if found.is_put_off else task


def _pause(task: TaskView) -> WaitingReason:
    if not task.attempts:
        assert task.not_before is not None, "what is put off has a time to wait for"
        return waits_for_start(task.not_before)
    last = task.attempts[-1]
    is_declined = last.reason is EndReason.DECLINED
    return waits_for_taker(last.node_name, last.detail) if is_declined else waits_for_time()


async def _with_reasons(
    services: Services, account_id: AccountId, found: list[TaskView]
) -> list[TaskView]:
    """Those that wait for something to become free, with what the last round said about them."""
    waiting = [each for each in found if each.state is TaskState.QUEUED and each.waiting is None]
    if not waiting:
        return found
    failed_on = await _failed_on(services, waiting)
    names = [
        topics.waiting(_line(account_id, task, failed_on.get(task.id, ()))) for task in waiting
    ]
    *known, fails = await services.live.get_many([*names, topics.TROUBLE])
    if fails is not None:  # what was told before may be true no longer
        known = [codec.encode_json(scheduler_health.REASON)] * len(names)
    reasons = {task.id: said for task, said in zip(waiting, known, strict=True) if said}
    return [_with_reason(task, reasons.get(task.id)) for task in found]


def _line(account_id: AccountId, task: TaskView, failed_on: Iterable[NodeId] = ()) -> str:
    array = None if task.items is None else task.id
    return topics.line_name(
        account_id, task.priority, task.requirements, task.limits, failed_on, array, task.kind
    )


async def _failed_on(services: Services, waiting: list[TaskView]) -> dict[TaskId, list[NodeId]]:
    """Not from the attempts that are shown, which are the newest few; an array avoids no node."""
    tried = [task.id for task in waiting if task.attempts and task.items is None]
    if not tried:
        return {}
    async with services.database.transaction() as connection:
        return await tasks.failed_on(connection, tried)


def _with_reason(task: TaskView, said: bytes | None) -> TaskView:
    if said is None:
        return task
    return replace(task, waiting=codec.decode_json(said, WaitingReason))


async def follow(
    services: Services, account_id: AccountId, task_id: TaskId, position: StreamPosition
) -> AsyncIterator[TaskStreamItem]:
    """Ends after the final state, once all of the log was sent; or when the server stops."""
    waiting: WaitingReason | None = None
    line = topics.line(_line(account_id, await view(services, account_id, task_id)))
    stopped = topics.shutdown(services.instance)
    async with services.live.listen(topics.task(task_id), line, stopped) as listener:
        while True:
            task = await view(services, account_id, task_id)
            async for followed in _log(services, account_id, task, position):
                position = followed.position
                yield followed
            if task.version > position.version or task.waiting != waiting:
                position = replace(position, version=task.version)
                waiting = task.waiting
                yield TaskStreamItem(position, FollowedState(task))
            if task.state.is_final or services.stopping.is_set():
                return
            if not await listener.wait(services.settings.follow_poll_seconds):
                yield TaskStreamItem(position, None)


async def _log(
    services: Services, account_id: AccountId, task: TaskView, position: StreamPosition
) -> AsyncIterator[TaskStreamItem]:
    """What the logs of all attempts, one after the other, have beyond the position.

    Those of an array run side by side, and are read one by one instead.
    """
    if task.items is not None:
        return
    for attempt in task.attempts:
        # Ids sort by time: what came before the position's attempt was sent before.
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
