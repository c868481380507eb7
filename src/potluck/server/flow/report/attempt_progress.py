"""Course: how an attempt under lock goes on, decided report by report and written once.

What a node says of an attempt in one request is taken step by step. Each step answers the course
with the attempt as it is then; nothing is written before the last of them.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from potluck.decide.arrays.items import Accepted
from potluck.model.event import EventKind
from potluck.model.ids import TaskId
from potluck.model.lease import AttemptState
from potluck.model.task import TaskState
from potluck.server.flow.report import function_results
from potluck.server.services import Parts
from potluck.store.attempts import changes
from potluck.store.attempts.attempts import EndingAttempt
from potluck.store.attempts.changes import (
    NONE_ACCEPTED,
    AttemptChange,
    Changes,
    TaskChange,
)
from potluck.store.database import Connection
from potluck.store.events.outbox import Event
from potluck.store.tasks.function_results import NewResult


class Course(Struct, frozen=True):
    """An attempt as it is now, and what of that is not written yet."""

    attempt: EndingAttempt
    has_begun: bool = False
    has_task_begun: bool = False
    accepted: Accepted = NONE_ACCEPTED
    results: tuple[NewResult, ...] = ()
    events: tuple[Event, ...] = ()
    # Items were accepted and others are left: how often the next of them was lost is not known
    # here. Whoever decides anything more writes this down, and reads anew.
    is_open: bool = False

    @property
    def is_news(self) -> bool:
        return bool(self.events or self.accepted.done)


def prepare(course: Course) -> Course:
    """Of an attempt that has not started."""
    if course.attempt.state is AttemptState.PREPARING:
        return course
    return _become(course, AttemptState.PREPARING, EventKind.ATTEMPT_PREPARING)


def start(course: Course) -> Course:
    """Of one that is live; its task runs from now on, unless another range of it does."""
    if course.attempt.state is AttemptState.RUNNING:
        return course
    course = _become(course, AttemptState.RUNNING, EventKind.ATTEMPT_RUNNING)
    attempt = course.attempt
    begun = attempt.billable.started_at or attempt.taken_at
    attempt = replace(attempt, billable=replace(attempt.billable, started_at=begun))
    course = replace(course, attempt=attempt, has_begun=True)
    if attempt.task_state is not TaskState.ASSIGNED:
        return course
    data = {"state": TaskState.RUNNING, **about(attempt)}
    told = Event(attempt.billable.consumer_id, EventKind.TASK_RUNNING, attempt.task_id, data=data)
    return replace(
        course,
        attempt=replace(attempt, task_state=TaskState.RUNNING),
        has_task_begun=True,
        events=(*course.events, told),
    )


def accept(course: Course, accepted: Accepted, results: Sequence[NewResult]) -> Course:
    """Of a range whose course has accepted nothing yet."""
    attempt = course.attempt
    assert attempt.array is not None and attempt.held is not None, "only ranges have items"
    course = replace(course, accepted=accepted, results=tuple(results))
    if sum(map(len, accepted.done)) < sum(map(len, attempt.held.remaining)):
        return replace(course, is_open=True)
    failed = sum(failure.is_final for failure in accepted.failures)
    array = replace(
        attempt.array,
        remaining=(),
        has_pending=attempt.array.has_pending or bool(accepted.again),
        has_outcomes=attempt.array.has_outcomes or accepted.succeeded + failed > 0,
        items_failed=attempt.array.items_failed + failed,
    )
    seconds = attempt.billable.items_seconds + accepted.run_seconds
    attempt = replace(
        attempt,
        array=array,
        held=replace(attempt.held, remaining=()),
        history=replace(attempt.history, failures=0, losses=0),
        billable=replace(attempt.billable, items_seconds=seconds),
    )
    return replace(course, attempt=attempt)


async def write(parts: Parts, connection: Connection, courses: Sequence[Course]) -> None:
    """Of attempts that go on. Of two of one task the first has started it, if any has."""
    news = [course for course in courses if course.is_news]
    moved: dict[TaskId, TaskChange] = {}
    for course in news:
        moved.setdefault(course.attempt.task_id, _task_change(course))
    told = Changes(
        [_attempt_change(course) for course in news],
        list(moved.values()),
        [piece for course in news for piece in course.results],
        [event for course in news for event in course.events],
    )
    await changes.write(connection, parts.vault, told)
    for course in news:
        await function_results.hold_blobs(connection, course.attempt, course.results)


def _attempt_change(course: Course) -> AttemptChange:
    attempt = course.attempt
    return AttemptChange(
        attempt.id, attempt.state, has_begun=course.has_begun, accepted=course.accepted
    )


def _task_change(course: Course) -> TaskChange:
    attempt = course.attempt
    return TaskChange(
        attempt.task_id,
        attempt.task_state,
        is_decided=False,
        has_begun=course.has_task_begun,
        accepted=course.accepted,
    )


def _become(course: Course, state: AttemptState, kind: EventKind) -> Course:
    attempt = course.attempt
    data = {"state": state, **about(attempt)}
    told = Event(attempt.billable.consumer_id, kind, attempt.task_id, attempt.node_id, data)
    return replace(course, attempt=replace(attempt, state=state), events=(*course.events, told))


def about(attempt: EndingAttempt) -> dict[str, str]:
    return {"attempt_id": attempt.id, "node_id": attempt.node_id}
