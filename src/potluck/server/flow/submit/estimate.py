"""Estimate: what a task would meet, under the rules of a submission, without storing anything.

Its files need not exist. Only the leader knows the pool: without one there is no answer, and the
caller may ask again.
"""

from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from potluck.decide.admission import admit_after, check_affordable, queue_full_error
from potluck.decide.charges import SettleTimes
from potluck.decide.cost import CostEstimate, estimate_cost
from potluck.decide.explain.sentences import refusal_sentence, waits_for_tasks
from potluck.decide.task_estimate import Estimated
from potluck.decide.types import WaitingTask
from potluck.model.error import UnaffordableTask, Unavailable
from potluck.model.ids import AccountId, TaskId
from potluck.model.task import ItemRange, TaskRequest, TaskState
from potluck.model.task_spec import kind_of, name_of
from potluck.model.units import show_amount, show_credits
from potluck.server.flow.submit.submit import admit_task, load_allowance, make_new_task
from potluck.server.leader import leader_rpc, scheduler_health
from potluck.server.leader.leader_rpc import HypotheticalTask
from potluck.server.leader.memory import LeaderMemory
from potluck.server.services import Services
from potluck.store.tasks import dependencies
from potluck.store.tasks.allowance import count_queued
from potluck.wire import codec
from potluck.wire.consumer import RefusalCount
from potluck.wire.estimate import Estimate, Outlook

_AGAIN_SECONDS = 1.0


class _LeaderEstimate(Struct, frozen=True):
    """The leader's part of the answer."""

    found: Estimated
    at: float
    is_loaded: bool  # else tasks ahead of it may still be unknown


class _EstimatedTask(Struct, frozen=True):
    """The task as it would be queued, and what else decides whether it starts."""

    task_id: TaskId
    request: TaskRequest
    available_micro: int
    unaffordable: UnaffordableTask | None
    after: dict[TaskId, TaskState]


async def estimate(services: Services, account_id: AccountId, request: TaskRequest) -> Estimate:
    entry = await _admit(services, account_id, request)
    if await scheduler_health.is_failing(services):
        raise Unavailable(scheduler_health.REASON.sentence, "", _AGAIN_SECONDS)
    answer = await leader_rpc.ask(services, _hypothetical(account_id, entry))
    if answer is None:
        raise Unavailable(
            "The scheduler is not answering.", "Try again in a moment.", _AGAIN_SECONDS
        )
    times = services.settings.settle_times
    return _answer(entry, codec.decode_json(answer, _LeaderEstimate), times)


async def _admit(services: Services, account_id: AccountId, request: TaskRequest) -> _EstimatedTask:
    """Raises what would refuse the submission, except for insufficient credit."""
    new_request = make_new_task(services, account_id, request, None)
    async with services.database.transaction() as connection:
        allowance = await load_allowance(services, connection, [new_request])
        task = admit_task(new_request, allowance, services.settings, must_pay=False)
        most = allowance.quotas.queued
        if most is not None and await count_queued(connection, account_id, most) >= most:
            raise queue_full_error(most)
        after = await dependencies.read_states(connection, request.after, account_id)
    admit_after(request.after, after)
    unaffordable = None
    try:
        requirements = task.request.requirements
        check_affordable(
            task.request,
            allowance.available_micro,
            allowance.cheapest_micro_per_hour(requirements),
            services.settings.settle_times,
        )
    except UnaffordableTask as error:
        unaffordable = error
    return _EstimatedTask(task.id, task.request, allowance.available_micro, unaffordable, after)


def _hypothetical(account_id: AccountId, entry: _EstimatedTask) -> HypotheticalTask:
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


def answer_estimate(memory: LeaderMemory, question: HypotheticalTask) -> _LeaderEstimate:
    """The leader's part; it estimates the duration from tasks of that name if none is given."""
    task = replace(question.task, submitted_at=memory.now)
    if task.expected_seconds is None:
        learned = memory.tasks.expected_seconds(
            task.account_id, question.name, of_items=bool(task.pending)
        )
        task = replace(task, expected_seconds=learned)
    estimated = memory.known.scheduler.estimate(task, memory.now)
    return _LeaderEstimate(estimated, memory.now, memory.is_loaded)


def _answer(entry: _EstimatedTask, answer: _LeaderEstimate, settle_times: SettleTimes) -> Estimate:
    estimated, market = answer.found, answer.found.market
    costs = estimate_cost(
        entry.request, market, entry.available_micro, estimated.item_seconds, settle_times
    )
    can_pay = costs.can_pay and entry.unaffordable is None
    result = Estimate(
        outlook=Outlook.NOW if estimated.starts_now else Outlook.LATER,
        sentence=estimated.sentence,
        nodes=estimated.nodes,
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
        expected_seconds=estimated.item_seconds,
        whole_seconds=estimated.whole_seconds,
        refusals=[
            RefusalCount(refusal, nodes, refusal_sentence(refusal, nodes))
            for refusal, nodes in estimated.refusals.items()
        ],
        changes=estimated.changes,
        at=_moment(answer.at),
    )
    if not estimated.can_run:
        return replace(result, outlook=Outlook.NEVER)
    if not can_pay:
        return _without_credit(result, entry, costs)
    return _in_time(result, entry, answer)


def _without_credit(estimate: Estimate, entry: _EstimatedTask, costs: CostEstimate) -> Estimate:
    """With the message of the submission's refusal, or an equivalent one."""
    error = entry.unaffordable or _too_dear(entry, costs)
    return replace(
        estimate,
        outlook=Outlook.NEVER,
        sentence=f"The account cannot pay for it. {error.detail}",
        changes=[error.hint, *estimate.changes],
    )


def _too_dear(entry: _EstimatedTask, costs: CostEstimate) -> UnaffordableTask:
    assert costs.hold_micro is not None, "an unaffordable task has a price"
    what = "The task" if entry.request.items is None else "One item"
    return UnaffordableTask(
        f"{what} needs {show_amount(costs.hold_micro)} to start on the cheapest suitable node;"
        f" the account has {show_credits(entry.available_micro)}.",
        "Lower the time limit (--time), or ask the operator for credit.",
    )


def _in_time(estimate: Estimate, entry: _EstimatedTask, answer: _LeaderEstimate) -> Estimate:
    """Accounts for dependencies, the delay and the deadline."""
    failed = [
        state
        for state in entry.after.values()
        if state.is_final and state is not TaskState.SUCCEEDED
    ]
    if failed:
        sentence = "It would be cancelled immediately: a task it depends on did not succeed."
        return replace(estimate, outlook=Outlook.NEVER, sentence=sentence)
    still_open = sum(not state.is_final for state in entry.after.values())
    if still_open:
        sentence = f"{waits_for_tasks(still_open).sentence} Then: {estimate.sentence}"
        return replace(estimate, outlook=Outlook.LATER, sentence=sentence)
    forecast = answer.found.forecast
    if forecast is None or not (answer.is_loaded or answer.found.starts_now):
        return estimate
    delay = entry.request.delay_seconds or 0.0
    start, basis = max(forecast.start, answer.at + delay), forecast.basis
    if start > forecast.start:
        sentence = f"It does not start before its delay is over. Then: {estimate.sentence}"
        estimate = replace(estimate, outlook=Outlook.LATER, sentence=sentence)
        basis = "the end of its delay"
    within = entry.request.start_within_seconds
    if within is not None and start > answer.at + within:
        sentence = f"It would probably miss its deadline. {estimate.sentence}"
        estimate = replace(estimate, sentence=sentence)
    return replace(estimate, estimated_start=_moment(start), basis=basis)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
