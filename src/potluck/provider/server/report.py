"""The duty that reports the progress of attempts to the server.

Reports are sent in order and in batches, and each is kept until it is answered. Reports of an
attempt that the server cancels meanwhile are removed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

import structlog

from potluck.model.error import Conflict, InvalidInput, NotFound, by_code
from potluck.model.ids import AttemptId
from potluck.model.task import EndReason
from potluck.provider.attempt.attempt_trace import traced_reports
from potluck.provider.attempt.unsent_results import carried_bytes
from potluck.provider.event import Event, FinishAccepted, ItemsAccepted, LeaseLost
from potluck.provider.server.server_client import NodeServerClient
from potluck.wire.provider import (
    Finished,
    ItemsDone,
    Preparing,
    Report,
    ReportAnswer,
    Reports,
    Started,
)

# In one call, as much as the server takes of one; the outcome of an item counts as one, and so do
# each 4 KiB that come with it.
MOST_REPORTS = 250
_BYTES_OF_ONE = 2**12
# A start is held back this long, so that one call can report a quick end, too. A task that is this
# quick is not charged for the moment.
_BEGUN_SECONDS = 0.01
# How long reports wait for a heartbeat; a server that misses it would miss the report, too.
_NEWS_SECONDS = 2.0

log = structlog.get_logger()


class _AllWithdrawn(Exception):
    """No report is left to send."""


class ReportSender:
    def __init__(self, link: NodeServerClient, tell: Callable[[list[Event]], bool]) -> None:
        self._link = link
        self._tell = tell
        self._waiting: list[Report] = []
        self._added = asyncio.Event()
        self._answered = asyncio.Event()
        self._news_known: Callable[[], Awaitable[None]] | None = None

    async def answered(self) -> None:
        """Returns at the server's next answer to a report."""
        self._answered.clear()
        await self._answered.wait()

    def let_pass(self, news_known: Callable[[], Awaitable[None]]) -> None:
        """Sets what to await before reporting `reclaimed`: the server accepts that reason only
        for a device that it knows to be closed.
        """
        self._news_known = news_known

    def send(self, report: Report) -> None:
        self._waiting.append(report)
        self._added.set()

    def withdraw(self, attempt_id: AttemptId) -> None:
        self._waiting = [
            report for report in self._waiting if report.lease.attempt_id != attempt_id
        ]

    async def run(self) -> None:
        fruitless = 0
        while True:
            await self._added.wait()
            self._added.clear()
            while self._waiting:
                await self._let_ends_catch_up()
                await self._let_news_pass()
                has_progress = await self._deliver(self._next_batch)
                fruitless = 0 if has_progress else fruitless + 1
                if not has_progress:
                    await self._link.pause(fruitless)

    async def _let_ends_catch_up(self) -> None:
        if all(isinstance(report, Preparing | Started) for report in self._waiting):
            self._added.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_BEGUN_SECONDS):
                    await self._added.wait()

    async def _let_news_pass(self) -> None:
        is_reclaimed = any(
            isinstance(report, Finished) and report.reason is EndReason.RECLAIMED
            for report in self._waiting
        )
        if is_reclaimed and self._news_known is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_NEWS_SECONDS):
                    await self._news_known()

    async def _deliver(self, choose: Callable[[], list[Report]]) -> bool:
        """Returns whether a chosen report was taken; the others stay. Each try chooses again."""
        batch: list[Report] = []

        def reports() -> Reports:
            batch[:] = choose()
            if not batch:
                raise _AllWithdrawn
            return Reports(tuple(batch))

        try:
            with traced_reports(self._waiting):
                answers = (await self._link.report(reports)).answers
        except _AllWithdrawn:
            return True
        except InvalidInput as error:
            return await self._deliver_singly(batch, error)
        self._answered.set()
        self._tell(self._digest_all(batch, answers))
        return any(not self._still(report) for report in batch)

    def _digest_all(self, batch: list[Report], answers: Sequence[ReportAnswer]) -> list[Event]:
        """After a report that must be repeated, later ones of its attempt are repeated, too."""
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
        """A report that the server cannot read must not block the others."""
        if len(batch) > 1:
            return await self._deliver_each(batch)
        log.error("report refused", report=type(batch[0]).__name__, detail=error.detail)
        self._remove(batch[0])
        self._tell([LeaseLost(batch[0].lease.attempt_id)])
        return True

    async def _deliver_each(self, batch: list[Report]) -> bool:
        """One call for each report; the order within an attempt is kept."""
        held_up: set[AttemptId] = set()
        for report in batch:
            attempt_id = report.lease.attempt_id
            if attempt_id in held_up or not await self._deliver(partial(self._still, report)):
                held_up.add(attempt_id)
        return not held_up

    def _still(self, report: Report) -> list[Report]:
        """The report alone, unless it was withdrawn."""
        return [waiting for waiting in self._waiting if waiting is report]

    def _digest(self, report: Report, answer: ReportAnswer) -> list[Event]:
        attempt_id = report.lease.attempt_id
        if answer.accepted:
            self._remove(report)
            return _accepted(report)
        if issubclass(by_code(answer.code), (Conflict, InvalidInput, NotFound)):
            self._remove(report)
            return [LeaseLost(attempt_id)]
        log.warning("report not accepted, will be sent again", code=answer.code)
        return []

    def _next_batch(self) -> list[Report]:
        """The oldest reports that fit into one call, at least one."""
        size = 0
        batch: list[Report] = []
        for report in self._waiting:
            size += _size(report)
            if batch and size > MOST_REPORTS:
                break
            batch.append(report)
        return batch

    def _remove(self, report: Report) -> None:
        """By identity; it may have been withdrawn already."""
        self._waiting = [waiting for waiting in self._waiting if waiting is not report]


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
