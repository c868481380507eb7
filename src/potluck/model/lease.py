"""Attempts, and the leases that allow a node to run them."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import END
from potluck.model.ids import AttemptIdText

LeaseToken = Annotated[str, Meta(min_length=16, max_length=128, pattern=f"^[A-Za-z0-9_-]*{END}")]


class AttemptState(StrEnum):
    """The state of an attempt. `granted`, `preparing` and `running` are live."""

    GRANTED = "granted"  # a node was chosen; its devices are reserved
    PREPARING = "preparing"  # the node sets up the sandbox and the dependencies; free of charge
    RUNNING = "running"  # the consumer's code runs; time is charged
    SUCCEEDED = "succeeded"  # ended: exit status 0
    FAILED = "failed"  # ended: the task's own fault
    CANCELLED = "cancelled"  # ended: cancelled
    LOST = "lost"  # ended: outcome unknown; the node went silent, restarted or never fetched it

    @property
    def is_live(self) -> bool:
        return self in _LIVE


_LIVE = {AttemptState.GRANTED, AttemptState.PREPARING, AttemptState.RUNNING}


class Lease(Struct, frozen=True, forbid_unknown_fields=True):
    """Every call about an attempt carries it; the server fences by the pair."""

    attempt_id: AttemptIdText
    token: LeaseToken
