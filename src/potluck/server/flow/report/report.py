"""Report: a node says how an attempt goes and how it ended. Many at once, an answer for each.

Fenced by (attempt, token, node); idempotent: the same final report again gets the same answer,
another one a conflict, and an item of an array counts once. An attempt that was given up for lost,
and whose work nobody else has been granted since, is taken back by whatever its node says.

All that a request says of one attempt is taken in one transaction, and starts and ends of many
attempts in one for each hundred; whatever is in the way of one of them is found out in a
transaction of its own, so that nobody fails for another.
"""

import hashlib
from collections.abc import Iterator, Sequence

import msgspec
import structlog

from potluck.decide.arrays.items import accept as judge
from potluck.decide.arrays.items import sort_out
from potluck.decide.lifecycle import ITEM_REPORTABLE, REPORTABLE, is_consistent
from potluck.model.error import Conflict, InvalidInput, PotluckError
from potluck.model.ids import AttemptId, NodeId, TaskId
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, TaskState
from potluck.server import topics
from potluck.server.auth.tokens import is_lease_token
from potluck.server.flow.lease.adopt import readopt
from potluck.server.flow.lease.lease import check_token, hear, stale
from potluck.server.flow.notify.notify import hurry
from potluck.server.flow.report import function_results
from potluck.server.flow.report.attempt_progress import (
    Course,
    accept,
    prepare,
    start,
    write,
)
from potluck.server.flow.settle.settle import Ending, end_attempt, end_attempts
from potluck.server.services import Parts
from potluck.store.attempts import attempts
from potluck.store.attempts.attempts import EndingAttempt
from potluck.store.database import Connection
from potluck.store.nodes.nodes import Owner
from potluck.store.tasks import item_failures
from potluck.wire import codec
from potluck.wire.provider import (
    Finished,
    ItemsDone,
    Preparing,
    Report,
    ReportAnswer,
    ReportAnswers,
    Reports,
    Started,
)

log = structlog.get_logger()

# Their rows are locked for as long as all of them take.
_TOGETHER = 100


async def report(parts: Parts, owner: Owner, node_id: NodeId, reports: Reports) -> ReportAnswers:
    await hear(parts, owner, node_id)
    whole = await _take_whole(parts, node_id, reports.reports)
    if whole is not None:
        await hurry(parts)
        return ReportAnswers(whole)
    answers: dict[int, ReportAnswer] = {}
    for batch in _batches(reports.reports):
        taken = await _take_together(parts, node_id, [each for _, each in batch])
        for place, each in batch:
            attempt_id = each.lease.attempt_id
            answers[place] = (
                ReportAnswer(attempt_id, accepted=True)
                if attempt_id in taken
                else await _answer(parts, node_id, each)
            )
    await hurry(parts)
    return ReportAnswers([answers[place] for place in sorted(answers)])


async def _take_whole(
    parts: Parts, node_id: NodeId, reports: Sequence[Report]
) -> list[ReportAnswer] | None:
    """All that is said of one attempt, in one transaction; None if they are for one at a time.

    A short call is started and finished in one request. Of one attempt only: rows of several are
    locked kind by kind. What is said after its end is for one at a time too.
    """
    attempt_ids = {each.lease.attempt_id for each in reports}
    good = all(_has_true_token(parts, each) for each in reports)
    is_over = any(isinstance(each, Finished) for each in reports[:-1])
    if len(attempt_ids) > 1 or len(reports) < 2 or is_over or not good:
        return None
    try:
        async with parts.database.transaction() as connection:
            task_id = await _take(parts, connection, node_id, reports)
    except (Conflict, InvalidInput):
        return None
    if task_id is not None:
        await _wake(parts, task_id)
    return [ReportAnswer(each.lease.attempt_id, accepted=True) for each in reports]


def _batches(reports: Sequence[Report]) -> Iterator[list[tuple[int, Report]]]:
    """Reports of one kind, each attempt once; what is said of one attempt stays in its order."""
    waiting = list(enumerate(reports))
    while waiting:
        kind, said = type(waiting[0][1]), set[AttemptId]()
        batch: list[tuple[int, Report]] = []
        later: list[tuple[int, Report]] = []
        for place, each in waiting:
            fits = type(each) is kind and len(batch) < _TOGETHER
            if fits and each.lease.attempt_id not in said:
                batch.append((place, each))
            else:
                later.append((place, each))
            said.add(each.lease.attempt_id)
        yield batch
        waiting = later


async def _take_together(parts: Parts, node_id: NodeId, batch: Sequence[Report]) -> set[AttemptId]:
    """Those attempts of which the report was taken; the others are for one at a time."""
    good = [each for each in batch if _has_true_token(parts, each)]
    started = [each for each in good if isinstance(each, Started)]
    finished = [each for each in good if isinstance(each, Finished)]
    if len(good) < 2 or not (started or finished):
        return set()
    try:
        async with parts.database.transaction() as connection:
            if started:
                return await _start_together(parts, connection, node_id, started)
            ended = await _finish_together(parts, connection, node_id, finished)
    except PotluckError:
        raise
    except Exception:
        log.warning("reports could not be taken together; one by one", exc_info=True)
        return set()
    for task_id in ended.values():
        await _wake(parts, task_id)
    return set(ended)


def _has_true_token(parts: Parts, each: Report) -> bool:
    return is_lease_token(parts.keys.lease, each.lease.attempt_id, each.lease.token)


async def _answer(parts: Parts, node_id: NodeId, each: Report) -> ReportAnswer:
    """One report in a transaction of its own."""
    try:
        check_token(parts, each.lease)
        async with parts.database.transaction() as connection:
            progressed = await _take(parts, connection, node_id, [each])
    except (Conflict, InvalidInput) as refused:
        return ReportAnswer(each.lease.attempt_id, accepted=False, code=refused.code)
    if progressed is not None:
        await _wake(parts, progressed)
    return ReportAnswer(each.lease.attempt_id, accepted=True)


async def _wake(parts: Parts, task_id: TaskId) -> None:
    """Whoever waits for what it gives, and whoever follows it."""
    await parts.live.wake(topics.results(task_id))
    await parts.live.wake(topics.task(task_id))


async def _take(
    parts: Parts, connection: Connection, node_id: NodeId, said: Sequence[Report]
) -> TaskId | None:
    """All that is said of one attempt, of which nothing is behind its end: decided one by one, and
    written once. Answers the task, if somebody may wait for just this: he is not kept until all is
    told.
    """
    for each in said:
        _check(each)
    course = Course(await _held(parts, connection, node_id, said[0]))
    is_awaited = False
    for each in said:
        if course.is_open:
            await write(parts, connection, [course])
            course = Course(await _held(parts, connection, node_id, each))
        match each:
            case Preparing():
                course = _prepare(course)
            case Started():
                course = start(_live(course))
            case ItemsDone():
                is_awaited = True
                course = await _accept(connection, _live(course), each)
            case Finished():
                await _finish(parts, connection, course, each)
                return course.attempt.task_id
    await write(parts, connection, [course])
    return course.attempt.task_id if is_awaited else None


def _check(each: Report) -> None:
    """What can be told without looking."""
    match each:
        case ItemsDone():
            _check_items(each)
        case Finished():
            if each.reason not in REPORTABLE:
                raise InvalidInput(f"A node can not say that an attempt ended by {each.reason}.")
            _check_consistent(each.reason, each.exit_code)
            function_results.check(each.value)


async def _held(
    parts: Parts, connection: Connection, node_id: NodeId, first: Report
) -> EndingAttempt:
    """The attempt under lock: live, or ended, or taken back if it was given up."""
    attempt_id = first.lease.attempt_id
    attempt = await attempts.lock_for_end(connection, attempt_id)
    if attempt is not None and attempt.reason is EndReason.LEASE_EXPIRED:
        is_over = isinstance(first, Finished)
        if isinstance(first, Finished) and _is_incomplete(attempt, first):
            raise stale(attempt_id)  # its outcomes came too late
        await readopt(parts, connection, attempt_id, node_id, is_over=is_over)
        attempt = await attempts.lock_for_end(connection, attempt_id)
    if attempt is None or attempt.node_id != node_id:
        raise stale(attempt_id)
    return attempt


def _live(course: Course) -> Course:
    if not course.attempt.state.is_live:
        raise stale(course.attempt.id)
    return course


def _prepare(course: Course) -> Course:
    if course.attempt.state not in (AttemptState.GRANTED, AttemptState.PREPARING):
        raise stale(course.attempt.id)
    return prepare(course)


async def _start_together(
    parts: Parts, connection: Connection, node_id: NodeId, told: Sequence[Started]
) -> set[AttemptId]:
    """Answers those that are live."""
    attempt_ids = [each.lease.attempt_id for each in told]
    courses: list[Course] = []
    begun: set[TaskId] = set()
    for attempt in await attempts.lock_many_for_end(connection, attempt_ids):
        if attempt.node_id != node_id or not attempt.state.is_live:
            continue
        if attempt.task_id in begun:
            attempt = msgspec.structs.replace(attempt, task_state=TaskState.RUNNING)
        courses.append(start(Course(attempt)))
        begun.add(attempt.task_id)
    await write(parts, connection, courses)
    return {course.attempt.id for course in courses}


async def _accept(connection: Connection, course: Course, each: ItemsDone) -> Course:
    attempt = course.attempt
    if attempt.held is None:
        raise stale(attempt.id)
    told = sort_out(each.returned, attempt.held.remaining)
    if told is None:
        raise InvalidInput("Some of the items that were returned together count, and some do not.")
    returned = [each.returned[place] for place in told.runs]
    held = msgspec.structs.replace(attempt.held, remaining=told.remaining)
    failed = [one.item for one in each.outcomes if one.reason is not EndReason.COMPLETED]
    before = await item_failures.failures(connection, attempt.task_id, failed)
    accepted = judge(each.outcomes, held, before, returned)
    if not accepted.done:
        return course
    await item_failures.fail(connection, attempt.task_id, attempt.id, accepted.failures)
    results = function_results.of_items(attempt, each, returned, accepted.failures)
    return accept(course, accepted, results)


def _check_items(each: ItemsDone) -> None:
    for outcome in each.outcomes:
        if outcome.reason not in ITEM_REPORTABLE:
            raise InvalidInput(f"An item can not have ended by {outcome.reason}.")
        _check_consistent(outcome.reason, outcome.exit_code)
    for run in each.returned:
        if run.end <= run.start:
            raise InvalidInput("Items were returned of which there are none.")


def _check_consistent(reason: EndReason, exit_code: int | None) -> None:
    if not is_consistent(reason, exit_code):
        raise InvalidInput(f"{reason} does not go with exit status {exit_code}.")


async def _finish_together(
    parts: Parts, connection: Connection, node_id: NodeId, told: Sequence[Finished]
) -> dict[AttemptId, TaskId]:
    """Ends those that nothing is in the way of, one of each task."""
    said = {each.lease.attempt_id: each for each in told if _is_reportable(each)}
    locked = await attempts.lock_many_for_end(connection, list(said))
    ready = {
        attempt.task_id: (Course(attempt), _ending_of(said[attempt.id]))
        for attempt in locked
        if attempt.node_id == node_id and attempt.state.is_live
        if not _is_incomplete(attempt, said[attempt.id])
        and not function_results.misfit(attempt, said[attempt.id])
    }
    if ready:
        await end_attempts(parts, connection, list(ready.values()))
    return {course.attempt.id: course.attempt.task_id for course, _ in ready.values()}


async def _finish(parts: Parts, connection: Connection, course: Course, each: Finished) -> None:
    attempt, ending = course.attempt, _ending_of(each)
    if not attempt.state.is_live:
        _check_repeated(attempt, ending)
        return
    if _is_incomplete(attempt, each):
        raise InvalidInput("A range is complete when each of its items has an outcome.")
    if misfit := function_results.misfit(attempt, each):
        raise InvalidInput(misfit)
    await end_attempt(parts, connection, course, ending)


def _is_reportable(each: Finished) -> bool:
    is_usual = each.reason in REPORTABLE and is_consistent(each.reason, each.exit_code)
    # What was uploaded may be in the way of one, and not of the others.
    return is_usual and (each.value is None or each.value.blob is None)


def _is_incomplete(attempt: EndingAttempt, each: Finished) -> bool:
    has_rest = attempt.array is not None and bool(attempt.array.remaining)
    return each.reason is EndReason.COMPLETED and has_rest


def _ending_of(each: Finished) -> Ending:
    report_hash = hashlib.sha256(codec.encode_json(each)).digest()
    # Who restarted has measured nothing, which is not the same as having used nothing.
    usage = None if each.reason is EndReason.NODE_RESTARTED else each.usage
    return Ending(each.reason, each.exit_code, each.detail, usage, report_hash, each.value)


def _check_repeated(attempt: EndingAttempt, ending: Ending) -> None:
    if attempt.report_hash is None:
        raise stale(attempt.id)
    if attempt.report_hash != ending.report_hash:
        raise Conflict(f"{attempt.id} was reported differently before.")
