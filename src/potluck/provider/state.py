"""The provider's state machine: events in, instructions out. No I/O and no clock.

`Attempts` knows every attempt that this node holds. It turns an event into instructions, in the
order in which they must be done (journal records before the actions that rely on them), and
guarantees:

- an attempt is started at most once, however often its grant arrives;
- an attempt starts on a device only when the runs there leave room for it; a cancelled run counts
  until it has really ended; attempts of one line run one after the other, in the order of their
  grants, and the next ones are staged meanwhile;
- `Finished` is sent only after the server has acknowledged all log pieces and files of the attempt,
  and after all outcomes of its items: reports keep their order;
- every granted attempt is reported, unless the server cancels it. At shutdown, running and waiting
  attempts are reported as given back, and ended ones keep their outcome;
- what was done in an attempt is signed after the server has its end, and before it is forgotten;
- nothing is reported about an attempt that the server cancelled;
- an attempt whose limit for the server's silence has passed is stopped and reported as such;
- a device that its owner has closed takes no new work: its grants, waiting ones included, are given
  back immediately; a recalled attempt ends after its grace and is reported as reclaimed.
"""

from collections.abc import Mapping
from typing import assert_never

from msgspec.structs import replace

from potluck.model.ids import AttemptId
from potluck.model.lease import Lease
from potluck.model.task import EndReason
from potluck.provider.event import (
    CodeStarted,
    CreditEnded,
    DevicesClosed,
    DevicesWanted,
    Event,
    FinishAccepted,
    Granted,
    GrantRefusal,
    ItemsAccepted,
    ItemsCancelled,
    ItemsEnded,
    ItemsGranted,
    LeaseLost,
    LogAcknowledged,
    LogCut,
    ParcelsShipped,
    PrepareBegan,
    Recovered,
    Released,
    RunEnded,
    ShutdownRequested,
    SilenceLasted,
    ValueRefused,
    WaitedLong,
)
from potluck.provider.holding import AttemptPhase, Holding, silence_seconds, work_facts
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
    StopAttempt,
)
from potluck.provider.start_order import start_waiting
from potluck.wire.provider import CallPosition, Finished, Grant, ItemsDone, Preparing, Started

# How many ended attempts are remembered, in case a grant of one arrives again.
REMEMBERED_ENDS = 4096


class Attempts:
    def __init__(self, owners_silence_seconds: float | None = None) -> None:
        self._owners_silence_seconds = owners_silence_seconds
        self._holdings: dict[AttemptId, Holding] = {}
        self._over: dict[AttemptId, None] = {}
        self._closed: Mapping[str, GrantRefusal] = {}
        self._is_leaving = False

    def held(self) -> tuple[Lease, ...]:
        """The leases to list in every poll and heartbeat."""
        return tuple(holding.lease for holding in self._holdings.values() if holding.is_leased)

    def streams(self) -> tuple[CallPosition, ...]:
        """How far it knows the items of its attempts on call streams, for every poll."""
        positions = [holding.position for holding in self._holdings.values()]
        return tuple(position for position in positions if position is not None)

    def shortest_silence_seconds(self) -> float | None:
        """The shortest silence of the server that would stop an attempt."""
        limits = [
            holding.silence_seconds for holding in self._holdings.values() if holding.is_stoppable
        ]
        return min((limit for limit in limits if limit is not None), default=None)

    def holdings(self) -> tuple[Holding, ...]:
        """Read-only."""
        return tuple(self._holdings.values())

    def is_settled(self) -> bool:
        """Whether nothing runs or waits, and the server has every outcome."""
        return not self._holdings

    def handle(self, event: Event) -> list[Instruction]:  # noqa: C901, the table of events
        match event:
            case Granted(grant):
                return self._granted(grant)
            case ItemsGranted():
                return self._items_granted(event)
            case ItemsCancelled():
                return self._items_cancelled(event)
            case Released(attempt_id):
                return self._released(attempt_id)
            case Recovered():
                return self._recovered(event)
            case WaitedLong(attempt_id):
                return self._waited_long(attempt_id)
            case PrepareBegan(attempt_id):
                return self._progress(attempt_id, Preparing)
            case CodeStarted(attempt_id):
                return self._progress(attempt_id, Started)
            case ItemsEnded():
                return self._items_ended(event)
            case ItemsAccepted(report):
                return self._items_accepted(report)
            case RunEnded():
                return self._run_ended(event)
            case ParcelsShipped():
                return self._parcels_shipped(event)
            case ValueRefused(attempt_id, detail):
                return self._value_refused(attempt_id, detail)
            case LogAcknowledged(attempt_id, pieces):
                return self._log_acknowledged(attempt_id, pieces)
            case LogCut(attempt_id):
                return self._log_cut(attempt_id)
            case FinishAccepted(attempt_id):
                return self._finish_accepted(attempt_id)
            case LeaseLost(attempt_id):
                return self._lease_lost(attempt_id)
            case CreditEnded(attempt_id, grace_seconds):
                return self._credit_ended(attempt_id, grace_seconds)
            case SilenceLasted(seconds):
                return self._silence_lasted(seconds)
            case DevicesClosed(refusals):
                self._closed = refusals
                return self._refuse_closed()
            case DevicesWanted():
                return self._recall(event)
            case ShutdownRequested():
                return self._shut_down()
            case _:
                assert_never(event)

    def _granted(self, grant: Grant) -> list[Instruction]:
        attempt_id = grant.attempt_id
        if self._is_leaving or attempt_id in self._holdings or attempt_id in self._over:
            return []
        lease = Lease(attempt_id, grant.token)
        devices = {device.uuid: device.milli for device in grant.devices}
        holding = Holding(lease, grant.task_id, AttemptPhase.WAITING, devices, grant)
        holding.facts = work_facts(grant)
        holding.silence_seconds = silence_seconds(grant, self._owners_silence_seconds)
        holding.is_reclaimable = grant.is_reclaimable
        holding.line, holding.is_priced = grant.line, grant.price_micro_per_hour > 0
        holding.is_stream = grant.linger_seconds is not None
        holding.next_item = 0 if holding.is_stream else None
        self._holdings[attempt_id] = holding
        return [Remember(lease, grant.task_id, holding.facts), *self._refuse_closed()]

    def _items_granted(self, event: ItemsGranted) -> list[Instruction]:
        items, holding = event.items, self._holdings.get(event.items.attempt_id)
        return [FeedItems(items)] if holding is not None and holding.take_items(items) else []

    def _items_cancelled(self, event: ItemsCancelled) -> list[Instruction]:
        items, holding = event.items, self._holdings.get(event.items.attempt_id)
        is_new = holding is not None and holding.is_leased and holding.cancel_items(items)
        return [CancelItems(items)] if is_new else []

    def _released(self, attempt_id: AttemptId) -> list[Instruction]:
        holding = self._holdings.get(attempt_id)
        return [ReleaseAttempt(attempt_id)] if holding is not None and holding.release() else []

    def _recovered(self, event: Recovered) -> list[Instruction]:
        finished = event.finished or event.interrupted
        holding = Holding(
            event.lease,
            event.task_id,
            AttemptPhase.SHIPPING,
            finished=finished,
            log_pieces=event.log_pieces,
            parcels=event.parcels,
            outcomes=list(event.outcomes),
            facts=event.facts,
        )
        self._holdings[event.lease.attempt_id] = holding
        # Durable: after a second crash the outcome is the same.
        conclude: list[Instruction] = [] if event.finished else [Conclude(finished)]
        reports = map(SendReport, holding.outcomes)
        return [*conclude, *reports, *self._report_if_shipped(holding)]

    def _progress(
        self, attempt_id: AttemptId, report: type[Preparing] | type[Started]
    ) -> list[Instruction]:
        holding = self._holdings.get(attempt_id)
        phases = (AttemptPhase.RUNNING, AttemptPhase.STAGED)
        if holding is None or holding.phase not in phases:
            return []
        return [SendReport(report(holding.lease))]

    def _items_ended(self, event: ItemsEnded) -> list[Instruction]:
        holding = self._holdings.get(event.attempt_id)
        if holding is None or not holding.is_leased:
            return []
        report = ItemsDone(holding.lease, event.outcomes, event.returned)
        holding.outcomes.append(report)
        return [Keep(report, is_synced=not holding.is_stream), SendReport(report)]

    def _items_accepted(self, report: ItemsDone) -> list[Instruction]:
        holding = self._holdings.get(report.lease.attempt_id)
        if holding is None or report not in holding.outcomes:
            return []
        holding.outcomes.remove(report)
        return [Drop(report)]

    def _run_ended(self, event: RunEnded) -> list[Instruction]:
        holding = self._holdings.get(event.attempt_id)
        if holding is None or not holding.has_process:
            return []
        if not holding.is_leased:
            self._drop(event.attempt_id)
            receipt = _receipt(holding) if holding.has_run else []
            return [*receipt, *self._start_waiting()]
        # A run that ended by itself just before it was stopped keeps its outcome.
        finished = event.finished or holding.given_back
        holding.log_pieces = max(holding.log_pieces, event.log_pieces)
        holding.parcels = event.parcels
        return [*self._conclude(holding, finished), *self._start_waiting()]

    def _conclude(self, holding: Holding, finished: Finished) -> list[Instruction]:
        holding.phase, holding.finished, holding.grant = AttemptPhase.SHIPPING, finished, None
        return [Conclude(finished), *self._report_if_shipped(holding)]

    def _parcels_shipped(self, event: ParcelsShipped) -> list[Instruction]:
        holding = self._holdings.get(event.attempt_id)
        if holding is None:
            return []
        holding.shipped_parcels = event.parcels
        holding.log_pieces = max(holding.log_pieces, event.log_pieces)
        return self._report_if_shipped(holding)

    def _value_refused(self, attempt_id: AttemptId, detail: str) -> list[Instruction]:
        """The report must not refer to a value that the server does not have."""
        if (holding := self._holdings.get(attempt_id)) is not None:
            holding.value_refused = detail
        return []

    def _log_acknowledged(self, attempt_id: AttemptId, pieces: int) -> list[Instruction]:
        holding = self._holdings.get(attempt_id)
        if holding is None:
            return []
        holding.acknowledged_pieces = pieces
        return self._report_if_shipped(holding)

    def _log_cut(self, attempt_id: AttemptId) -> list[Instruction]:
        holding = self._holdings.get(attempt_id)
        if holding is None:
            return []
        holding.is_log_cut = True
        return self._report_if_shipped(holding)

    def _report_if_shipped(self, holding: Holding) -> list[Instruction]:
        finished = holding.finished
        if finished is None or holding.phase is not AttemptPhase.SHIPPING or not holding.is_shipped:
            return []
        holding.phase = AttemptPhase.REPORTING
        if holding.value_refused and finished.value is not None:
            detail = f"The server rejected its result: {holding.value_refused}"
            finished = replace(finished, reason=EndReason.EXCEPTION, detail=detail, value=None)
        return [SendReport(finished)]

    def _finish_accepted(self, attempt_id: AttemptId) -> list[Instruction]:
        holding = self._holdings.get(attempt_id)
        if holding is None or holding.phase is not AttemptPhase.REPORTING:
            return []
        self._drop(attempt_id)
        return [*_receipt(holding), Forget(attempt_id), *self._start_waiting()]

    def _lease_lost(self, attempt_id: AttemptId) -> list[Instruction]:
        holding = self._holdings.get(attempt_id)
        if holding is None or not holding.is_leased:
            return []
        if not holding.has_process:
            self._drop(attempt_id)
            receipt = _receipt(holding) if holding.finished else []
            return [*receipt, Forget(attempt_id), *self._start_waiting()]
        holding.is_leased = False
        holding.outcomes.clear()  # the server no longer accepts them
        return [*self._stop(holding), Forget(attempt_id)]

    def _silence_lasted(self, seconds: float) -> list[Instruction]:
        instructions: list[Instruction] = []
        for holding in self._holdings.values():
            limit = holding.silence_seconds
            if limit is not None and limit <= seconds and holding.is_stoppable:
                holding.stopped_by = EndReason.SILENCE
                instructions += self._give_back(holding)
        return instructions

    def _recall(self, event: DevicesWanted) -> list[Instruction]:
        """Ends waiting attempts immediately; running ones get the longest grace of their devices.

        A repeated recall keeps the first reason, and can only shorten the grace.
        """
        instructions: list[Instruction] = []
        grace = event.grace_seconds
        for holding in self._holdings.values():
            graces = [grace[uuid] for uuid in holding.devices_milli if uuid in grace]
            is_concerned = holding.is_reclaimable or not event.is_by_terms
            if not graces or not holding.is_stoppable or not is_concerned:
                continue
            instructions += self._end_after(holding, event.reason, max(graces))
        return instructions

    def _credit_ended(self, attempt_id: AttemptId, grace_seconds: float) -> list[Instruction]:
        holding = self._holdings.get(attempt_id)
        if holding is None or not holding.is_stoppable or not holding.is_leased:
            return []
        return self._end_after(holding, EndReason.CREDIT, grace_seconds)

    def _end_after(
        self, holding: Holding, reason: EndReason, grace_seconds: float
    ) -> list[Instruction]:
        if holding.recall_seconds is None:
            holding.stopped_by = reason
        if holding.waits:
            return self._give_back(holding)
        if holding.recall_seconds is not None and grace_seconds >= holding.recall_seconds:
            return []
        holding.recall_seconds = grace_seconds
        return [RecallAttempt(holding.lease.attempt_id, holding.stopped_by, grace_seconds)]

    def _shut_down(self) -> list[Instruction]:
        self._is_leaving = True
        return [done for holding in self._holdings.values() for done in self._give_back(holding)]

    def _give_back(self, holding: Holding) -> list[Instruction]:
        if holding.phase is AttemptPhase.WAITING:
            return self._conclude(holding, holding.given_back)
        return self._stop(holding)

    def _stop(self, holding: Holding) -> list[Instruction]:
        if holding.phase not in (AttemptPhase.RUNNING, AttemptPhase.STAGED):
            return []
        holding.phase = AttemptPhase.STOPPING
        return [StopAttempt(holding.lease.attempt_id)]

    def _refuse_closed(self) -> list[Instruction]:
        """Gives back attempts that wait for a closed device; starts the others that have room."""
        instructions: list[Instruction] = []
        for holding in self._holdings.values():
            closed = [self._closed[uuid] for uuid in holding.devices_milli if uuid in self._closed]
            if closed and holding.waits:
                holding.stopped_by, holding.why = closed[0].reason, closed[0].detail
                instructions += self._give_back(holding)
        return [*instructions, *self._start_waiting()]

    def _waited_long(self, attempt_id: AttemptId) -> list[Instruction]:
        """Gives back one that was granted ahead, while another of its line still runs. If the
        server has cancelled that one, this one has its share and starts soon."""
        holding = self._holdings.get(attempt_id)
        if holding is None or not holding.waits or not holding.is_leased:
            return []
        others = [other for other in self._holdings.values() if other.is_of_line(holding.line)]
        if not any(other.occupies_devices and other.is_leased for other in others):
            return []
        holding.stopped_by = EndReason.DECLINED
        holding.why = "it was granted ahead, and its devices were not free in time"
        return self._give_back(holding)

    def _start_waiting(self) -> list[Instruction]:
        return [] if self._is_leaving else start_waiting(list(self._holdings.values()))

    def _drop(self, attempt_id: AttemptId) -> None:
        del self._holdings[attempt_id]
        self._over[attempt_id] = None
        if len(self._over) > REMEMBERED_ENDS:
            del self._over[next(iter(self._over))]


def _receipt(holding: Holding) -> list[Instruction]:
    if holding.facts is None:
        return []
    return [SignReceipt(holding.lease.attempt_id, holding.facts, holding.finished)]
