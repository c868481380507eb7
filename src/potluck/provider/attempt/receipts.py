"""What this node did in its attempts, as its receipts say it, and how they reach the server.

Times are by the clock of this machine. A long attempt with a price gets a receipt at each interval,
so that a part of it is signed if the machine is lost. Heartbeats carry the receipts; signing,
verifying and the disk never delay them.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from potluck.local.shielded import finish_despite_cancel
from potluck.model.ids import AttemptId
from potluck.provider.attempt.journal import WorkTimes
from potluck.provider.attempt.receipt_book import ReceiptBook, ReceiptClaim
from potluck.provider.change_counter import ChangeCounter
from potluck.provider.holding import WorkFacts
from potluck.provider.instruction import SignReceipt
from potluck.wire.provider import Finished, NodeRegistered
from potluck.wire.signing.receipt import MOST_RECEIPTS, NO_HASH, NodeSignedReceipt, ReceiptsAnswer

# The end reason of an attempt that the server ended while it ran here.
STOPPED = "stopped"
# How often intervals are looked at.
_LOOK_SECONDS = 1.0
# How long a stop waits for countersignatures; the next start sends the rest.
_DELIVER_SECONDS = 2.0


class _Run(Struct):
    """An attempt whose code has started."""

    facts: WorkFacts
    started_at_ms: int
    began: float  # by the monotonic clock
    parts: int = 0
    ended_at_ms: int = 0
    worked_ms: int = 0

    def worked(self) -> int:
        return self.worked_ms if self.ended_at_ms else int(1000 * (time.monotonic() - self.began))


class AttemptReceipts:
    def __init__(
        self, book: ReceiptBook, news: ChangeCounter, now: Callable[[], float] = time.time
    ) -> None:
        self._book = book
        self._news = news
        self._now = now
        self._interval_seconds = 0.0
        self._runs: dict[AttemptId, _Run] = {}
        self._recovered: dict[AttemptId, WorkTimes] = {}
        self._answers: list[ReceiptsAnswer] = []
        self._has_news = asyncio.Event()
        self._stepped = asyncio.Event()

    def bind(self, answer: NodeRegistered) -> None:
        """At each registration: an earlier server takes no receipts."""
        self._interval_seconds = answer.receipt_seconds
        self._book.bind(answer.signing_address, answer.node_id)

    def began(self, attempt_id: AttemptId, facts: WorkFacts) -> None:
        self._runs[attempt_id] = _Run(facts, self._now_ms(), time.monotonic())
        if facts.price_micro_per_hour:
            self._has_news.set()

    def ended(self, attempt_id: AttemptId) -> None:
        if (run := self._runs.get(attempt_id)) is not None:
            run.worked_ms, run.ended_at_ms = run.worked(), self._now_ms()

    def recovered(self, attempt_id: AttemptId, times: WorkTimes | None) -> None:
        """From the journal of an earlier process."""
        if times is not None:
            self._recovered[attempt_id] = times

    def times(self, attempt_id: AttemptId) -> WorkTimes | None:
        """For the journal."""
        run = self._runs.get(attempt_id)
        return None if run is None else WorkTimes(run.started_at_ms, run.ended_at_ms)

    def sign(self, instructions: list[SignReceipt]) -> None:
        """In a thread: takes a fraction of a millisecond each, and writes to a file."""
        self._book.sign([self._last_claim(instruction) for instruction in instructions])

    def signed(self, attempt_id: AttemptId) -> None:
        """The receipt of this attempt is in the file."""
        self._runs.pop(attempt_id, None)
        self._recovered.pop(attempt_id, None)
        self._has_news.set()

    def unsent(self) -> tuple[NodeSignedReceipt, ...]:
        """For a heartbeat."""
        return self._book.unsent()

    def hear(self, answer: ReceiptsAnswer) -> None:
        """The server's answer to them."""
        if answer.countersigned or answer.refused:
            self._answers.append(answer)
            self._has_news.set()

    async def deliver(self) -> None:
        """Sends them with a heartbeat now, and waits for the answer; for a provider that stops."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_DELIVER_SECONDS):
                while self._book.has_pending:
                    if self._book.unsent():
                        self._news.change()
                    self._stepped.clear()
                    await self._stepped.wait()

    async def run(self) -> None:
        while True:
            with suppress(TimeoutError):
                # An idle provider, or one without a price, is not woken for nothing.
                is_priced = any(run.facts.price_micro_per_hour for run in self._runs.values())
                async with asyncio.timeout(_LOOK_SECONDS if is_priced else None):
                    await self._has_news.wait()
            has_news = self._has_news.is_set()
            self._has_news.clear()
            parts = self._due_parts()
            if has_news or parts:
                answers, self._answers = self._answers, []
                await finish_despite_cancel(asyncio.to_thread(self._step, answers, parts))
                if any(len(answer.countersigned) >= MOST_RECEIPTS for answer in answers):
                    self._news.change()  # the next heartbeat carries the rest
                self._stepped.set()

    def close(self) -> None:
        self._book.close()

    def _step(self, answers: list[ReceiptsAnswer], parts: list[ReceiptClaim]) -> None:
        for answer in answers:
            self._book.take(answer)
        self._book.sign(parts)
        self._book.flush()

    def _due_parts(self) -> list[ReceiptClaim]:
        due = []
        for attempt_id, run in self._runs.items():
            if not run.facts.price_micro_per_hour or run.ended_at_ms or not self._interval_seconds:
                continue
            worked_ms = run.worked()
            if worked_ms >= 1000 * self._interval_seconds * (run.parts + 1):
                times = (run.started_at_ms, self._now_ms(), worked_ms)
                due.append(_claim(attempt_id, run.facts, times, "", is_last=False))
                run.parts += 1
        return due

    def _last_claim(self, signing: SignReceipt) -> ReceiptClaim:
        attempt_id, finished = signing.attempt_id, signing.finished
        run, times = self._runs.get(attempt_id), self._recovered.get(attempt_id, WorkTimes())
        reason = STOPPED if finished is None else str(finished.reason)
        if run is not None:
            times = WorkTimes(run.started_at_ms, run.ended_at_ms)
        worked_ms = run.worked() if run is not None and times.started_at_ms else 0
        if finished is not None:
            worked_ms = round(1000 * finished.usage.run_seconds)
        span = (times.started_at_ms, times.ended_at_ms or self._now_ms(), worked_ms)
        result = _result_sha256(finished)
        return _claim(attempt_id, signing.facts, span, reason, result, is_last=True)

    def _now_ms(self) -> int:
        return int(1000 * self._now())


def _claim(
    attempt_id: AttemptId,
    facts: WorkFacts,
    times: tuple[int, int, int],
    reason: str,
    result_sha256: str = NO_HASH,
    *,
    is_last: bool,
) -> ReceiptClaim:
    return ReceiptClaim(
        attempt_id,
        facts.task_id,
        facts.account_id,
        facts.devices,
        is_last,
        *times,
        reason,
        facts.price_micro_per_hour,
        result_sha256,
    )


def _result_sha256(finished: Finished | None) -> str:
    if finished is None or finished.value is None:
        return NO_HASH
    value = finished.value
    return hashlib.sha256(value.data).hexdigest() if value.blob is None else value.blob.sha256
