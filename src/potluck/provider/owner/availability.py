"""Whether a device takes new work now, and why not: the owner's terms held against the moment.

Pure: the clock, the owner's doings and the device's state come in as values. Sentences name no
passing seconds, so that what has not changed reads the same.
"""

from datetime import datetime

from msgspec import Struct

from potluck.model.device import Availability, Health
from potluck.model.hours import is_open, next_change, parse_hours
from potluck.model.task import EndReason
from potluck.model.terms import DeviceTerms
from potluck.provider.event import GrantRefusal
from potluck.provider.one_line import one_line


class Moment(Struct, frozen=True):
    """What is so just now, as far as a device's work depends on it."""

    local: datetime  # by the clock on the owner's wall
    health: Health = Health.WELL
    health_detail: str = ""
    unused_seconds: float | None = None  # by its owner and others; none: that can not be known
    is_use_known: bool = True  # false where nobody has looked yet
    is_draining: bool = False
    refit: str = ""  # a sentence, while its node has not the sandbox that the owner wants
    has_terms: bool = True  # false where the owner's file could never be read


class AvailabilityVerdict(Struct, frozen=True):
    """Whether, and a sentence where not."""

    availability: Availability
    why: str = ""


def availability(terms: DeviceTerms, moment: Moment) -> AvailabilityVerdict:
    """What lasts longest comes first: a sick device does not get well by its hours."""
    if moment.is_draining:
        return AvailabilityVerdict(Availability.DRAINING, "Its node finishes what runs, and ends.")
    if moment.health in _SICK:
        return AvailabilityVerdict(
            Availability.SICK, one_line(moment.health_detail) or _SICK[moment.health]
        )
    if not moment.has_terms:
        return AvailabilityVerdict(Availability.PAUSED, "Its owner's file can not be read.")
    if terms.is_paused:
        return AvailabilityVerdict(Availability.PAUSED, "Its owner has paused it.")
    if moment.refit:
        return AvailabilityVerdict(Availability.PAUSED, moment.refit)
    by_use = _by_use(terms, moment) or _by_ignorance(terms, moment)
    return _by_the_clock(terms, moment.local) or by_use or _AVAILABLE


_AVAILABLE = AvailabilityVerdict(Availability.AVAILABLE)
_SICK = {
    Health.LOST: "It does not answer any more.",
    Health.MEMORY_ERRORS: "It has met errors in its memory that it could not correct.",
}


def _by_the_clock(terms: DeviceTerms, local: datetime) -> AvailabilityVerdict | None:
    week = parse_hours(terms.hours)
    if is_open(week, local):
        return None
    opens = next_change(week, local)
    until = f" until {opens:%A %H:%M}" if opens else ""
    return AvailabilityVerdict(
        Availability.OUTSIDE_HOURS, f"Outside its hours ({terms.hours}){until}."
    )


def _by_use(terms: DeviceTerms, moment: Moment) -> AvailabilityVerdict | None:
    unused_seconds = moment.unused_seconds
    if terms.idle_minutes == 0 or unused_seconds is None:
        return None
    if unused_seconds >= terms.idle_minutes * 60:
        return None
    rest = f"{terms.idle_minutes:g} minutes"
    return AvailabilityVerdict(
        Availability.IN_USE, f"Its owner uses it, or did in the last {rest}."
    )


def _by_ignorance(terms: DeviceTerms, moment: Moment) -> AvailabilityVerdict | None:
    if terms.idle_minutes == 0 or moment.is_use_known:
        return None
    return AvailabilityVerdict(
        Availability.IN_USE, "Nobody has looked yet whether its owner uses it."
    )


def is_wanted_back(terms: DeviceTerms, moment: Moment) -> bool:
    """Whether what runs on it is to be called back by itself: where its owner said so in advance,
    when the hours end or he uses it, whatever else keeps it from new work. What came before he
    said so is finished all the same.
    """
    is_away = _by_the_clock(terms, moment.local) or _by_use(terms, moment)
    return terms.is_reclaimable and is_away is not None


def refusal(terms: DeviceTerms, verdict: AvailabilityVerdict) -> GrantRefusal | None:
    """With what a grant of the device is given back; none if it takes it."""
    if verdict.availability is Availability.AVAILABLE:
        return None
    # A grant that crossed the owner's no on its way was within what the owner had declared.
    reason = EndReason.RECLAIMED if terms.is_reclaimable else EndReason.DECLINED
    return GrantRefusal(reason, one_line(f"The device takes nothing new now. {verdict.why}"))
