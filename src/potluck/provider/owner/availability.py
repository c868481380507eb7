"""Decides from the owner's terms whether a device takes new work now, and why not.

Pure: the clock, the owner's activity and the device's state are arguments. Sentences contain no
running seconds, so an unchanged state yields an unchanged sentence.
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
    """The current state that a device's availability depends on."""

    local: datetime  # the owner's local time
    health: Health = Health.WELL
    health_detail: str = ""
    unusable: str = ""  # a sentence, while tasks cannot use it
    unused_seconds: float | None = None  # by its owner and others; None: cannot be known
    is_use_known: bool = True  # false before the first sample
    is_draining: bool = False
    refit: str = ""  # a sentence, while the node lacks the sandbox that its owner wants
    has_terms: bool = True  # false if the owner's file could never be read


class AvailabilityVerdict(Struct, frozen=True):
    availability: Availability
    why: str = ""


def availability(terms: DeviceTerms, moment: Moment) -> AvailabilityVerdict:
    """Checks the most permanent reasons first, so that the sentence names the one to fix."""
    if moment.is_draining:
        return AvailabilityVerdict(
            Availability.DRAINING, "Its node finishes its running tasks and stops."
        )
    if moment.health in _SICK:
        return AvailabilityVerdict(
            Availability.SICK, one_line(moment.health_detail) or _SICK[moment.health]
        )
    if moment.unusable:
        return AvailabilityVerdict(Availability.SICK, one_line(moment.unusable))
    if not moment.has_terms:
        return AvailabilityVerdict(Availability.PAUSED, "Its owner's file cannot be read.")
    if terms.is_paused:
        return AvailabilityVerdict(Availability.PAUSED, "Its owner has paused it.")
    if moment.refit:
        return AvailabilityVerdict(Availability.PAUSED, moment.refit)
    by_use = _by_use(terms, moment) or _by_ignorance(terms, moment)
    return _by_the_clock(terms, moment.local) or by_use or _AVAILABLE


_AVAILABLE = AvailabilityVerdict(Availability.AVAILABLE)
_SICK = {
    Health.LOST: "It no longer responds.",
    Health.MEMORY_ERRORS: "It reports uncorrectable memory errors.",
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
        Availability.IN_USE, "It is not known yet whether its owner uses it."
    )


def is_wanted_back(terms: DeviceTerms, moment: Moment) -> bool:
    """Whether running tasks are to be recalled: the owner allowed that in advance (`reclaim`), and
    the hours have ended or the owner uses the device. Tasks granted before `reclaim` was set are
    not affected.
    """
    is_away = _by_the_clock(terms, moment.local) or _by_use(terms, moment)
    return terms.is_reclaimable and is_away is not None


def refusal(terms: DeviceTerms, verdict: AvailabilityVerdict) -> GrantRefusal | None:
    """The refusal with which a grant of the device is returned; None if the device takes it."""
    if verdict.availability is Availability.AVAILABLE:
        return None
    # A grant that was already on its way is covered by the terms that the owner had declared.
    reason = EndReason.RECLAIMED if terms.is_reclaimable else EndReason.DECLINED
    return GrantRefusal(reason, one_line(f"The device takes no new work now. {verdict.why}"))
