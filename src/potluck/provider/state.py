"""The provider's mind: events in, instructions out. No I/O and no clock.

One value, `Attempts`, knows every attempt that this node holds. What happened comes in as an event;
what is to be done comes out as instructions, in the order in which they must be done (the records
for the journal before the acts that rely on them). It guarantees:

- an attempt is started at most once, however often its grant comes;
- a device serves a new attempt only when the runs on it leave it room, and a run that was called
  off counts until it has really ended;
- `Finished` is sent only when the server has acknowledged every log piece and every file that it
  has left, and behind every outcome of an item: reports keep their order;
- what was granted is reported or was called off by the server, also when the provider shuts down:
  what ran or waited then is reported as given back, and what had ended keeps its outcome;
- nothing is reported about an attempt that the server called off;
- what the server's silence has outlasted is stopped, and reported as that;
- a device that its owner has closed takes nothing new: a grant of it, also one that waits for a run
  to end, is given back at once, so that its task need not wait; what its owner wants back ends
  after its grace, and is reported as that.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from potluck.model.device import WHOLE_DEVICE_MILLI
from potluck.model.ids import AttemptId, TaskId
from potluck.model.lease import Lease
from potluck.model.task import EndReason
from potluck.provider.event import (
    CodeStarted,
    DevicesClosed,
    DevicesWanted,
    Event,
    FinishAccepted,
    Granted,
    GrantRefusal,
    ItemsAccepted,
    ItemsEnded,
    LeaseLost,
    LogAcknowledged,
    LogCut,
    ParcelsShipped,
    PrepareBegan,
    Recovered,
    RunEnded,
    ShutdownAsked,
    SilenceLasted,
    ValueRefused,
)
from potluck.provider.instruction import (
    Conclude,
    Drop,
    Forget,
    Instruction,
    Keep,
    RecallAttempt,
    Remember,
    SendReport,
    StartAttempt,
    StopAttempt,
)
from potluck.wire.provider import (
    Finished,
    Grant,
    ItemsDone,
    Preparing,
    Started,
)

# How many attempts that are over are remembered, in case a grant of one comes once more.
REMEMBERED_ENDS = 4096


class AttemptPhase(StrEnum):
    """Where an attempt stands on this node."""

    WAITING = "waiting"  # granted; a device of it is still taken by a run that is ending
    RUNNING = "running"  # its run has been started
    STOPPING = "stopping"  # its run was told to end and has not ended yet
    SHIPPING = "shipping"  # ended; the server lacks pieces of its log, or files
    REPORTING = "reporting"  # ended; `Finished` was sent and has no answer yet


class Holding(Struct):
    """One attempt on this node."""

    lease: Lease
    task_id: TaskId
    phase: AttemptPhase
    devices_milli: dict[str, int] = {}
    grant: Grant | None = None  # only as long as it has to be started
    finished: Finished | None = None
    log_pieces: int = 0  # known when it has ended
    acknowledged_pieces: int = 0
    parcels: int = 0  # that it has left for its owner; known when it has ended
    shipped_parcels: int = 0
    value_refused: str = ""  # why the server does not take what the function returned
    is_log_cut: bool = False  # the server wants no more of its log
    outcomes: list[ItemsDone] = []  # of its items, as far as the server lacks them
    silence_seconds: float | None = None  # of the server, after which it is to be stopped
    stopped_by: EndReason = EndReason.NODE_LEFT  # if we end it ourselves
    why: str = ""  # where its reason alone does not say enough
    recall_seconds: float | None = None  # the shortest grace that it was asked to end within
    is_leased: bool = True  # false once the server called it off
    is_reclaimable: bool = False  # it came when its owner had said that it may be stopped for him

    @property
    def occupies_devices(self) -> bool:
        return self.phase in (AttemptPhase.RUNNING, AttemptPhase.STOPPING)

    @property
    def is_stoppable(self) -> bool:
        return self.is_leased and self.phase in (AttemptPhase.WAITING, AttemptPhase.RUNNING)

    @property
    def is_shipped(self) -> bool:
        has_log = self.is_log_cut or self.acknowledged_pieces >= self.log_pieces
        return has_log and self.shipped_parcels >= self.parcels


class Attempts:
    """Every attempt that this node holds."""

    def __init__(self, owners_silence_seconds: float | None = None) -> None:
        self._owners_silence_seconds = owners_silence_seconds
        self._holdings: dict[AttemptId, Holding] = {}
        self._over: dict[AttemptId, None] = {}
        self._closed: Mapping[str, GrantRefusal] = {}
        self._is_leaving = False

    def held(self) -> tuple[Lease, ...]:
        """The leases to list in every poll and heartbeat."""
        return tuple(one.lease for one in self._holdings.values() if one.is_leased)

    def shortest_silence_seconds(self) -> float | None:
        """The soonest that a silence of the server could stop anything here."""
        limits = [one.silence_seconds for one in self._holdings.values() if one.is_stoppable]
        return min((each for each in limits if each is not None), default=None)

    def holdings(self) -> tuple[Holding, ...]:
        """To be looked at only."""
        return tuple(self._holdings.values())

    def is_settled(self) -> bool:
        """Whether nothing runs or waits here, and the server has every outcome."""
        return not self._holdings

    def handle(self, event: Event) -> list[Instruction]:  # noqa: C901, the table of events
        """What to do about it."""
        match event:
            case Granted(grant):
                return self._granted(grant)
            case Recovered():
                return self._recovered(event)
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
            case SilenceLasted(seconds):
                return self._outlast(seconds)
            case DevicesClosed(refusals):
                self._closed = refusals
                return self._turn_away()
            case DevicesWanted():
                return self._want_back(event)
            case ShutdownAsked():
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
        holding.silence_seconds = self._silence_seconds(grant)
        holding.is_reclaimable = grant.is_reclaimable
        self._holdings[attempt_id] = holding
        return [Remember(lease, grant.task_id), *self._turn_away()]

    def _recovered(self, event: Recovered) -> list[Instruction]:
        finished = event.finished or Finished(
            event.lease,
            EndReason.NODE_RESTARTED,
            detail=EndReason.NODE_RESTARTED.facts.meaning,
        )
        holding = Holding(
            event.lease,
            event.task_id,
            AttemptPhase.SHIPPING,
            finished=finished,
            log_pieces=event.log_pieces,
            parcels=event.parcels,
        )
        holding.outcomes = list(event.outcomes)
        self._holdings[event.lease.attempt_id] = holding
        # A second crash must not turn what was cut short into something else.
        conclude: list[Instruction] = [] if event.finished else [Conclude(finished)]
        again = map(SendReport, holding.outcomes)
        return [*conclude, *again, *self._report_if_shipped(holding)]

    def _progress(
        self, attempt_id: AttemptId, report: type[Preparing] | type[Started]
    ) -> list[Instruction]:
        holding = self._holdings.get(attempt_id)
        if holding is None or holding.phase is not AttemptPhase.RUNNING:
            return []
        return [SendReport(report(holding.lease))]

    def _items_ended(self, event: ItemsEnded) -> list[Instruction]:
        holding = self._holdings.get(event.attempt_id)
        if holding is None or not holding.is_leased:
            return []
        report = ItemsDone(holding.lease, event.outcomes, event.returned)
        holding.outcomes.append(report)
        return [Keep(report), SendReport(report)]

    def _items_accepted(self, report: ItemsDone) -> list[Instruction]:
        holding = self._holdings.get(report.lease.attempt_id)
        if holding is None or report not in holding.outcomes:
            return []
        holding.outcomes.remove(report)
        return [Drop(report)]

    def _run_ended(self, event: RunEnded) -> list[Instruction]:
        holding = self._holdings.get(event.attempt_id)
        if holding is None or not holding.occupies_devices:
            return []
        if not holding.is_leased:
            self._drop(event.attempt_id)
            return self._start_waiting()
        # What ended by itself just before it was stopped keeps its outcome.
        finished = event.finished or _given_back(holding)
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
        """A report must not name what the server does not have."""
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
            detail = f"What it returned was not taken: {holding.value_refused}"
            finished = replace(finished, reason=EndReason.EXCEPTION, detail=detail, value=None)
        return [SendReport(finished)]

    def _finish_accepted(self, attempt_id: AttemptId) -> list[Instruction]:
        holding = self._holdings.get(attempt_id)
        if holding is None or holding.phase is not AttemptPhase.REPORTING:
            return []
        self._drop(attempt_id)
        return [Forget(attempt_id)]

    def _lease_lost(self, attempt_id: AttemptId) -> list[Instruction]:
        holding = self._holdings.get(attempt_id)
        if holding is None or not holding.is_leased:
            return []
        if not holding.occupies_devices:
            self._drop(attempt_id)
            return [Forget(attempt_id)]
        holding.is_leased = False
        holding.outcomes.clear()  # forgotten with it: nobody takes them any more
        return [*self._stop(holding), Forget(attempt_id)]

    def _outlast(self, seconds: float) -> list[Instruction]:
        instructions: list[Instruction] = []
        for holding in self._holdings.values():
            limit = holding.silence_seconds
            if limit is not None and limit <= seconds and holding.is_stoppable:
                holding.stopped_by = EndReason.SILENCE
                instructions += self._give_back(holding)
        return instructions

    def _want_back(self, event: DevicesWanted) -> list[Instruction]:
        """Those with no work done yet at once; the others get the longest grace of their devices.

        Whoever is asked again keeps the first reason, and can only be asked to hurry.
        """
        instructions: list[Instruction] = []
        grace = event.grace_seconds
        for holding in self._holdings.values():
            wanted = [grace[uuid] for uuid in holding.devices_milli if uuid in grace]
            has_to_go = holding.is_reclaimable or not event.is_by_terms
            if not wanted or not holding.is_stoppable or not has_to_go:
                continue
            if holding.recall_seconds is None:
                holding.stopped_by = event.reason
            if holding.phase is AttemptPhase.WAITING:
                instructions += self._give_back(holding)
            elif holding.recall_seconds is None or max(wanted) < holding.recall_seconds:
                holding.recall_seconds = max(wanted)
                attempt_id = holding.lease.attempt_id
                instructions.append(RecallAttempt(attempt_id, holding.stopped_by, max(wanted)))
        return instructions

    def _silence_seconds(self, grant: Grant) -> float | None:
        """The task's limit or the owner's, whichever is shorter."""
        limits = (grant.limits.stop_after_silence_seconds, self._owners_silence_seconds)
        return min((each for each in limits if each is not None), default=None)

    def _shut_down(self) -> list[Instruction]:
        self._is_leaving = True
        return [each for one in self._holdings.values() for each in self._give_back(one)]

    def _give_back(self, holding: Holding) -> list[Instruction]:
        if holding.phase is AttemptPhase.WAITING:
            return self._conclude(holding, _given_back(holding))
        return self._stop(holding)

    def _stop(self, holding: Holding) -> list[Instruction]:
        if holding.phase is not AttemptPhase.RUNNING:
            return []
        holding.phase = AttemptPhase.STOPPING
        return [StopAttempt(holding.lease.attempt_id)]

    def _turn_away(self) -> list[Instruction]:
        """What waits for a closed device is given back; of the rest starts what has room now."""
        instructions: list[Instruction] = []
        for holding in self._holdings.values():
            closed = [self._closed[uuid] for uuid in holding.devices_milli if uuid in self._closed]
            if closed and holding.phase is AttemptPhase.WAITING:
                holding.stopped_by, holding.why = closed[0].reason, closed[0].detail
                instructions += self._give_back(holding)
        return [*instructions, *self._start_waiting()]

    def _start_waiting(self) -> list[Instruction]:
        """Starts what has room now, the longest waiting first; nobody overtakes on a device."""
        if self._is_leaving:
            return []
        started: list[Instruction] = []
        taken = self._taken_milli()
        for holding in self._holdings.values():
            if holding.phase is not AttemptPhase.WAITING:
                continue
            if holding.grant and _has_room(holding, taken):
                started.append(StartAttempt(holding.grant))
                holding.phase, holding.grant = AttemptPhase.RUNNING, None
            for uuid, milli in holding.devices_milli.items():
                taken[uuid] = taken.get(uuid, 0) + milli
        return started

    def _taken_milli(self) -> dict[str, int]:
        taken: dict[str, int] = {}
        for holding in self._holdings.values():
            if holding.occupies_devices:
                for uuid, milli in holding.devices_milli.items():
                    taken[uuid] = taken.get(uuid, 0) + milli
        return taken

    def _drop(self, attempt_id: AttemptId) -> None:
        del self._holdings[attempt_id]
        self._over[attempt_id] = None
        if len(self._over) > REMEMBERED_ENDS:
            del self._over[next(iter(self._over))]


def _has_room(holding: Holding, taken_milli: dict[str, int]) -> bool:
    """A device that nobody is on always has room, whatever share of it was granted."""
    return all(
        taken_milli.get(uuid, 0) == 0 or taken_milli[uuid] + milli <= WHOLE_DEVICE_MILLI
        for uuid, milli in holding.devices_milli.items()
    )


def _given_back(holding: Holding) -> Finished:
    reason = holding.stopped_by
    return Finished(holding.lease, reason, detail=holding.why or reason.facts.meaning)
