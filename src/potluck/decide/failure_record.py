"""What speaks for or against a failed attempt, which only its node reports.

A node that claims a failure and has done nothing, and a consumer whose code fails on purpose, look
the same to the server. What it can compare is how attempts of the same task and of tasks with the
same name end on nodes of other owners, and how often the account was already spared.
"""

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from potluck.model.ids import AccountId, AttemptId

# Uncharged failures of an account in 30 days: the first ones if they are short, so that a node
# cannot earn all attempts of a new account's task; others, worth at most a hundredth of what the
# account paid for its newest tasks. Without these bounds, a search that prints nothing unless it
# finds something would be free until it does.
FIRST_SPARED = 2
MOST_SPARED = 10
PAID_FOR_SPARED = 100
# How many of the account's tasks count.
NEWEST_TASKS = 500
# How many of the newest ends elsewhere are compared, and the fewest that count.
NEWEST_ENDS = 20
FEWEST_ENDS = 5
_OUTLIER_SHARE = 0.9
# A node with at least this many losses and outliers, and this share of its attempts, gets work
# last.
_DOUBTED_ENDS = 3
_DOUBTED_SHARE = 0.25
# Of the time of an owner's newest attempts for other accounts: with more in outliers, further ones
# are not believed. A node could else fail seldom, but each time after the longest time allowed.
NEWEST_OF_OWNER = 500
_UNBELIEVED_SHARE = 0.1
# What is short. The reward of a longer failure is held back until it can be compared with ends
# elsewhere, or for some days if there are none.
SHORT_SECONDS = 300.0
UNJUDGED_SECONDS = 3 * 86_400.0
# An outlier that took longer than such tasks do elsewhere is believed if that is less than this
# share of the time of its owner's newest attempts.
_LARGEST_EXCESS = 0.01


class FailureRecord(Struct, frozen=True):
    """Read when an attempt fails."""

    spared: int = 0  # failures without output that the account was not charged for recently
    ended_elsewhere: int = 0  # the newest attempts of such tasks on nodes of other owners
    succeeded_elsewhere: int = 0
    is_node_doubted: bool = False
    spared_micro: int = 0  # what these would have cost
    paid_micro: int = 0  # to other owners, for the account's newest tasks
    usual_seconds: float = 0.0  # the longest success of such tasks elsewhere
    refuting_seconds: float | None = None  # the longest success of this task elsewhere
    owner_seconds: float = 0.0  # of the newest attempts for other accounts, by the node's owner

    def may_spare(self, cost_micro: int, seconds: float) -> bool:
        if PAID_FOR_SPARED * (self.spared_micro + cost_micro) <= self.paid_micro:
            return self.spared < MOST_SPARED
        return self.spared < FIRST_SPARED and seconds <= SHORT_SECONDS

    @property
    def is_outlier(self) -> bool:
        """Whether such tasks nearly always succeed on nodes of other owners."""
        if self.ended_elsewhere < FEWEST_ENDS:
            return False
        return self.succeeded_elsewhere >= _OUTLIER_SHARE * self.ended_elsewhere

    def believed_seconds(self, seconds: float) -> float | None:
        """How much of a failed attempt's time is paid for; None if nothing can be compared yet."""
        if self.refuting_seconds is not None:
            return min(seconds, self.refuting_seconds)
        if self.ended_elsewhere < FEWEST_ENDS:
            return None
        is_long = seconds - self.usual_seconds > _LARGEST_EXCESS * self.owner_seconds
        if self.is_outlier and (is_long or self.is_node_doubted):
            return min(seconds, self.usual_seconds)
        return seconds


NO_RECORD = FailureRecord()


class FailureRecords:
    """Of attempts that end in one transaction: what one is spared counts against the next."""

    def __init__(self, read: Mapping[AttemptId, FailureRecord]) -> None:
        self._read = read
        self._spared: Counter[AccountId] = Counter()
        self._spared_micro: Counter[AccountId] = Counter()

    def find(self, attempt_id: AttemptId, consumer_id: AccountId) -> FailureRecord:
        read = self._read.get(attempt_id, NO_RECORD)
        return replace(
            read,
            spared=read.spared + self._spared[consumer_id],
            spared_micro=read.spared_micro + self._spared_micro[consumer_id],
        )

    def note(self, consumer_id: AccountId, spared_micro: int) -> None:
        self._spared[consumer_id] += spared_micro > 0
        self._spared_micro[consumer_id] += spared_micro


def node_reliability(finished: int, lost: int, outliers: int) -> float:
    """The share of its attempts that were neither lost nor outliers; some trust for a new node.

    `devices.sql` computes the same.
    """
    return (max(0, finished - outliers) + 2) / (finished + lost + 2)


def is_doubted(finished: int, lost: int, outliers: int) -> bool:
    """Whether other nodes come first, because too many of its attempts are lost or outliers."""
    ends = lost + outliers
    return ends >= _DOUBTED_ENDS and ends > _DOUBTED_SHARE * (finished + lost)


def has_costly_outliers(run_seconds: float, outlier_seconds: float) -> bool:
    """Whether outliers are too much of what an owner was paid for by other accounts."""
    return outlier_seconds > _UNBELIEVED_SHARE * run_seconds
