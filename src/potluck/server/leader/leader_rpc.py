"""Questions that any instance can ask and only the leader can answer.

Only the leader knows the queue, so a question goes to it through `live` and waits briefly: without
a leader there is no answer.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from functools import partial

import structlog
from msgspec import Struct

from potluck.decide.types import WaitingTask
from potluck.server import topics
from potluck.server.leader.planner import Planner, plan_inline
from potluck.server.services import Services
from potluck.wire import codec

log = structlog.get_logger()

# Polls for the answer, since its wake-up may be lost.
_POLL_SECONDS = 0.2
_KEPT_SECONDS = 30.0


class HypotheticalTask(Struct, frozen=True):
    """A task that was not submitted, and its name."""

    task: WaitingTask
    name: str


# The id of a task or a node, or the whole queue, or a task without an id.
About = str | HypotheticalTask
QUEUE = "queue"


class LeaderQuestion(Struct, frozen=True):
    id: str
    about: About


async def ask(services: Services, about: About) -> bytes | None:
    """None if no leader answers in time."""
    question = LeaderQuestion(secrets.token_hex(8), about)
    clock = asyncio.get_running_loop()
    deadline = clock.time() + services.settings.answer_seconds
    name = topics.answer(question.id)
    async with services.live.listen(name) as listener:
        await services.live.post(topics.QUESTIONS, codec.encode_json(question))
        await services.live.wake(topics.QUESTIONS)
        while (rest_seconds := deadline - clock.time()) > 0:
            await listener.wait(min(rest_seconds, _POLL_SECONDS))
            answer = await services.live.get(name)
            if answer is not None:
                return answer
    return None


async def answer_all(
    services: Services, answer: Callable[[About], Struct], planner: Planner = plan_inline
) -> int:
    """The leader's part: answers all questions, and returns the number of subjects.

    The leader keeps half of its time for other work: after each answer it pauses for as long as
    that took. Questions whose caller has stopped waiting are dropped.
    """
    ids_by_subject: dict[About, list[str]] = {}
    for data in await services.live.collect(topics.QUESTIONS):
        question = codec.decode_json(data, LeaderQuestion)
        ids_by_subject.setdefault(question.about, []).append(question.id)
    clock = asyncio.get_running_loop()
    until = clock.time() + services.settings.answer_seconds
    for count, (about, question_ids) in enumerate(ids_by_subject.items()):
        began_at = clock.time()
        if began_at >= until:
            return count
        encoded = await planner(partial(_encode_answer, answer, about))
        if encoded is not None:
            await _publish(services, question_ids, encoded)
        await asyncio.sleep(clock.time() - began_at)
    return len(ids_by_subject)


async def _publish(services: Services, question_ids: Sequence[str], encoded: bytes) -> None:
    for name in map(topics.answer, question_ids):
        await services.live.put(name, encoded, _KEPT_SECONDS)
        await services.live.wake(name)


def _encode_answer(answer_about: Callable[[About], Struct], about: About) -> bytes | None:
    """None if answering fails: other questions are still answered."""
    try:
        return codec.encode_json(answer_about(about))
    except Exception:
        log.exception("answering failed", about=about if isinstance(about, str) else about.name)
        return None
