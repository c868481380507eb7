"""Explains why a task waits. Only the leader knows the queue: without one the answer is shorter."""

from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from potluck.decide.explain.sentences import Explained, refusal_sentence
from potluck.model.ids import AccountId, NodeId, TaskId, is_id
from potluck.model.task import TaskState
from potluck.server import pool_status
from potluck.server.flow.notify.task_stream import view
from potluck.server.flow.schedule import explain_node
from potluck.server.flow.settle import calls
from potluck.server.flow.submit import estimate
from potluck.server.leader import leader_rpc, scheduler_health
from potluck.server.leader.memory import LeaderMemory
from potluck.server.services import Services
from potluck.store.files import volumes
from potluck.wire import codec
from potluck.wire.consumer import Explanation, ItemCounts, RefusalCount, TaskView

# Reasons that need no detail from the scheduler.
_COMPLETE_REASONS = ("delayed", "back_off", "declined", "dependency", scheduler_health.REASON.code)


async def explain(
    services: Services, account_id: AccountId, task_id: TaskId, item: int | None = None
) -> Explanation:
    """Of one item of an array: how it is, and if it waits, why the rest of the array does."""
    if item is not None:
        call = await calls.view(services, account_id, task_id, item)
        if call.state is not TaskState.QUEUED:
            return Explanation(call.id, call.state, _sentence(call), nodes=0)
    task = await view(services, account_id, task_id)
    explanation = await _explain(services, task_id, task)
    if item is not None:
        explanation = replace(explanation, task_id=call.id, state=TaskState.QUEUED)
    if not task.requirements.volumes:
        return explanation
    async with services.database.statement() as connection:
        mounted = await volumes.list_holders(connection, task.requirements.volumes)
    return replace(explanation, volumes=mounted)


async def _explain(services: Services, task_id: TaskId, task: TaskView) -> Explanation:
    if _is_idle(task):
        return Explanation(task.id, task.state, _idle_sentence(task), nodes=0)
    if not _is_in_queue(task):
        return Explanation(task.id, task.state, _sentence(task), nodes=0)
    encoded = await leader_rpc.ask(services, task_id)
    if encoded is not None:
        answer = replace(codec.decode_json(encoded, Explanation), state=task.state)
        return _for_remaining_items(answer, task.items)
    reason = task.waiting.sentence if task.waiting is not None else "It waits for a device."
    sentence = f"{reason} The scheduler is not answering; try again in a moment."
    return Explanation(task.id, task.state, sentence, nodes=0)


def _is_idle(task: TaskView) -> bool:
    """A call stream between its calls: no node has it, and it is not in the queue."""
    is_queued_stream = task.is_stream and task.state is TaskState.QUEUED
    return is_queued_stream and task.items is not None and task.items.pending == 0


def _idle_sentence(task: TaskView) -> str:
    assert task.items is not None, "a stream has items"
    total = task.items.total
    done = "its call has" if total == 1 else f"its {total:,} calls have"
    return f"It waits for calls: {done} ended. Until the next one it has no node and costs nothing."


def _is_in_queue(task: TaskView) -> bool:
    """Waits for capacity, not for a time or other tasks; an array may be partly running."""
    has_more = task.items is not None and not task.state.is_final and task.items.pending > 0
    if task.state is not TaskState.QUEUED and not has_more:
        return False
    return task.waiting is None or task.waiting.code not in _COMPLETE_REASONS


def _for_remaining_items(explanation: Explanation, items: ItemCounts | None) -> Explanation:
    """An array that has started has no position or start time: only its rest waits."""
    if items is None or items.pending == items.total:
        return explanation
    sentence = f"{_progress(items)} {explanation.sentence}"
    return replace(explanation, sentence=sentence, position=None, estimated_start=None, basis=None)


def _progress(items: ItemCounts) -> str:
    done = items.done
    running = items.total - items.pending - done
    parts = [f"{done:,} of {items.total:,} items {'is' if done == 1 else 'are'} done"]
    if running:
        parts.append("1 runs" if running == 1 else f"{running:,} run")
    if items.pending:
        parts.append("1 waits" if items.pending == 1 else f"{items.pending:,} wait")
    return f"{', '.join(parts)}."


def _sentence(task: TaskView) -> str:
    where = task.attempts[-1].node_name if task.attempts else "a node"
    is_implied = task.reason is None or task.reason.value == task.state.value
    reason = "" if is_implied else f" ({task.reason})"
    if task.items is not None and task.state in (TaskState.ASSIGNED, TaskState.RUNNING):
        return f"It does not wait: {_progress(task.items)}"
    match task.state:
        case TaskState.QUEUED:
            assert task.waiting is not None
            return task.waiting.sentence
        case TaskState.ASSIGNED:
            return f"It does not wait: {where} was chosen and prepares it."
        case TaskState.RUNNING:
            return f"It does not wait: it runs on {where}."
        case TaskState.SUCCEEDED:
            failed = 0 if task.items is None else task.items.failed
            but = f", but {failed:,} of its items failed" if failed else ""
            return f"It does not wait: it has succeeded{but}."
        case TaskState.FAILED | TaskState.CANCELLED | TaskState.EXPIRED:
            return f"It does not wait: it has ended, {task.state}{reason}."


async def answer_once(services: Services, memory: LeaderMemory) -> int:
    """The leader's part: answers pending questions about tasks, nodes and estimates."""
    return await leader_rpc.answer_all(
        services, lambda about: _answer_about(memory, about), memory.planner
    )


def _answer_about(memory: LeaderMemory, about: leader_rpc.About) -> msgspec.Struct:
    if isinstance(about, leader_rpc.HypotheticalTask):
        return estimate.answer_estimate(memory, about)
    if about == leader_rpc.QUEUE:
        return pool_status.answer_about_queue(memory)
    if is_id(about, "node"):
        return explain_node.answer_about_node(memory, NodeId(about))
    return _answer(memory, TaskId(about))


def _answer(memory: LeaderMemory, task_id: TaskId) -> Explanation:
    explained = memory.known.scheduler.explain(task_id, memory.now)
    if explained is not None:
        return _explanation(memory, task_id, explained)
    sentence = (
        "It is being placed, or has just left the queue; try again."
        if memory.is_loaded
        else "The scheduler has just started and is still reading the queue; try again."
    )
    return Explanation(task_id, TaskState.QUEUED, sentence, len(memory.known.nodes))


def _explanation(memory: LeaderMemory, task_id: TaskId, explained: Explained) -> Explanation:
    forecast = explained.forecast
    return Explanation(
        task_id=task_id,
        state=TaskState.QUEUED,
        sentence=explained.reason.sentence,
        nodes=explained.nodes,
        refusals=[
            RefusalCount(refusal, nodes, refusal_sentence(refusal, nodes))
            for refusal, nodes in explained.refusals.items()
        ],
        changes=explained.changes,
        # While the queue is being loaded, tasks ahead may be unknown.
        position=explained.position if memory.is_loaded else None,
        estimated_start=None if forecast is None else _moment(forecast.start),
        basis=None if forecast is None else forecast.basis,
        at=_moment(memory.now),
    )


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
