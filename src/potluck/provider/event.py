"""What can happen to the attempts of this node: the inputs of the state machine."""

from collections.abc import Mapping

from msgspec import Struct

from potluck.model.ids import AttemptId, TaskId
from potluck.model.lease import Lease
from potluck.model.task import EndReason
from potluck.wire.provider import Finished, Grant, ItemOutcome, ItemsDone, ReturnedItems


class Granted(Struct, frozen=True):
    """The server gave this node an attempt, perhaps not for the first time."""

    grant: Grant


class Recovered(Struct, frozen=True):
    """The journal of an earlier life holds this attempt; without `finished` it was cut short."""

    lease: Lease
    task_id: TaskId
    finished: Finished | None
    log_pieces: int
    outcomes: tuple[ItemsDone, ...] = ()  # of its items, as far as the server lacks them
    parcels: int = 0  # that it has left for its owner, on our disk


class PrepareBegan(Struct, frozen=True):
    """Its dependencies are being installed."""

    attempt_id: AttemptId


class CodeStarted(Struct, frozen=True):
    """The consumer's code runs."""

    attempt_id: AttemptId


class ItemsEnded(Struct, frozen=True):
    """Some items of a range have their outcome."""

    attempt_id: AttemptId
    outcomes: tuple[ItemOutcome, ...]
    returned: tuple[ReturnedItems, ...] = ()


class ItemsAccepted(Struct, frozen=True):
    """The server has these outcomes."""

    report: ItemsDone


class RunEnded(Struct, frozen=True):
    """Nothing of the run is left. `finished` is missing when we ended it ourselves."""

    attempt_id: AttemptId
    finished: Finished | None
    log_pieces: int  # all that it wrote, on our disk
    parcels: int = 0  # that it has left for its owner, on our disk


class ParcelsShipped(Struct, frozen=True):
    """The server has this many of its files, or does not take them."""

    attempt_id: AttemptId
    parcels: int
    log_pieces: int  # the log has a line about each that was not taken


class ValueRefused(Struct, frozen=True):
    """The server does not take what the function returned."""

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
    """The server called it off: cancelled, expired and given away, or unknown there."""

    attempt_id: AttemptId


class SilenceLasted(Struct, frozen=True):
    """The last heartbeat that the server answered was sent so long ago."""

    seconds: float


class GrantRefusal(Struct, frozen=True):
    """With what a grant is given back, and a sentence."""

    reason: EndReason
    detail: str


class DevicesClosed(Struct, frozen=True):
    """These devices take nothing new until this is said again without them. What runs goes on."""

    refusals: Mapping[str, GrantRefusal]  # by uuid


class DevicesWanted(Struct, frozen=True):
    """What is on these devices is to end: their owner wants them back, or they have failed."""

    grace_seconds: Mapping[str, float]  # by uuid
    reason: EndReason
    is_by_terms: bool = False  # nobody said so now: only what came under such terms has to go


class ShutdownAsked(Struct, frozen=True):
    """The owner wants the provider to stop: no new work, and running work is given back."""


Event = (
    Granted
    | Recovered
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
    | SilenceLasted
    | DevicesClosed
    | DevicesWanted
    | ShutdownAsked
)
