"""One attempt on this node: its lease, its phase, and how much of it the server has."""

from enum import StrEnum

from msgspec import Struct

from potluck.model.ids import AttemptId, TaskId
from potluck.model.lease import Lease
from potluck.model.task import NETWORK_SILENCE_SECONDS, EndReason
from potluck.wire.provider import (
    CallPosition,
    CancelledItems,
    Finished,
    Grant,
    GrantedItems,
    ItemsDone,
)


class AttemptPhase(StrEnum):
    WAITING = "waiting"  # granted; a run that is ending still occupies one of its devices
    STAGED = "staged"  # as waiting, and its sandbox is being prepared or ready
    RUNNING = "running"
    STOPPING = "stopping"  # its run was cancelled and has not ended yet
    SHIPPING = "shipping"  # ended; the server lacks log pieces or files
    REPORTING = "reporting"  # ended; `Finished` was sent and is not acknowledged yet


class WorkFacts(Struct, frozen=True):
    """What the receipt of an attempt says of its grant."""

    task_id: TaskId
    account_id: str = ""  # of the consumer
    devices: tuple[str, ...] = ()  # each `device_…:milli`
    price_micro_per_hour: int = 0


def work_facts(grant: Grant) -> WorkFacts:
    devices = tuple(f"{device.device_id}:{device.milli}" for device in grant.devices)
    return WorkFacts(grant.task_id, grant.account_id, devices, grant.price_micro_per_hour)


def silence_seconds(grant: Grant, owners_seconds: float | None) -> float | None:
    """The shorter of the task's limit and the owner's; with network there is a default."""
    own = grant.limits.stop_after_silence_seconds
    if own is None and grant.requirements.network:
        own = NETWORK_SILENCE_SECONDS
    limits = (own, owners_seconds)
    return min((limit for limit in limits if limit is not None), default=None)


class Holding(Struct):
    """Attempts of one line run one after the other, in the order of their grants."""

    lease: Lease
    task_id: TaskId
    phase: AttemptPhase
    devices_milli: dict[str, int] = {}
    grant: Grant | None = None  # until it is started
    finished: Finished | None = None
    log_pieces: int = 0  # known when it has ended
    acknowledged_pieces: int = 0
    parcels: int = 0  # output files; known when it has ended
    shipped_parcels: int = 0
    value_refused: str = ""  # why the server rejects the function's result
    is_log_cut: bool = False  # the server takes no more of its log
    outcomes: list[ItemsDone] = []  # of its items, not acknowledged yet
    silence_seconds: float | None = None  # how long the server may be silent before it is stopped
    stopped_by: EndReason = EndReason.NODE_LEFT  # if we end it ourselves
    why: str = ""  # a detail where the reason is not enough
    recall_seconds: float | None = None  # the shortest grace of its recalls
    is_leased: bool = True  # false once the server cancelled it
    facts: WorkFacts | None = None  # None in the journal of an earlier version
    has_run: bool = False  # whether it got its devices
    line: AttemptId | None = None  # granted ahead: the first attempt of its line
    is_priced: bool = False
    is_reclaimable: bool = False  # granted while the owner's terms allowed to reclaim it
    is_stream: bool = False  # its items come one after the other
    # Of a call stream: it has all granted items before this one. None once it gets no more.
    next_item: int | None = None
    cancelled: int = 0  # of a call stream: how many items were cancelled that it had

    @property
    def occupies_devices(self) -> bool:
        is_running = self.phase in (AttemptPhase.RUNNING, AttemptPhase.STOPPING)
        return is_running and self.has_run

    @property
    def has_process(self) -> bool:
        """Whether `RunEnded` is still to come."""
        phases = (AttemptPhase.STAGED, AttemptPhase.RUNNING, AttemptPhase.STOPPING)
        return self.phase in phases

    def is_of_line(self, line: AttemptId | None) -> bool:
        return line is not None and line in (self.line, self.lease.attempt_id)

    @property
    def waits(self) -> bool:
        return self.phase in (AttemptPhase.WAITING, AttemptPhase.STAGED)

    @property
    def is_stoppable(self) -> bool:
        return self.is_leased and (self.waits or self.phase is AttemptPhase.RUNNING)

    @property
    def given_back(self) -> Finished:
        """The report for an attempt that this node ended itself."""
        reason = self.stopped_by
        return Finished(self.lease, reason, detail=self.why or reason.facts.meaning)

    @property
    def is_shipped(self) -> bool:
        has_log = self.is_log_cut or self.acknowledged_pieces >= self.log_pieces
        return has_log and self.shipped_parcels >= self.parcels

    @property
    def position(self) -> CallPosition | None:
        """Of a call stream that may get more items."""
        if self.next_item is None or not self.is_stoppable:
            return None
        return CallPosition(self.lease.attempt_id, self.next_item, self.cancelled)

    def take_items(self, items: GrantedItems) -> bool:
        """Whether they are new: an answer may have been lost, or come late."""
        is_new = self.next_item is not None and items.start >= self.next_item
        if is_new:
            self.next_item = items.end
        return is_new

    def cancel_items(self, items: CancelledItems) -> bool:
        """Whether some of them were not known yet."""
        is_new = items.count > self.cancelled
        self.cancelled = max(self.cancelled, items.count)
        return is_new

    def release(self) -> bool:
        """Whether it could have had more items until now."""
        could, self.next_item = self.next_item is not None, None
        return could
