"""Report: a node reports progress and ends of attempts, many per request, with an answer for each.

Fenced by (attempt, token, node) and idempotent: repeating a final report gets the same answer, a
different one a conflict, and an array item counts once. An attempt that was given up for lost is
re-adopted by any report, if its work has not been granted again.

All reports of one attempt in a request share a transaction; so do starts and ends of many attempts,
a hundred per transaction. A report that cannot be taken this way gets its own transaction, so
that none fails because of another.

One request does a bounded amount of work: what is beyond it is answered `unavailable`, and the node
sends it again.
"""

import hashlib
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from potluck.decide.arrays.items import accept_outcomes as judge
from potluck.decide.arrays.items import find_counted_runs
from potluck.decide.attempt_change import AttemptChange, accept, end, prepare, start
from potluck.decide.failure_record import FailureRecords
from potluck.decide.locked_attempt import LockedAttempt
from potluck.model.error import Conflict, InvalidInput, PotluckError, Unavailable
from potluck.model.ids import AttemptId, NodeId, TaskId
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, TaskState
from potluck.model.usage import Usage
from potluck.server import topics
from potluck.server.auth.tokens import is_lease_token
from potluck.server.flow.batch import try_batch_then_each
from potluck.server.flow.lease.adopt import find_or_readopt, stale_lease
from potluck.server.flow.lease.lease import check_token, mark_node_seen
from potluck.server.flow.notify.notify import wake_leader
from potluck.server.flow.report import function_results
from potluck.server.flow.report.check_report import check_report, is_plain_end
from potluck.server.flow.report.request_work import RequestWork, split_batches
from potluck.server.flow.report.stream_report import accept_simple, refill_after
from potluck.server.flow.settle.settle import retry_wait, write_changes
from potluck.server.services import Services
from potluck.store.attempts import attempts
from potluck.store.database import Connection
from potluck.store.nodes import nodes
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


async def report(
    services: Services, owner: Owner, node_id: NodeId, reports: Reports
) -> ReportAnswers:
    await mark_node_seen(services, owner, node_id)
    items = reports.reports
    if any(isinstance(item, Finished) and item.reason is EndReason.NODE_LEFT for item in items):
        # First: a node that gives its work back as it stops would be assigned it again.
        async with services.database.statement() as connection:
            await nodes.stop_polling(connection, node_id, owner)
    answers: dict[int, ReportAnswer] = {}
    work = RequestWork(items)

    async def take_all(places: Sequence[int]) -> dict[int, ReportAnswer]:
        chosen = work.choose_batch(places)
        await _take_reports(services, node_id, [items[place] for place in chosen])
        return {place: _accepted(items[place]) for place in chosen}

    async def take_batch(places: Sequence[int]) -> dict[int, ReportAnswer]:
        chosen = work.choose_batch(places)
        taken = await _take_batch(services, node_id, [items[place] for place in chosen])
        return {p: _accepted(items[p]) for p in chosen if items[p].lease.attempt_id in taken}

    async def take_one(place: int) -> ReportAnswer:
        if not work.is_taken_alone(place):
            return _postponed(items[place])
        return await _answer(services, node_id, items[place])

    if await accept_simple(services, node_id, items):
        return ReportAnswers([_accepted(item) for item in items])
    if _is_of_one_attempt(services, items):
        refused = (Conflict, InvalidInput)
        answers = await try_batch_then_each(range(len(items)), take_all, take_one, catch=refused)
    else:
        for batch in split_batches(items):
            if work.is_used_up:
                break
            answers |= await try_batch_then_each(batch, take_batch, take_one, but=PotluckError)
    await wake_leader(services)
    return ReportAnswers([answers.get(p) or _postponed(item) for p, item in enumerate(items)])


def _is_of_one_attempt(services: Services, items: Sequence[Report]) -> bool:
    """Whether one transaction takes them all, such as start and end of a short call.

    Only for a single attempt, since rows of several are locked kind by kind, and only if nothing
    follows its end.
    """
    is_one = len(items) > 1 and len({item.lease.attempt_id for item in items}) == 1
    ends_early = any(isinstance(item, Finished) for item in items[:-1])
    return is_one and not ends_early and all(_has_valid_token(services, item) for item in items)


async def _take_batch(
    services: Services, node_id: NodeId, batch: Sequence[Report]
) -> set[AttemptId]:
    """Returns the attempts whose reports were taken; the others are taken one by one."""
    by_attempt: dict[AttemptId, list[Report]] = {}
    for item in batch:
        if _has_valid_token(services, item) and not isinstance(item, ItemsDone):
            by_attempt.setdefault(item.lease.attempt_id, []).append(item)
    if len(by_attempt) < 2:
        return set()
    async with services.database.transaction() as connection:
        taken, ended = await _begin_and_end(services, connection, node_id, by_attempt)
    for task_id in ended:
        await _wake(services, task_id)
    return taken


def _has_valid_token(services: Services, item: Report) -> bool:
    return is_lease_token(services.keys.lease, item.lease.attempt_id, item.lease.token)


async def _answer(services: Services, node_id: NodeId, item: Report) -> ReportAnswer:
    """Takes one report in its own transaction."""
    try:
        check_token(services, item.lease)
        await _take_reports(services, node_id, [item])
    except (Conflict, InvalidInput) as error:
        return ReportAnswer(item.lease.attempt_id, accepted=False, code=error.code)
    return _accepted(item)


def _accepted(item: Report) -> ReportAnswer:
    return ReportAnswer(item.lease.attempt_id, accepted=True)


def _postponed(item: Report) -> ReportAnswer:
    return ReportAnswer(item.lease.attempt_id, accepted=False, code=Unavailable.code)


async def _take_reports(services: Services, node_id: NodeId, items: Sequence[Report]) -> None:
    """Takes all reports of one attempt in one transaction."""
    async with services.database.transaction() as connection:
        task_id = await _take(services, connection, node_id, items)
    if task_id is not None:
        await _wake(services, task_id)
        await refill_after(services, task_id, items)


async def _wake(services: Services, task_id: TaskId) -> None:
    """Wakes those that wait for its results or follow it."""
    await services.live.wake(topics.results(task_id))
    await services.live.wake(topics.task(task_id))


async def _take(
    services: Services, connection: Connection, node_id: NodeId, items: Sequence[Report]
) -> TaskId | None:
    """Takes reports of one attempt, with nothing after its end; decided in order, written once.
    Returns the task if a client may wait for this result, so that it is woken before the outbox
    runs.
    """
    for item in items:
        check_report(item)
    change = AttemptChange(await _held(services, connection, node_id, items[0]))
    is_awaited = False
    for item in items:
        if change.is_open:
            await write_changes(services, connection, [change])
            change = AttemptChange(await _held(services, connection, node_id, item))
        match item:
            case Preparing():
                change = _prepare(change)
            case Started():
                change = start(_live(change))
            case ItemsDone():
                is_awaited = True
                change = await _accept(services, connection, _live(change), item)
            case Finished():
                if change.attempt.state.is_live:
                    records = await _read_records(connection, [item])
                    ended = _finish(services, change, item, records)
                    await write_changes(services, connection, [ended])
                else:
                    _check_repeated(change.attempt, item)
                return change.attempt.task_id
    await write_changes(services, connection, [change])
    return change.attempt.task_id if is_awaited else None


async def _held(
    services: Services, connection: Connection, node_id: NodeId, first: Report
) -> LockedAttempt:
    """Locks the attempt: live, ended, or re-adopted if it was given up."""
    attempt_id = first.lease.attempt_id

    async def lookup() -> LockedAttempt | None:
        attempt = await attempts.lock_for_end(connection, attempt_id)
        if attempt is None or attempt.node_id != node_id:
            raise stale_lease(attempt_id)
        if attempt.array is not None and attempt.array.is_stream:
            services.stream_attempts.note(attempt_id, attempt.billable.consumer_id, attempt.task_id)
        if attempt.reason is not EndReason.LEASE_EXPIRED:
            return attempt
        if isinstance(first, Finished) and _is_incomplete(attempt, first):
            raise stale_lease(attempt_id)  # its outcomes came too late
        return None

    is_over = isinstance(first, Finished)
    return await find_or_readopt(services, connection, attempt_id, node_id, lookup, is_over=is_over)


def _live(change: AttemptChange) -> AttemptChange:
    if not change.attempt.state.is_live:
        raise stale_lease(change.attempt.id)
    return change


def _prepare(change: AttemptChange) -> AttemptChange:
    if not _may_prepare(change.attempt):
        raise stale_lease(change.attempt.id)
    return prepare(change)


def _may_prepare(attempt: LockedAttempt) -> bool:
    return attempt.state in (AttemptState.GRANTED, AttemptState.PREPARING)


async def _begin_and_end(
    services: Services,
    connection: Connection,
    node_id: NodeId,
    by_attempt: Mapping[AttemptId, Sequence[Report]],
) -> tuple[set[AttemptId], set[TaskId]]:
    """Prepares, starts and ends attempts without obstacles; ends one per task. Those that ended so
    before count too. Returns the attempts, and the tasks of those that ended."""
    ends = {key: last for key, each in by_attempt.items() if isinstance(last := each[-1], Finished)}
    locked = await attempts.lock_many_for_end(connection, list(by_attempt))
    own = [attempt for attempt in locked if attempt.node_id == node_id]
    ready = [a for a in own if a.state.is_live and _is_unobstructed(a, ends.get(a.id))]
    records = await _read_records(connection, [ends[a.id] for a in ready if a.id in ends])
    changes: dict[AttemptId, AttemptChange] = {}
    begun_tasks, ended_tasks = set[TaskId](), set[TaskId]()
    for attempt in ready:
        if attempt.task_id in ended_tasks or (
            attempt.task_id in begun_tasks and attempt.id in ends
        ):
            continue
        change = _begin(attempt, by_attempt[attempt.id], attempt.task_id in begun_tasks)
        if change is None:
            continue
        begun_tasks.add(attempt.task_id)
        if (finished := ends.get(attempt.id)) is not None:
            change = _end(services, change, finished, records)
            ended_tasks.add(attempt.task_id)
        changes[attempt.id] = change
    await write_changes(services, connection, list(changes.values()))
    repeated = [
        a
        for a in own
        if not a.state.is_live and a.id in ends and a.report_hash == _hash(ends[a.id])
    ]
    return {*changes, *(a.id for a in repeated)}, ended_tasks | {a.task_id for a in repeated}


def _begin(
    attempt: LockedAttempt, reports: Sequence[Report], is_task_begun: bool
) -> AttemptChange | None:
    """None if it cannot prepare any more."""
    change = AttemptChange(attempt)
    for report in reports:
        if isinstance(report, Preparing):
            if not _may_prepare(change.attempt):
                return None
            change = prepare(change)
        elif isinstance(report, Started):
            if is_task_begun:
                change = replace(
                    change, attempt=replace(change.attempt, task_state=TaskState.RUNNING)
                )
            change = start(change)
    return change


def _is_unobstructed(attempt: LockedAttempt, finished: Finished | None) -> bool:
    return finished is None or (
        is_plain_end(finished)
        and not _is_incomplete(attempt, finished)
        and not function_results.find_mismatch(attempt, finished)
        and _may_stop(attempt, finished)
    )


async def _accept(
    services: Services, connection: Connection, change: AttemptChange, report: ItemsDone
) -> AttemptChange:
    attempt = change.attempt
    if attempt.held is None:
        raise stale_lease(attempt.id)
    held = attempt.held
    sorted_items = find_counted_runs(report.returned, held.remaining, held.cancelled)
    if sorted_items is None:
        raise InvalidInput("Some of the items returned together are open, and some are not.")
    returned = [report.returned[place] for place in sorted_items.runs]
    held = replace(held, remaining=sorted_items.remaining)
    failed = [
        outcome.item for outcome in report.outcomes if outcome.reason is not EndReason.COMPLETED
    ]
    before = await item_failures.count_failures(connection, attempt.task_id, failed)
    accepted = judge(report.outcomes, held, before, returned)
    if not accepted.done:
        return change
    await item_failures.record_failures(
        connection, services.vault, attempt.task_id, attempt.id, accepted.failures
    )
    results = function_results.item_results(attempt, report, returned, accepted.failures)
    return accept(change, accepted, results)


async def _read_records(connection: Connection, reports: Sequence[Finished]) -> FailureRecords:
    """Reads nothing unless attempts have failed, or were stopped by a silence that may be false."""
    failed = [
        item.lease.attempt_id
        for item in reports
        if item.reason.facts.attempt_state is AttemptState.FAILED
        or item.reason is EndReason.SILENCE
    ]
    return FailureRecords(await attempts.failure_records(connection, failed) if failed else {})


def _finish(
    services: Services, change: AttemptChange, report: Finished, records: FailureRecords
) -> AttemptChange:
    if _is_incomplete(change.attempt, report):
        raise InvalidInput("A range completes only when each item has an outcome.")
    if mismatch := function_results.find_mismatch(change.attempt, report):
        raise InvalidInput(mismatch)
    if not _may_stop(change.attempt, report):
        raise InvalidInput("The server did not ask to stop it for want of credit.")
    return _end(services, change, report, records)


def _measured(report: Finished) -> Usage | None:
    """None from a node that restarted or ended the attempt itself: it has measured nothing, which
    differs from no usage."""
    is_lost = report.reason.facts.attempt_state is AttemptState.LOST
    return None if is_lost and report.usage == Usage() else report.usage


def _end(
    services: Services, change: AttemptChange, report: Finished, records: FailureRecords
) -> AttemptChange:
    consumer_id = change.attempt.billable.consumer_id
    ended = end(
        change,
        report.reason,
        retry_wait(services),
        exit_code=report.exit_code,
        detail=report.detail,
        last_lines=report.last_lines,
        usage=_measured(report),
        report_hash=_hash(report),
        value=report.value,
        record=records.find(change.attempt.id, consumer_id),
    )
    records.note(consumer_id, ended.spared_micro)
    return ended


def _may_stop(attempt: LockedAttempt, report: Finished) -> bool:
    """A node is paid for what it stops for want of credit, so it cannot claim that by itself."""
    return report.reason is not EndReason.CREDIT or attempt.is_unfunded


def _is_incomplete(attempt: LockedAttempt, report: Finished) -> bool:
    array = attempt.array  # of a call stream the rest goes back: it was granted during the end
    has_rest = array is not None and bool(array.remaining) and not array.is_stream
    return report.reason is EndReason.COMPLETED and has_rest


def _hash(report: Finished) -> bytes:
    return hashlib.sha256(codec.encode_json(report)).digest()


def _check_repeated(attempt: LockedAttempt, report: Finished) -> None:
    if attempt.report_hash is None:
        raise stale_lease(attempt.id)
    if attempt.report_hash != _hash(report):
        raise Conflict(f"{attempt.id} was reported differently before.")
