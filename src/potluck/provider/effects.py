"""Executes the instructions of the state machine, and passes events to it.

One duty executes instructions in order. It takes all waiting ones together: first their journal
records, durable after one fsync, then the actions that rely on them. Disk writes run in a thread,
so a slow disk delays neither heartbeats nor limits.
"""

import asyncio
import time
from collections import defaultdict
from functools import partial
from itertools import filterfalse
from pathlib import Path

import structlog
from structlog.contextvars import bound_contextvars

from potluck.local.shielded import finish_despite_cancel
from potluck.model.ids import AttemptId
from potluck.model.lease import Lease
from potluck.provider.announcement import Announce, AttemptPreparing, AttemptStarted, end_of_attempt
from potluck.provider.attempt.item_feed import ItemFeed
from potluck.provider.attempt.journal import (
    Concluded,
    Forgotten,
    ItemsCounted,
    ItemsTaken,
    Journal,
    JournalEntry,
    Leased,
    OutcomesDelivered,
    Record,
)
from potluck.provider.attempt.log_buffer import LogBuffer, LogSpool, remove_strays
from potluck.provider.attempt.receipts import AttemptReceipts
from potluck.provider.attempt.runner import Runner, outcome_of_run
from potluck.provider.attempt.shipment import Shipment
from potluck.provider.control.message import AttemptNow, WarmNow
from potluck.provider.event import (
    CodeStarted,
    Event,
    Granted,
    ItemsAccepted,
    PrepareBegan,
    Recovered,
    RunEnded,
    WaitedLong,
)
from potluck.provider.files.blob_transfer import AttemptTransfers, BlobTransfer
from potluck.provider.files.outbox import Outbox, remove_stray_outboxes
from potluck.provider.files.output_upload import upload_outputs
from potluck.provider.holding import WorkFacts, work_facts
from potluck.provider.instruction import (
    CancelItems,
    Conclude,
    Drop,
    FeedItems,
    Forget,
    Instruction,
    Keep,
    RecallAttempt,
    ReleaseAttempt,
    Remember,
    SendReport,
    SignReceipt,
    StageAttempt,
    StartAttempt,
    StopAttempt,
)
from potluck.provider.sandbox.driver import StopRequest
from potluck.provider.server.log_upload import ship_log
from potluck.provider.server.report import ReportSender
from potluck.provider.server.server_client import NodeServerClient
from potluck.provider.server.throttle import Throttle
from potluck.provider.settings import ProviderSettings
from potluck.provider.state import Attempts
from potluck.wire.provider import CallPosition, Finished, Grant, ItemsDone

log = structlog.get_logger()


class AttemptEffects:
    """All attempts of this node, with their runs, logs, reports and journal."""

    def __init__(
        self,
        directory: Path,
        link: NodeServerClient,
        runner: Runner,
        announce: Announce,
        settings: ProviderSettings,
        throttle: Throttle,
        receipts: AttemptReceipts,
    ) -> None:
        self._directory = directory
        self._link = link
        self._runner = runner
        self._announce = announce
        self._throttle = throttle
        self.receipts = receipts
        self._log_flush_seconds = settings.log_flush_seconds
        self._attempts = Attempts(settings.stop_after_silence_seconds)
        self._shipments: dict[AttemptId, Shipment] = {}
        self._runs: dict[AttemptId, asyncio.Task[Finished]] = {}
        self._turns: dict[AttemptId, asyncio.Event] = {}  # of staged runs
        self._ahead_seconds = settings.ahead_seconds
        self._recalls: dict[AttemptId, StopRequest] = {}
        self._since: dict[AttemptId, float] = {}
        self._feeds: defaultdict[AttemptId, ItemFeed] = defaultdict(ItemFeed)  # of call streams
        self._used: set[str] = set()
        self._undone: list[Instruction] = []
        self._done = 0
        self._changed = asyncio.Event()
        self._has_work = asyncio.Event()
        self._is_closed = False
        self._journal: Journal | None = None
        self.reports = ReportSender(link, self.tell)

    def begin(self, duties: asyncio.TaskGroup) -> None:
        """Recovers the attempts in the journal; from here on `tell` may be called."""
        self._duties = duties
        self._journal = Journal.open(self._directory)
        entries = self._journal.kept
        attempt_ids = {entry.leased.lease.attempt_id for entry in entries}
        remove_strays(self._directory, attempt_ids)
        remove_stray_outboxes(self._directory, attempt_ids)
        self.tell([self._recovered(entry) for entry in entries])
        duties.create_task(self._work())
        duties.create_task(self.reports.run())
        duties.create_task(self.receipts.run())

    async def use(self, runner: Runner) -> None:
        """Starts attempts in this runner from now on; ends the warm interpreters of the old one."""
        before, self._runner = self._runner, runner
        await before.warm.close()

    def warm(self) -> tuple[WarmNow, ...]:
        """The idle interpreters, for the owner's status."""
        return self._runner.warm.now()

    def held(self) -> tuple[Lease, ...]:
        return self._attempts.held()

    def streams(self) -> tuple[CallPosition, ...]:
        return self._attempts.streams()

    def shortest_silence_seconds(self) -> float | None:
        return self._attempts.shortest_silence_seconds()

    def now(self) -> tuple[AttemptNow, ...]:
        """The held attempts, for the owner's status."""
        now = time.monotonic()
        return tuple(
            AttemptNow(
                holding.lease.attempt_id,
                holding.task_id,
                holding.phase,
                tuple(holding.devices_milli),
                now - self._since.get(holding.lease.attempt_id, now),
            )
            for holding in self._attempts.holdings()
        )

    def busy(self) -> set[str]:
        """The devices that attempts run on or wait for."""
        return {
            uuid
            for holding in self._attempts.holdings()
            if holding.occupies_devices or holding.is_stoppable
            for uuid in holding.devices_milli
        }

    def spooled_bytes(self) -> tuple[int, int]:
        """The disk that logs and output files take until the server has them."""
        sizes = [shipment.sizes() for shipment in self._shipments.values()]
        return sum(log_bytes for log_bytes, _ in sizes), sum(kept_bytes for _, kept_bytes in sizes)

    def used(self) -> set[str]:
        """The devices that were busy at any time since the last call."""
        used, self._used = self._used | self.busy(), set()
        return used

    async def changed(self) -> None:
        """Returns when the state may have changed."""
        self._changed.clear()
        await self._changed.wait()

    def tell(self, events: list[Event]) -> bool:
        """Handles events; returns whether there were instructions. Ignored after `close`."""
        if self._is_closed:
            return False
        self._used |= self.busy()
        for event in events:
            self._runner.warm.hear(event)
            if isinstance(event, ItemsAccepted):
                self._make_room(event.report)
            if isinstance(event, Granted) and event.grant.line is not None:
                self._limit_wait(event.grant.attempt_id)
        instructions = [
            instruction for event in events for instruction in self._attempts.handle(event)
        ]
        # The lease of a staged run is in the journal: it need not wait for what is written next.
        self._undone += filterfalse(self._begin_staged, instructions)
        self._has_work.set()
        self._changed.set()
        return bool(instructions)

    def _begin_staged(self, instruction: Instruction) -> bool:
        """Whether the instruction is to start a staged run, which starts now."""
        if not isinstance(instruction, StartAttempt):
            return False
        if (turn := self._turns.pop(instruction.grant.attempt_id, None)) is not None:
            turn.set()
        return turn is not None

    async def settled(self) -> None:
        """Returns when nothing runs, the server has every outcome and all instructions are done."""
        while self._runs or self._undone or not self._attempts.is_settled():
            await self.changed()

    async def close(self) -> None:
        """Ends all runs. Nothing is written to the journal from now on."""
        self._is_closed = True
        for run in self._runs.values():
            run.cancel()
        await asyncio.gather(*self._runs.values(), return_exceptions=True)
        await self._runner.warm.close()
        for shipment in self._shipments.values():
            shipment.close()
        self.receipts.close()
        if self._journal is not None:
            self._journal.close()

    async def _all_done(self) -> None:
        """Returns when all instructions given by now are done."""
        last = self._done + len(self._undone)
        while self._done < last:
            await self.changed()

    async def _work(self) -> None:
        """Executes instructions until it is cancelled; a write in progress is then completed."""
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            batch = list(self._undone)
            await self._remember(batch)
            # Takes along what arrived during the write: a range ends with its last items.
            later = self._undone[len(batch) :]
            await self._remember(later)
            batch += later
            for instruction in batch:
                self._perform(instruction)
            del self._undone[: len(batch)]
            self._done += len(batch)
            self._changed.set()

    async def _remember(self, batch: list[Instruction]) -> None:
        """Writes that need an fsync run in a thread; others take no time."""
        assert self._journal is not None, "work has begun"
        records = [record for record in map(self._record, batch) if record is not None]
        signs = any(isinstance(instruction, SignReceipt) for instruction in batch)
        if signs or self._journal.takes_long(records):
            await finish_despite_cancel(asyncio.to_thread(self._write, batch, records))
        else:
            self._journal.write(records)

    def _write(self, batch: list[Instruction], records: list[Record]) -> None:
        """Makes the log durable before the outcome, which says that it is complete; files are
        durable already. Signs receipts before the attempts are forgotten.
        """
        assert self._journal is not None, "work has begun"
        for instruction in batch:
            if isinstance(instruction, Conclude):
                self._sync(instruction.finished.lease.attempt_id)
        self.receipts.sign([step for step in batch if isinstance(step, SignReceipt)])
        self._journal.write(records)

    def _record(self, instruction: Instruction) -> Record | None:
        match instruction:
            case Remember(lease, task_id, facts):
                return Leased(lease, task_id, facts)
            case Conclude(finished):
                return Concluded(finished, self.receipts.times(finished.lease.attempt_id))
            case FeedItems(items):
                return ItemsTaken(items.attempt_id, items.start, items.end)
            case Keep(report, is_synced):
                return ItemsCounted(report, is_synced)
            case Drop(report):
                return OutcomesDelivered(report.lease.attempt_id, report.first_item)
            case Forget(attempt_id):
                return Forgotten(attempt_id)
        return None

    def _perform(self, instruction: Instruction) -> None:  # noqa: C901, the table of instructions
        match instruction:
            case Remember(lease):
                self._since[lease.attempt_id] = time.monotonic()
            case FeedItems(items):
                self._feeds[items.attempt_id].add(items)
            case CancelItems(items) if items.attempt_id in self._feeds:
                self._feeds[items.attempt_id].cancel(items.items)
            case ReleaseAttempt(attempt_id):
                self._feeds[attempt_id].release()
            case StageAttempt(grant):
                turn = self._turns[grant.attempt_id] = asyncio.Event()
                self._start(grant, turn)
            case StartAttempt(grant) if not self._begin_staged(instruction):
                self._start(grant)
            case RecallAttempt(attempt_id, reason, grace_seconds) if attempt_id in self._runs:
                self._recalls[attempt_id].ask(reason, grace_seconds)
            case StopAttempt(attempt_id) if attempt_id in self._runs:
                self._runs[attempt_id].cancel()
            case SendReport(report):
                self.reports.send(report)
            case SignReceipt(attempt_id):
                self.receipts.signed(attempt_id)
            case Forget(attempt_id):
                self.reports.withdraw(attempt_id)
                self._discard(attempt_id)
                self._since.pop(attempt_id, None)
                self._feeds.pop(attempt_id, None)

    def _start(self, grant: Grant, turn: asyncio.Event | None = None) -> None:
        shipment = self._open(Lease(grant.attempt_id, grant.token))
        progress = partial(self._progress, work_facts(grant))
        recall = self._recalls[grant.attempt_id] = StopRequest()
        feed = None if grant.linger_seconds is None else self._feeds[grant.attempt_id]
        # Whatever these tasks log has the ids.
        with bound_contextvars(task_id=grant.task_id, attempt_id=grant.attempt_id):
            log.info("attempt starts")
            parts = shipment.log, progress, shipment.freight, recall, turn, feed
            self._runs[grant.attempt_id] = asyncio.create_task(self._runner.run(grant, *parts))
            self._duties.create_task(self._attend(grant, shipment))

    async def _attend(self, grant: Grant, shipment: Shipment) -> None:
        """Waits for the end of a run; a duty, so that a failed record stops the provider."""
        run = self._runs[grant.attempt_id]
        await asyncio.wait([run])
        del self._runs[grant.attempt_id], self._recalls[grant.attempt_id]
        self._turns.pop(grant.attempt_id, None)
        self.receipts.ended(grant.attempt_id)
        finished = None if run.cancelled() else outcome_of_run(grant, run)
        parcels = len(shipment.freight.outbox)
        self.tell([RunEnded(grant.attempt_id, finished, shipment.log.pieces, parcels)])
        await self._all_done()
        log.info("attempt ended", reason=None if finished is None else finished.reason)
        self._announce(end_of_attempt(grant, finished))

    def _progress(self, facts: WorkFacts, event: Event) -> None:
        self.tell([event])
        match event:
            case PrepareBegan(attempt_id):
                self._announce(AttemptPreparing(attempt_id, facts.task_id))
            case CodeStarted(attempt_id):
                self.receipts.began(attempt_id, facts)
                self._announce(AttemptStarted(attempt_id, facts.task_id))

    def _recovered(self, entry: JournalEntry) -> Recovered:
        lease, task_id = entry.leased.lease, entry.leased.task_id
        outcomes = tuple(entry.outcomes.values())
        self.receipts.recovered(lease.attempt_id, entry.times)
        shipment = self._open(lease)
        pieces, parcels = shipment.log.pieces, len(shipment.freight.outbox)
        facts, taken = entry.leased.facts, entry.unfinished
        return Recovered(lease, task_id, entry.finished, pieces, outcomes, parcels, facts, taken)

    def _open(self, lease: Lease) -> Shipment:
        spool = LogSpool.open(self._directory, lease.attempt_id)
        attempt_log = LogBuffer(spool, self._log_flush_seconds)
        freight = AttemptTransfers(
            Outbox.open(self._directory, lease.attempt_id),
            BlobTransfer(self._link, lease, self._throttle),
        )
        duties = (
            ship_log(self._link, lease, attempt_log, self.tell, self._throttle),
            upload_outputs(freight, lease.attempt_id, attempt_log, self.tell),
        )
        with bound_contextvars(attempt_id=lease.attempt_id):
            running = tuple(self._duties.create_task(duty) for duty in duties)
        shipment = Shipment(attempt_log, freight, running)
        self._shipments[lease.attempt_id] = shipment
        return shipment

    def _limit_wait(self, attempt_id: AttemptId) -> None:
        """A timer that ends with the loop: `tell` ignores it after `close`."""
        events: list[Event] = [WaitedLong(attempt_id)]
        asyncio.get_running_loop().call_later(self._ahead_seconds, self.tell, events)

    def _make_room(self, report: ItemsDone) -> None:
        if (shipment := self._shipments.get(report.lease.attempt_id)) is not None:
            shipment.freight.backlog.remove(report)

    def _sync(self, attempt_id: AttemptId) -> None:
        if attempt_id in self._shipments:
            self._shipments[attempt_id].log.sync()

    def _discard(self, attempt_id: AttemptId) -> None:
        if (shipment := self._shipments.pop(attempt_id, None)) is not None:
            shipment.discard()
