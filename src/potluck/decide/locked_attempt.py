"""An attempt as the transaction that may end it reads it."""

from datetime import datetime, timedelta

from msgspec import Struct

from potluck.decide.arrays.items import ArrayPart, HeldRange
from potluck.decide.charges import Billable
from potluck.decide.failure_record import SHORT_SECONDS
from potluck.decide.retry_policy import History
from potluck.model.ids import AttemptId, NodeId, TaskId
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, TaskState
from potluck.model.terms import TaskKind


class LockedAttempt(Struct, frozen=True):
    """An attempt under lock, with everything that decides its end or any other report."""

    id: AttemptId
    task_id: TaskId
    node_id: NodeId
    state: AttemptState
    reason: EndReason | None
    task_state: TaskState
    kind: TaskKind
    billable: Billable
    adoption: int
    history: History  # before this end
    array: ArrayPart | None
    held: HeldRange | None  # of an array: to judge outcomes of its items
    report_hash: bytes | None
    is_expired: bool
    was_fetched: bool
    is_reclaimable: bool  # its owner had reserved the right to stop it
    is_available: bool  # each of its devices takes new work now
    has_output: bool  # a log, files, a checkpoint or finished items
    is_unfunded: bool  # its node was asked to stop it, because the credit for it ran out
    was_in_contact: bool  # heartbeats came for longer than the task's limit of silence
    has_failed_before: bool  # its task has, or the one that the task repeats
    taken_at: datetime  # the time that this transaction writes
    now: datetime
    has_share: bool = True  # False while another attempt of its line holds it
    has_heirs: bool = False  # whether others of its line wait for its share

    @property
    def ran_seconds(self) -> float:
        """Until now; 0 if it has not started."""
        started_at = self.billable.started_at
        return 0.0 if started_at is None else (self.taken_at - started_at) / timedelta(seconds=1)

    @property
    def is_judged_later(self) -> bool:
        """Whether its reward is held back if it fails: a node could gain by a long failure that it
        made up. Accepted items of an array count by themselves.
        """
        is_own = self.billable.consumer_id == self.billable.provider_id
        return self.array is None and not is_own and self.ran_seconds > SHORT_SECONDS
