"""The estimate for a task that is not submitted. Nothing is stored or reserved."""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from potluck.wire.consumer import RefusalCount


class Outlook(StrEnum):
    """Whether and when the task would start."""

    NOW = "now"  # there is room for it
    LATER = "later"  # it would wait for devices that are in use or away, or for other tasks
    NEVER = "never"  # no device suits it, or the account cannot pay for it


class Estimate(Struct, frozen=True):
    """An estimate. Amounts are in micro-credits; None means unknown."""

    outlook: Outlook
    sentence: str
    nodes: int = 0  # that were considered
    suitable_nodes: int = 0  # that would take it if they were free
    suitable_devices: int = 0
    free_devices: int = 0  # of the suitable ones
    cheapest_micro_per_hour: int | None = None
    dearest_micro_per_hour: int | None = None
    hold_micro: int | None = None  # reserved for an attempt, or an item, at the lowest price
    most_micro: int | None = None  # all attempts and items, up to the limit, at the highest price
    expected_micro: int | None = None  # for the expected duration, at the lowest price
    available_micro: int = 0  # the account's balance
    can_pay: bool = True
    expected_seconds: float | None = (
        None  # given, or learned from earlier runs; of an array, for one item
    )
    whole_seconds: float | None = None  # of an array, from its start, on all suitable devices
    estimated_start: datetime | None = None  # None without a basis for an estimate
    basis: str | None = None  # what the estimate is based on
    refusals: list[RefusalCount] = []
    changes: list[str] = []  # what would help, in sentences
    at: datetime | None = None  # when the scheduler wrote this
