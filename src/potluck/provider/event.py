"""The events of this node's attempts: the inputs of the state machine."""

from collections.abc import Mapping

from msgspec import Struct

from potluck.model.ids import AttemptId, TaskId
from potluck.model.lease import Lease
from potluck.model.task import EndReason, ItemRange
from potluck.provider.holding import WorkFacts
from potluck.wire.provider import (
    CancelledItems,
    Finished,
    Grant,
    GrantedItems,
    ItemOutcome,
    ItemsDone,
    ReturnedItems,
)


class Granted(Struct, frozen=True):
    """The server granted this node an attempt, perhaps repeatedly."""

    grant: Grant


class ItemsGranted(Struct, frozen=True):
    """The server granted an attempt on a call stream more items, perhaps repeatedly."""

    items: GrantedItems


class ItemsCancelled(Struct, frozen=True):
    """Items of an attempt on a call stream are not wanted any more, perhaps repeatedly."""

    items: CancelledItems


class Released(Struct, frozen=True):
    """An attempt on a call stream gets no more items."""

    attempt_id: AttemptId


class Recovered(Struct, frozen=True):
    """The journal of an earlier process has this attempt; without `finished` it was interrupted."""

    lease: Lease
    task_id: TaskId
    finished: Finished | None
    log_pieces: int
    outcomes: tuple[ItemsDone, ...] = ()  # of its items, not acknowledged yet
    parcels: int = 0  # output files on our disk
    facts: WorkFacts | None = None
    # Of a call stream: calls that had come and have no outcome. Those that had begun run again.
    taken: ItemRange | None = None

    @property
    def interrupted(self) -> Finished:
        """The report for an attempt without an outcome."""
        reason, taken = EndReason.NODE_RESTARTED, self.taken
        detail = reason.facts.meaning
        if taken is not None:
            detail += f". It may have run #{taken.start} to #{taken.end - 1}, which run again."
        return Finished(self.lease, reason, detail=detail)


class WaitedLong(Struct, frozen=True):
    """An attempt that was granted ahead has waited for its devices for as long as it may."""

    attempt_id: AttemptId


class PrepareBegan(Struct, frozen=True):
    """Its dependencies are being installed."""

    attempt_id: AttemptId


class CodeStarted(Struct, frozen=True):
    """The consumer's code runs."""

    attempt_id: AttemptId


class ItemsEnded(Struct, frozen=True):
    """Some items of a range have ended."""

    attempt_id: AttemptId
    outcomes: tuple[ItemOutcome, ...]
    returned: tuple[ReturnedItems, ...] = ()


class ItemsAccepted(Struct, frozen=True):
    """The server has these outcomes."""

    report: ItemsDone


class RunEnded(Struct, frozen=True):
    """The run and all its processes have ended. `finished` is None if we ended it ourselves."""

    attempt_id: AttemptId
    finished: Finished | None
    log_pieces: int  # on our disk
    parcels: int = 0  # output files on our disk


class ParcelsShipped(Struct, frozen=True):
    """The server has accepted or rejected this many of its files."""

    attempt_id: AttemptId
    parcels: int
    log_pieces: int  # the log has a line about each rejected file


class ValueRefused(Struct, frozen=True):
    """The server rejects the function's result."""

    attempt_id: AttemptId
    detail: str


class LogAcknowledged(Struct, frozen=True):
    """The server has this many pieces of its log."""

    attempt_id: AttemptId
    pieces: int


class LogCut(Struct, frozen=True):
    """The server takes no more of its log."""

    attempt_id: AttemptId


class FinishAccepted(Struct, frozen=True):
    """The server has the `Finished` report."""

    attempt_id: AttemptId


class LeaseLost(Struct, frozen=True):
    """The server ended the lease: cancelled, expired and reassigned, or unknown to it."""

    attempt_id: AttemptId


class CreditEnded(Struct, frozen=True):
    """The consumer's credit for the attempt ran out: it has a grace for a last checkpoint."""

    attempt_id: AttemptId
    grace_seconds: float


class SilenceLasted(Struct, frozen=True):
    """The last heartbeat that the server answered was sent this long ago."""

    seconds: float


class GrantRefusal(Struct, frozen=True):
    """Why a grant is given back."""

    reason: EndReason
    detail: str


class DevicesClosed(Struct, frozen=True):
    """Replaces the set of devices that take no new work. Running attempts continue."""

    refusals: Mapping[str, GrantRefusal]  # by uuid


class DevicesWanted(Struct, frozen=True):
    """Attempts on these devices must end: their owner wants them back, or they have failed."""

    grace_seconds: Mapping[str, float]  # by uuid
    reason: EndReason
    is_by_terms: bool = False  # automatic: concerns only attempts granted under `reclaim` terms


class ShutdownRequested(Struct, frozen=True):
    """The provider stops: it takes no new work, and gives running work back."""


Event = (
    Granted
    | ItemsGranted
    | ItemsCancelled
    | Released
    | Recovered
    | WaitedLong
    | PrepareBegan
    | CodeStarted
    | ItemsEnded
    | ItemsAccepted
    | RunEnded
    | ParcelsShipped
    | ValueRefused
    | LogAcknowledged
    | LogCut
    | FinishAccepted
    | LeaseLost
    | CreditEnded
    | SilenceLasted
    | DevicesClosed
    | DevicesWanted
    | ShutdownRequested
)
