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

from msgspec.structs import replace

from potluck.decide.arrays.items import accept as judge
from potluck.decide.arrays.items import sort_out
from potluck.decide.attempt_change import AttemptChange, LockedAttempt, accept, end, prepare, start
from potluck.decide.lifecycle import is_consistent
from potluck.model.error import Conflict, InvalidInput, PotluckError
from potluck.model.ids import AttemptId, NodeId, TaskId
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, Reporter, TaskState
from potluck.server import topics
from potluck.server.auth.tokens import is_lease_token
from potluck.server.flow.batch import try_batch_then_each
from potluck.server.flow.lease.adopt import find_or_readopt, stale_lease
from potluck.server.flow.lease.lease import check_token, mark_node_seen
from potluck.server.flow.notify.notify import hurry
from potluck.server.flow.report import function_results
from potluck.server.flow.settle.settle import retry_wait, write_changes
from potluck.server.services import Services
from potluck.store.attempts import attempts
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

# Their rows are locked for as long as all of them take.
_TOGETHER = 100


async def report(
    services: Services, owner: Owner, node_id: NodeId, reports: Reports
) -> ReportAnswers:
    await mark_node_seen(services, owner, node_id)
    said = reports.reports
    answers: dict[int, ReportAnswer] = {}

    async def whole(places: Sequence[int]) -> dict[int, ReportAnswer]:
        await _take_in_turn(services, node_id, said)
        return {place: _accepted(said[place]) for place in places}

    async def together(places: Sequence[int]) -> dict[int, ReportAnswer]:
        taken = await _take_together(services, node_id, [said[place] for place in places])
        return {p: _accepted(said[p]) for p in places if said[p].lease.attempt_id in taken}

    async def alone(place: int) -> ReportAnswer:
        return await _answer(services, node_id, said[place])

    if _is_of_one_attempt(services, said):
        refused = (Conflict, InvalidInput)
        answers = await try_batch_then_each(range(len(said)), whole, alone, catch=refused)
    else:
        for batch in _batches(said):
            answers |= await try_batch_then_each(batch, together, alone, but=PotluckError)
    await hurry(services)
    return ReportAnswers([answers[place] for place in range(len(said))])


def _is_of_one_attempt(services: Services, said: Sequence[Report]) -> bool:
    """Whether all of it is taken in one transaction: a short call is started and finished at once.

    Of one attempt only: rows of several are locked kind by kind. What is said after its end is for
    one at a time too.
    """
    is_one = len(said) > 1 and len({each.lease.attempt_id for each in said}) == 1
    is_over = any(isinstance(each, Finished) for each in said[:-1])
    return is_one and not is_over and all(_has_true_token(services, each) for each in said)


def _batches(reports: Sequence[Report]) -> Iterator[list[int]]:
    """Places of reports of one kind, each attempt once; those of one attempt stay in order."""
    waiting = list(range(len(reports)))
    while waiting:
        kind, said = type(reports[waiting[0]]), set[AttemptId]()
        batch: list[int] = []
        later: list[int] = []
        for place in waiting:
            attempt_id = reports[place].lease.attempt_id
            fits = type(reports[place]) is kind and len(batch) < _TOGETHER
            (batch if fits and attempt_id not in said else later).append(place)
            said.add(attempt_id)
        yield batch
        waiting = later


async def _take_together(
    services: Services, node_id: NodeId, batch: Sequence[Report]
) -> set[AttemptId]:
    """Those attempts of which the report was taken; the others are for one at a time."""
    good = [each for each in batch if _has_true_token(services, each)]
    started = [each for each in good if isinstance(each, Started)]
    finished = [each for each in good if isinstance(each, Finished)]
    if len(good) < 2 or not (started or finished):
        return set()
    async with services.database.transaction() as connection:
        if started:
            return await _start_together(services, connection, node_id, started)
        ended = await _finish_together(services, connection, node_id, finished)
    for task_id in ended.values():
        await _wake(services, task_id)
    return set(ended)


def _has_true_token(services: Services, each: Report) -> bool:
    return is_lease_token(services.keys.lease, each.lease.attempt_id, each.lease.token)


async def _answer(services: Services, node_id: NodeId, each: Report) -> ReportAnswer:
    """One report in a transaction of its own."""
    try:
        check_token(services, each.lease)
        await _take_in_turn(services, node_id, [each])
    except (Conflict, InvalidInput) as refused:
        return ReportAnswer(each.lease.attempt_id, accepted=False, code=refused.code)
    return _accepted(each)


def _accepted(each: Report) -> ReportAnswer:
    return ReportAnswer(each.lease.attempt_id, accepted=True)


async def _take_in_turn(services: Services, node_id: NodeId, said: Sequence[Report]) -> None:
    """All that is said of one attempt, in one transaction."""
    async with services.database.transaction() as connection:
        task_id = await _take(services, connection, node_id, said)
    if task_id is not None:
        await _wake(services, task_id)


async def _wake(services: Services, task_id: TaskId) -> None:
    """Whoever waits for what it gives, and whoever follows it."""
    await services.live.wake(topics.results(task_id))
    await services.live.wake(topics.task(task_id))


async def _take(
    services: Services, connection: Connection, node_id: NodeId, said: Sequence[Report]
) -> TaskId | None:
    """All that is said of one attempt, of which nothing is behind its end: decided one by one, and
    written once. Answers the task, if somebody may wait for just this: he is not kept until all is
    told.
    """
    for each in said:
        _check(each)
    change = AttemptChange(await _held(services, connection, node_id, said[0]))
    is_awaited = False
    for each in said:
        if change.is_open:
            await write_changes(services, connection, [change])
            change = AttemptChange(await _held(services, connection, node_id, each))
        match each:
            case Preparing():
                change = _prepare(change)
            case Started():
                change = start(_live(change))
            case ItemsDone():
                is_awaited = True
                change = await _accept(connection, _live(change), each)
            case Finished():
                if change.attempt.state.is_live:
                    await write_changes(services, connection, [_finish(services, change, each)])
                else:
                    _check_repeated(change.attempt, each)
                return change.attempt.task_id
    await write_changes(services, connection, [change])
    return change.attempt.task_id if is_awaited else None


def _check(each: Report) -> None:
    """What can be told without looking."""
    match each:
        case ItemsDone():
            _check_items(each)
        case Finished():
            if each.reason.facts.reporter is Reporter.SERVER:
                raise InvalidInput(f"A node can not say that an attempt ended by {each.reason}.")
            _check_consistent(each.reason, each.exit_code)
            function_results.check_value(each.value)


async def _held(
    services: Services, connection: Connection, node_id: NodeId, first: Report
) -> LockedAttempt:
    """The attempt under lock: live, or ended, or taken back if it was given up."""
    attempt_id = first.lease.attempt_id

    async def look() -> LockedAttempt | None:
        attempt = await attempts.lock_for_end(connection, attempt_id)
        if attempt is None or attempt.node_id != node_id:
            raise stale_lease(attempt_id)
        if attempt.reason is not EndReason.LEASE_EXPIRED:
            return attempt
        if isinstance(first, Finished) and _is_incomplete(attempt, first):
            raise stale_lease(attempt_id)  # its outcomes came too late
        return None

    is_over = isinstance(first, Finished)
    return await find_or_readopt(services, connection, attempt_id, node_id, look, is_over=is_over)


def _live(change: AttemptChange) -> AttemptChange:
    if not change.attempt.state.is_live:
        raise stale_lease(change.attempt.id)
    return change


def _prepare(change: AttemptChange) -> AttemptChange:
    if change.attempt.state not in (AttemptState.GRANTED, AttemptState.PREPARING):
        raise stale_lease(change.attempt.id)
    return prepare(change)


async def _start_together(
    services: Services, connection: Connection, node_id: NodeId, told: Sequence[Started]
) -> set[AttemptId]:
    """Answers those that are live."""
    attempt_ids = [each.lease.attempt_id for each in told]
    decided: list[AttemptChange] = []
    begun: set[TaskId] = set()
    for attempt in await attempts.lock_many_for_end(connection, attempt_ids):
        if attempt.node_id != node_id or not attempt.state.is_live:
            continue
        if attempt.task_id in begun:
            attempt = replace(attempt, task_state=TaskState.RUNNING)
        decided.append(start(AttemptChange(attempt)))
        begun.add(attempt.task_id)
    await write_changes(services, connection, decided)
    return {change.attempt.id for change in decided}


async def _accept(connection: Connection, change: AttemptChange, each: ItemsDone) -> AttemptChange:
    attempt = change.attempt
    if attempt.held is None:
        raise stale_lease(attempt.id)
    told = sort_out(each.returned, attempt.held.remaining)
    if told is None:
        raise InvalidInput("Some of the items that were returned together count, and some do not.")
    returned = [each.returned[place] for place in told.runs]
    held = replace(attempt.held, remaining=told.remaining)
    failed = [one.item for one in each.outcomes if one.reason is not EndReason.COMPLETED]
    before = await item_failures.failures(connection, attempt.task_id, failed)
    accepted = judge(each.outcomes, held, before, returned)
    if not accepted.done:
        return change
    await item_failures.fail(connection, attempt.task_id, attempt.id, accepted.failures)
    results = function_results.item_results(attempt, each, returned, accepted.failures)
    return accept(change, accepted, results)


def _check_items(each: ItemsDone) -> None:
    for outcome in each.outcomes:
        if outcome.reason.facts.reporter is not Reporter.ITEM:
            raise InvalidInput(f"An item can not have ended by {outcome.reason}.")
        _check_consistent(outcome.reason, outcome.exit_code)
    for run in each.returned:
        if run.end <= run.start:
            raise InvalidInput("Items were returned of which there are none.")


def _check_consistent(reason: EndReason, exit_code: int | None) -> None:
    if not is_consistent(reason, exit_code):
        raise InvalidInput(f"{reason} does not go with exit status {exit_code}.")


async def _finish_together(
    services: Services, connection: Connection, node_id: NodeId, told: Sequence[Finished]
) -> dict[AttemptId, TaskId]:
    """Ends those that nothing is in the way of, one of each task."""
    said = {each.lease.attempt_id: each for each in told if _is_reportable(each)}
    locked = await attempts.lock_many_for_end(connection, list(said))
    ready = {
        attempt.task_id: attempt
        for attempt in locked
        if attempt.node_id == node_id and attempt.state.is_live
        if not _is_incomplete(attempt, said[attempt.id])
        and not function_results.find_mismatch(attempt, said[attempt.id])
    }
    decided = [_end(services, AttemptChange(one), said[one.id]) for one in ready.values()]
    await write_changes(services, connection, decided)
    return {attempt.id: attempt.task_id for attempt in ready.values()}


def _finish(services: Services, change: AttemptChange, each: Finished) -> AttemptChange:
    if _is_incomplete(change.attempt, each):
        raise InvalidInput("A range is complete when each of its items has an outcome.")
    if misfit := function_results.find_mismatch(change.attempt, each):
        raise InvalidInput(misfit)
    return _end(services, change, each)


def _end(services: Services, change: AttemptChange, each: Finished) -> AttemptChange:
    return end(
        change,
        each.reason,
        retry_wait(services),
        exit_code=each.exit_code,
        detail=each.detail,
        # A node that restarted has measured nothing, which is not the same as having used nothing.
        usage=None if each.reason is EndReason.NODE_RESTARTED else each.usage,
        report_hash=_hash(each),
        value=each.value,
    )


def _is_reportable(each: Finished) -> bool:
    is_nodes = each.reason.facts.reporter is not Reporter.SERVER
    is_usual = is_nodes and is_consistent(each.reason, each.exit_code)
    # What was uploaded may be in the way of one, and not of the others.
    return is_usual and (each.value is None or each.value.blob is None)


def _is_incomplete(attempt: LockedAttempt, each: Finished) -> bool:
    has_rest = attempt.array is not None and bool(attempt.array.remaining)
    return each.reason is EndReason.COMPLETED and has_rest


def _hash(each: Finished) -> bytes:
    return hashlib.sha256(codec.encode_json(each)).digest()


def _check_repeated(attempt: LockedAttempt, each: Finished) -> None:
    if attempt.report_hash is None:
        raise stale_lease(attempt.id)
    if attempt.report_hash != _hash(each):
        raise Conflict(f"{attempt.id} was reported differently before.")
