"""The duty that tells the server what became of the attempts.

Reports leave in the order in which they were made, as many in one call as have gathered, and each
stays until it has an answer. What the server calls off meanwhile is taken out.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

import structlog

from potluck.model.error import Conflict, InvalidInput, NotFound, by_code
from potluck.model.ids import AttemptId
from potluck.model.task import EndReason
from potluck.provider.attempt.unsent_results import carried_bytes
from potluck.provider.event import Event, FinishAccepted, ItemsAccepted, LeaseLost
from potluck.provider.server.server_client import Link
from potluck.wire.provider import (
    Finished,
    ItemsDone,
    Preparing,
    Report,
    ReportAnswer,
    Reports,
    Started,
)

# In one call; the outcome of an item counts as one, and so does what comes with it in bytes.
MOST_REPORTS = 500
_BYTES_OF_ONE = 2**12
# That something has begun waits so long for its end, which may be on its way: then one call tells
# both. Who is that quick is not paid for these moments.
_BEGUN_SECONDS = 0.01
# A server that hears nothing else would hear no report either.
_NEWS_SECONDS = 2.0

log = structlog.get_logger()


class _AllWithdrawn(Exception):
    """There is nothing left to say."""


class ReportSender:
    """Reports that wait for the server."""

    def __init__(self, link: Link, tell: Callable[[list[Event]], bool]) -> None:
        self._link = link
        self._tell = tell
        self._waiting: list[Report] = []
        self._something = asyncio.Event()
        self._answered = asyncio.Event()
        self._news_known: Callable[[], Awaitable[None]] | None = None

    async def answered(self) -> None:
        """Returns when the server has answered something that it is told from now on."""
        self._answered.clear()
        await self._answered.wait()

    def let_pass(self, news_known: Callable[[], Awaitable[None]]) -> None:
        """That a device is closed is heard before that its owner wanted it back: he is believed
        only so.
        """
        self._news_known = news_known

    def send(self, report: Report) -> None:
        self._waiting.append(report)
        self._something.set()

    def withdraw(self, attempt_id: AttemptId) -> None:
        self._waiting = [one for one in self._waiting if one.lease.attempt_id != attempt_id]

    async def run(self) -> None:
        unanswered = 0
        while True:
            await self._something.wait()
            self._something.clear()
            while self._waiting:
                await self._let_ends_catch_up()
                await self._let_news_pass()
                answered = await self._deliver(self._some)
                unanswered = 0 if answered else unanswered + 1
                if not answered:
                    await self._link.pause(unanswered)

    async def _let_ends_catch_up(self) -> None:
        if all(isinstance(each, Preparing | Started) for each in self._waiting):
            self._something.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_BEGUN_SECONDS):
                    await self._something.wait()

    async def _let_news_pass(self) -> None:
        is_reclaimed = any(
            isinstance(each, Finished) and each.reason is EndReason.RECLAIMED
            for each in self._waiting
        )
        if is_reclaimed and self._news_known is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_NEWS_SECONDS):
                    await self._news_known()

    async def _deliver(self, choose: Callable[[], list[Report]]) -> bool:
        """Whether each of those chosen has its answer; the others stay. Each try chooses anew."""
        batch: list[Report] = []

        def reports() -> Reports:
            batch[:] = choose()
            if not batch:
                raise _AllWithdrawn
            return Reports(tuple(batch))

        try:
            answers = (await self._link.report(reports)).answers
        except _AllWithdrawn:
            return True
        except InvalidInput as error:
            return await self._deliver_singly(batch, error)
        self._answered.set()
        self._tell(self._digest_all(batch, answers))
        return not any(report in self._waiting for report in batch)

    def _digest_all(self, batch: list[Report], answers: Sequence[ReportAnswer]) -> list[Event]:
        """What was said of an attempt behind something that is said again is said again too."""
        events: list[Event] = []
        again: set[AttemptId] = set()
        for report, answer in zip(batch, answers, strict=False):
            attempt_id = report.lease.attempt_id
            if attempt_id not in again:
                events += self._digest(report, answer)
            if self._still(report):
                again.add(attempt_id)
        return events

    async def _deliver_singly(self, batch: list[Report], error: InvalidInput) -> bool:
        """One report that the server can not read must not hold up its neighbours."""
        if len(batch) > 1:
            return await self._deliver_each(batch)
        log.error("report refused", report=type(batch[0]).__name__, detail=error.detail)
        self._remove(batch[0])
        self._tell([LeaseLost(batch[0].lease.attempt_id)])
        return True

    async def _deliver_each(self, batch: list[Report]) -> bool:
        """But nothing of an attempt goes before what was to be said of it first."""
        held_up: set[AttemptId] = set()
        for report in batch:
            attempt_id = report.lease.attempt_id
            if attempt_id in held_up or not await self._deliver(partial(self._still, report)):
                held_up.add(attempt_id)
        return not held_up

    def _still(self, report: Report) -> list[Report]:
        """The report alone, unless it was withdrawn."""
        return [one for one in self._waiting if one is report]

    def _digest(self, report: Report, answer: ReportAnswer) -> list[Event]:
        attempt_id = report.lease.attempt_id
        if answer.accepted:
            self._remove(report)
            return _accepted(report)
        if issubclass(by_code(answer.code), (Conflict, InvalidInput, NotFound)):
            self._remove(report)
            return [LeaseLost(attempt_id)]
        log.warning("report not taken, will be sent again", code=answer.code)
        return []

    def _some(self) -> list[Report]:
        """From the oldest on, as many as one call should carry: at least one."""
        size = 0
        some: list[Report] = []
        for report in self._waiting:
            size += _size(report)
            if some and size > MOST_REPORTS:
                break
            some.append(report)
        return some

    def _remove(self, report: Report) -> None:
        """By identity: what was withdrawn meanwhile is already gone."""
        self._waiting = [one for one in self._waiting if one is not report]


def _size(report: Report) -> int:
    match report:
        case ItemsDone():
            return len(report.outcomes) + carried_bytes(report) // _BYTES_OF_ONE + 1
        case Finished(value=value) if value is not None:
            return len(value.data) // _BYTES_OF_ONE + 1
    return 1


def _accepted(report: Report) -> list[Event]:
    match report:
        case Finished():
            return [FinishAccepted(report.lease.attempt_id)]
        case ItemsDone():
            return [ItemsAccepted(report)]
    return []
