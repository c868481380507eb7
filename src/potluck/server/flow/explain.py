"""Explain: why a task waits, from the scheduler's own mouth.

Any instance may be asked. Only the one that leads knows the queue, so the question goes to it
through `live`, and waits for a moment only: without a leader the answer says less, and says so.
"""

import asyncio
import secrets
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from potluck.decide.explain.sentences import Explained, refusal_sentence
from potluck.model.ids import AccountId, TaskId
from potluck.model.task import TaskState
from potluck.server import topics
from potluck.server.flow.follow import view
from potluck.server.leader import trouble
from potluck.server.leader.memory import Memory
from potluck.server.parts import Parts
from potluck.wire import codec
from potluck.wire.consumer import Explanation, ItemCounts, RefusalCount, TaskView

# An answer whose wake-up was lost is found by looking.
_LOOK_SECONDS = 0.2
_KEPT_SECONDS = 30.0
# Reasons to which the scheduler has nothing to add.
_SAY_ALL = ("delayed", "back_off", "dependency", trouble.REASON.code)


class Question(Struct, frozen=True):
    id: str
    task_id: TaskId


async def explain(parts: Parts, account_id: AccountId, task_id: TaskId) -> Explanation:
    task = await view(parts, account_id, task_id)
    if not _is_in_line(task):
        return Explanation(task.id, task.state, _sentence(task), nodes=0)
    said = await _ask(parts, Question(secrets.token_hex(8), task_id))
    if said is not None:
        return _of_what_is_left(msgspec.structs.replace(said, state=task.state), task.items)
    known = task.waiting.sentence if task.waiting is not None else "It waits for a device."
    sentence = f"{known} The scheduler does not answer just now; ask again in a moment."
    return Explanation(task.id, task.state, sentence, nodes=0)


def _is_in_line(task: TaskView) -> bool:
    """Not for a time or for other tasks; of an array, some items may run while others wait."""
    has_more = task.items is not None and not task.state.is_final and task.items.pending > 0
    if task.state is not TaskState.QUEUED and not has_more:
        return False
    return task.waiting is None or task.waiting.code not in _SAY_ALL


def _of_what_is_left(said: Explanation, items: ItemCounts | None) -> Explanation:
    """An array that has begun stands in no queue and need not start: its rest waits."""
    if items is None or items.pending == items.total:
        return said
    sentence = f"{_progress(items)} {said.sentence}"
    return msgspec.structs.replace(
        said, sentence=sentence, position=None, estimated_start=None, basis=None
    )


def _progress(items: ItemCounts) -> str:
    done = items.succeeded + items.failed
    running = items.total - items.pending - done
    parts = [f"{done:,} of {items.total:,} items {'is' if done == 1 else 'are'} done"]
    if running:
        parts.append("1 runs" if running == 1 else f"{running:,} run")
    if items.pending:
        parts.append("1 waits" if items.pending == 1 else f"{items.pending:,} wait")
    return f"{', '.join(parts)}."


def _sentence(task: TaskView) -> str:
    where = task.attempts[-1].node_name if task.attempts else "a node"
    is_told = task.reason is None or task.reason.value == task.state.value
    reason = "" if is_told else f" ({task.reason})"
    if task.items is not None and task.state in (TaskState.ASSIGNED, TaskState.RUNNING):
        return f"It does not wait: {_progress(task.items)}"
    match task.state:
        case TaskState.QUEUED:
            assert task.waiting is not None
            return task.waiting.sentence
        case TaskState.ASSIGNED:
            return f"It does not wait: {where} was chosen, and prepares it."
        case TaskState.RUNNING:
            return f"It does not wait: it runs on {where}."
        case TaskState.SUCCEEDED:
            return "It does not wait: it has succeeded."
        case TaskState.FAILED | TaskState.CANCELLED | TaskState.EXPIRED:
            return f"It does not wait: it is over, {task.state}{reason}."


async def _ask(parts: Parts, question: Question) -> Explanation | None:
    """Nothing when no leader answers in time."""
    clock = asyncio.get_running_loop()
    deadline = clock.time() + parts.settings.answer_seconds
    name = topics.answer(question.id)
    async with parts.live.listen(name) as listener:
        await parts.live.post(topics.QUESTIONS, codec.encode_json(question))
        await parts.live.wake(topics.QUESTIONS)
        while (rest_seconds := deadline - clock.time()) > 0:
            await listener.wait(min(rest_seconds, _LOOK_SECONDS))
            said = await parts.live.get(name)
            if said is not None:
                return codec.decode_json(said, Explanation)
    return None


async def answer_once(parts: Parts, memory: Memory) -> int:
    """The leader's part: answers what was asked, and tells about how many tasks.

    However much is asked, the leader has half of its time for all else: after each answer it rests
    for as long as that took. What nobody waits for any more is not answered.
    """
    asked: dict[TaskId, list[str]] = {}
    for each in await parts.live.collect(topics.QUESTIONS):
        question = codec.decode_json(each, Question)
        asked.setdefault(question.task_id, []).append(question.id)
    clock = asyncio.get_running_loop()
    until = clock.time() + parts.settings.answer_seconds
    for count, (task_id, question_ids) in enumerate(asked.items()):
        began_at = clock.time()
        if began_at >= until:
            return count
        said = codec.encode_json(_answer(memory, task_id))
        for name in map(topics.answer, question_ids):
            await parts.live.put(name, said, _KEPT_SECONDS)
            await parts.live.wake(name)
        await asyncio.sleep(clock.time() - began_at)
    return len(asked)


def _answer(memory: Memory, task_id: TaskId) -> Explanation:
    found = memory.known.scheduler.explain(task_id, memory.now)
    if found is not None:
        return _explanation(memory, task_id, found)
    sentence = (
        "It is being placed at this moment, or has just left the queue; ask again."
        if memory.is_loaded
        else "The scheduler has just started and is still reading the queue; ask again."
    )
    return Explanation(task_id, TaskState.QUEUED, sentence, len(memory.known.nodes))


def _explanation(memory: Memory, task_id: TaskId, found: Explained) -> Explanation:
    forecast = found.forecast
    return Explanation(
        task_id=task_id,
        state=TaskState.QUEUED,
        sentence=found.reason.sentence,
        nodes=found.nodes,
        refusals=[
            RefusalCount(refusal, nodes, refusal_sentence(refusal, nodes))
            for refusal, nodes in found.refusals.items()
        ],
        changes=found.changes,
        # While the queue is still being read, others may stand before it.
        position=found.position if memory.is_loaded else None,
        estimated_start=None if forecast is None else _moment(forecast.start),
        basis=None if forecast is None else forecast.basis,
        at=_moment(memory.now),
    )


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
