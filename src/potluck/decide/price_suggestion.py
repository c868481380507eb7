"""What similar devices earned lately, as a help to choose a price.

Only work of several other owners is shown, so that no one learns what one of them earns. A range is
from one quarter of the owners to three quarters, and amounts have two digits.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from potluck.model.units import show_credits

# Other owners of similar devices with paid work.
LEAST_OWNERS: Final = 3
_HOUR = 3600


class OwnerWork(Struct, frozen=True):
    """Paid work of one owner's similar devices in the last week."""

    worked_seconds: float
    earned_micro: int  # after the fee


class SimilarWork(Struct, frozen=True):
    """Similar devices of other owners, and what they did in the last week."""

    is_same_model: bool  # otherwise of the same kind, with about the same memory
    devices: int
    offered_seconds: float  # since they were first seen, within the week
    worked_seconds: float
    owners: tuple[OwnerWork, ...]  # those with paid work
    prices_micro: tuple[int, ...] = ()  # on offer now, for an hour


class SuggestedPrice(Struct, frozen=True):
    """Without amounts if there is too little to tell."""

    sentence: str
    low_micro_per_hour: int | None = None
    high_micro_per_hour: int | None = None
    busy_percent: int | None = None


def suggest_price(work: SimilarWork) -> SuggestedPrice:
    paid = [one for one in work.owners if one.worked_seconds > 0]
    if len(paid) < LEAST_OWNERS:
        return SuggestedPrice(_too_little(work))
    rates = sorted(one.earned_micro * _HOUR / one.worked_seconds for one in paid)
    low, high = (_rounded(_quantile(rates, share)) for share in (0.25, 0.75))
    busy = round(100 * min(1.0, work.worked_seconds / max(work.offered_seconds, 1.0)))
    which = "Similar devices" if work.is_same_model else "Devices with about the same memory"
    earned = f"{which} earned {_range(low, high)} an hour last week"
    sentence = f"{earned}, and were busy {busy} % of the time."
    return SuggestedPrice(sentence, low, high, busy)


def _too_little(work: SimilarWork) -> str:
    few = "Too few owners of similar devices had paid work last week to say what they earn."
    if not work.prices_micro:
        return f"{few} No other owner offers a similar device now."
    offered = _range(min(work.prices_micro), max(work.prices_micro))
    return f"{few} Others offer similar devices for {offered} an hour."


def _range(low_micro: int, high_micro: int) -> str:
    low, high = show_credits(low_micro), show_credits(high_micro)
    return low if low == high else f"{low} to {high}"


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    before = int(place)
    after = min(before + 1, len(ordered) - 1)
    return ordered[before] + (place - before) * (ordered[after] - ordered[before])


def _rounded(amount: float) -> int:
    """To two digits: more would tell an owner from the others."""
    whole = round(amount)
    step = int(10 ** max(0, len(str(whole)) - 2))
    return round(whole / step) * step
