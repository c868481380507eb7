"""Questions that only the leader can answer, asked on any instance.

Only the instance that leads knows the queue, so a question goes to it through `live`, and waits for
a moment only: without a leader there is no answer.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence

import structlog
from msgspec import Struct

from potluck.decide.types import WaitingTask
from potluck.server import topics
from potluck.server.services import Services
from potluck.wire import codec

log = structlog.get_logger()

# An answer whose wake-up was lost is found by looking.
_LOOK_SECONDS = 0.2
_KEPT_SECONDS = 30.0


class HypotheticalTask(Struct, frozen=True):
    """A task that nobody has submitted, and what it would be called."""

    task: WaitingTask
    name: str


# The id of a task or a node, or a task that has none yet.
About = str | HypotheticalTask


class LeaderQuestion(Struct, frozen=True):
    id: str
    about: About


async def ask(services: Services, about: About) -> bytes | None:
    """Nothing when no leader answers in time."""
    question = LeaderQuestion(secrets.token_hex(8), about)
    clock = asyncio.get_running_loop()
    deadline = clock.time() + services.settings.answer_seconds
    name = topics.answer(question.id)
    async with services.live.listen(name) as listener:
        await services.live.post(topics.QUESTIONS, codec.encode_json(question))
        await services.live.wake(topics.QUESTIONS)
        while (rest_seconds := deadline - clock.time()) > 0:
            await listener.wait(min(rest_seconds, _LOOK_SECONDS))
            said = await services.live.get(name)
            if said is not None:
                return said
    return None


async def answer_all(services: Services, answer: Callable[[About], Struct]) -> int:
    """The leader's part: answers what was asked, and tells about how many things.

    However much is asked, the leader has half of its time for all else: after each answer it rests
    for as long as that took. What nobody waits for any more is not answered.
    """
    asked: dict[About, list[str]] = {}
    for each in await services.live.collect(topics.QUESTIONS):
        question = codec.decode_json(each, LeaderQuestion)
        asked.setdefault(question.about, []).append(question.id)
    clock = asyncio.get_running_loop()
    until = clock.time() + services.settings.answer_seconds
    for count, (about, question_ids) in enumerate(asked.items()):
        began_at = clock.time()
        if began_at >= until:
            return count
        said = _said(answer, about)
        if said is not None:
            await _tell(services, question_ids, said)
        await asyncio.sleep(clock.time() - began_at)
    return len(asked)


async def _tell(services: Services, question_ids: Sequence[str], said: bytes) -> None:
    for name in map(topics.answer, question_ids):
        await services.live.put(name, said, _KEPT_SECONDS)
        await services.live.wake(name)


def _said(answer: Callable[[About], Struct], about: About) -> bytes | None:
    """Nothing where there is a fault: whoever else has asked is answered all the same."""
    try:
        return codec.encode_json(answer(about))
    except Exception:
        log.exception("answering failed", about=about if isinstance(about, str) else about.name)
        return None
