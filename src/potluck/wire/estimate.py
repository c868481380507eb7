"""What a task would meet that nobody has submitted. It promises nothing, and nothing is kept."""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from potluck.wire.consumer import RefusalCount


class Outlook(StrEnum):
    """Whether a task would start, as things are."""

    NOW = "now"  # there is room for it
    LATER = "later"  # it would wait for what is in use, away, or to come before it
    NEVER = "never"  # nobody here could take it, or the account can not pay for it


class Estimate(Struct, frozen=True):
    """Credits are millionths. What is None nobody knows."""

    outlook: Outlook
    sentence: str
    nodes: int = 0  # that were looked at
    suitable_nodes: int = 0  # that would take it if they were free
    suitable_devices: int = 0
    free_devices: int = 0  # of the suitable ones
    cheapest_micro_per_hour: int | None = None
    dearest_micro_per_hour: int | None = None
    hold_micro: int | None = (
        None  # set aside while an attempt, or an item, runs; at the lowest price
    )
    most_micro: int | None = None  # all tries and items, to the time limit, at the highest price
    expected_micro: int | None = None  # if it takes as long as expected, at the lowest price
    available_micro: int = 0  # that the account has now
    can_pay: bool = True
    expected_seconds: float | None = (
        None  # said, or learned from earlier runs; of an array, an item
    )
    whole_seconds: float | None = None  # of an array, once it has begun, on all that suits it
    estimated_start: datetime | None = None  # None when there is no basis for a guess
    basis: str | None = None  # what the guess rests on
    refusals: list[RefusalCount] = []
    changes: list[str] = []  # what would help, in sentences
    at: datetime | None = None  # when the scheduler said so
