"""Estimate: what a task would meet, admitted by the rules of a submission and then forgotten.

Nothing is stored and nothing sealed; its files need not be there. Only the leader knows the pool:
without one there is no answer, and the caller may ask again.
"""

from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from potluck.decide.admission import admit_after, check_affordable, queue_is_full
from potluck.decide.cost import Cost, cost
from potluck.decide.explain.sentences import refusal_sentence, waits_for_tasks
from potluck.decide.task_estimate import Estimated
from potluck.decide.types import WaitingTask
from potluck.model.error import UnaffordableTask, Unavailable
from potluck.model.ids import AccountId, TaskId
from potluck.model.task import ItemRange, TaskRequest, TaskState
from potluck.model.task_spec import kind_of, name_of
from potluck.server.flow.submit.submit import admit_task, load_allowance, make_new_task
from potluck.server.leader import leader_rpc, scheduler_health
from potluck.server.leader.leader_rpc import HypotheticalTask
from potluck.server.leader.memory import LeaderMemory
from potluck.server.services import Services
from potluck.store.tasks import dependencies, tasks
from potluck.wire import codec
from potluck.wire.consumer import RefusalCount
from potluck.wire.estimate import Estimate, Outlook

_AGAIN_SECONDS = 1.0


class _LeaderEstimate(Struct, frozen=True):
    """The leader's part of the answer."""

    found: Estimated
    at: float
    is_loaded: bool  # else others may stand before it that are not known yet


class _EstimatedTask(Struct, frozen=True):
    """A request as it would enter, and what else decides whether it starts."""

    task_id: TaskId
    request: TaskRequest
    available_micro: int
    unaffordable: UnaffordableTask | None
    after: dict[TaskId, TaskState]


async def estimate(services: Services, account_id: AccountId, request: TaskRequest) -> Estimate:
    entry = await _entered(services, account_id, request)
    if await scheduler_health.is_in_trouble(services):
        raise Unavailable(scheduler_health.REASON.sentence, "", _AGAIN_SECONDS)
    said = await leader_rpc.ask(services, _supposed(account_id, entry))
    if said is None:
        raise Unavailable(
            "The scheduler does not answer just now.", "Ask again in a moment.", _AGAIN_SECONDS
        )
    return _answer(entry, codec.decode_json(said, _LeaderEstimate))


async def _entered(
    services: Services, account_id: AccountId, request: TaskRequest
) -> _EstimatedTask:
    """Whatever would keep it out is raised, but for an empty purse: that is what is asked about."""
    asked = make_new_task(services, account_id, request, None)
    async with services.database.transaction() as connection:
        may = await load_allowance(services, connection, [asked])
        new = admit_task(asked, may, must_pay=False)
        most = may.quotas.queued
        if most is not None and await tasks.queued(connection, account_id, most) >= most:
            raise queue_is_full(most)
        after = await dependencies.states(connection, request.after, account_id)
    admit_after(request.after, after)
    unaffordable = None
    try:
        wanted = new.request.requirements
        check_affordable(new.request, may.available_micro, may.cheapest_micro_per_hour(wanted))
    except UnaffordableTask as error:
        unaffordable = error
    return _EstimatedTask(new.id, new.request, may.available_micro, unaffordable, after)


def _supposed(account_id: AccountId, entry: _EstimatedTask) -> HypotheticalTask:
    request = entry.request
    task = WaitingTask(
        entry.task_id,
        account_id,
        request.requirements,
        request.limits,
        request.priority,
        expected_seconds=request.expected_seconds,
        pending=() if request.items is None else (ItemRange(0, request.items),),
        kind=kind_of(request.spec),
    )
    return HypotheticalTask(task, request.name or name_of(request.spec))


def answer_estimate(memory: LeaderMemory, supposed: HypotheticalTask) -> _LeaderEstimate:
    """The leader's part; it knows how long tasks of that name take, if nobody has said it."""
    task = replace(supposed.task, submitted_at=memory.now)
    if task.expected_seconds is None:
        learned = memory.tasks.expected_seconds(
            task.account_id, supposed.name, of_items=bool(task.pending)
        )
        task = replace(task, expected_seconds=learned)
    found = memory.known.scheduler.estimate(task, memory.now)
    return _LeaderEstimate(found, memory.now, memory.is_loaded)


def _answer(entry: _EstimatedTask, said: _LeaderEstimate) -> Estimate:
    found, market = said.found, said.found.market
    costs = cost(entry.request, market, entry.available_micro, found.item_seconds)
    can_pay = costs.can_pay and entry.unaffordable is None
    told = Estimate(
        outlook=Outlook.NOW if found.starts_now else Outlook.LATER,
        sentence=found.sentence,
        nodes=found.nodes,
        suitable_nodes=market.nodes,
        suitable_devices=market.devices,
        free_devices=market.free_devices,
        cheapest_micro_per_hour=market.cheapest_micro_per_hour,
        dearest_micro_per_hour=market.dearest_micro_per_hour,
        hold_micro=costs.hold_micro,
        most_micro=costs.most_micro,
        expected_micro=costs.expected_micro,
        available_micro=entry.available_micro,
        can_pay=can_pay,
        expected_seconds=found.item_seconds,
        whole_seconds=found.whole_seconds,
        refusals=[
            RefusalCount(refusal, nodes, refusal_sentence(refusal, nodes))
            for refusal, nodes in found.refusals.items()
        ],
        changes=found.changes,
        at=_moment(said.at),
    )
    if not found.can_run:
        return replace(told, outlook=Outlook.NEVER)
    if not can_pay:
        return _without_credit(told, entry, costs)
    return _in_time(told, entry, said)


def _without_credit(told: Estimate, entry: _EstimatedTask, costs: Cost) -> Estimate:
    """The sentence of a submission that is refused, where it would be; else as good a one."""
    error = entry.unaffordable or _too_dear(entry, costs)
    return replace(
        told,
        outlook=Outlook.NEVER,
        sentence=f"The account can not pay for it. {error.detail}",
        changes=[error.hint, *told.changes],
    )


def _too_dear(entry: _EstimatedTask, costs: Cost) -> UnaffordableTask:
    assert costs.hold_micro is not None, "who can not pay was told a price"
    what = "Running" if entry.request.items is None else "Running one item"
    return UnaffordableTask(
        f"{what} to its limit on the cheapest node that suits it would cost"
        f" {costs.hold_micro / 1e6:.6f} credits; the account has"
        f" {entry.available_micro / 1e6:.6f}.",
        "Lower the time limit (--time), or ask the operator for credit.",
    )


def _in_time(told: Estimate, entry: _EstimatedTask, said: _LeaderEstimate) -> Estimate:
    """With what it waits for besides devices: other tasks, a time, and not beyond its deadline."""
    failed = [each for each in entry.after.values() if each.is_final and not _succeeded(each)]
    if failed:
        sentence = "It would be called off at once: what it is to come after did not succeed."
        return replace(told, outlook=Outlook.NEVER, sentence=sentence)
    still_open = sum(not each.is_final for each in entry.after.values())
    if still_open:
        sentence = f"{waits_for_tasks(still_open).sentence} Then: {told.sentence}"
        return replace(told, outlook=Outlook.LATER, sentence=sentence)
    forecast = said.found.forecast
    if forecast is None or not (said.is_loaded or said.found.starts_now):
        return told
    delay = entry.request.delay_seconds or 0.0
    start, basis = max(forecast.start, said.at + delay), forecast.basis
    if start > forecast.start:
        sentence = f"It is not to start before its delay is over. Then: {told.sentence}"
        told = replace(told, outlook=Outlook.LATER, sentence=sentence)
        basis = "that is when its delay is over"
    within = entry.request.start_within_seconds
    if within is not None and start > said.at + within:
        sentence = f"It would probably miss its deadline. {told.sentence}"
        told = replace(told, sentence=sentence)
    return replace(told, estimated_start=_moment(start), basis=basis)


def _succeeded(state: TaskState) -> bool:
    return state is TaskState.SUCCEEDED


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
