"""Whether a device takes work, as its owner's terms and the moment have it."""

import os
import time
from datetime import datetime

import pytest
from msgspec.structs import replace

from potluck.model.device import Availability, DeviceKind, Health
from potluck.model.task import EndReason
from potluck.model.terms import DeviceTerms
from potluck.provider.detect.types import Sample
from potluck.provider.owner.availability import Moment, availability, is_wanted_back, refusal
from potluck.provider.owner.observations import ForeignUse, ProcessorTimes

# A Monday.
NOON = Moment(datetime.fromisoformat("2026-03-02T12:00"))
AT_NIGHT = DeviceTerms(hours="18:00-08:00")
WHEN_IDLE = DeviceTerms(idle_minutes=10)


@pytest.mark.parametrize(
    ("terms", "moment", "expected"),
    [
        (DeviceTerms(), NOON, Availability.AVAILABLE),
        (DeviceTerms(is_paused=True), NOON, Availability.PAUSED),
        (AT_NIGHT, NOON, Availability.OUTSIDE_HOURS),
        (DeviceTerms(hours="mon 11-13"), NOON, Availability.AVAILABLE),
        (WHEN_IDLE, replace(NOON, unused_seconds=599), Availability.IN_USE),
        (WHEN_IDLE, replace(NOON, unused_seconds=600), Availability.AVAILABLE),
        (WHEN_IDLE, replace(NOON, is_use_known=False), Availability.IN_USE),
        (DeviceTerms(), replace(NOON, is_use_known=False), Availability.AVAILABLE),
        # Whoever did not ask for that is not asked either.
        (DeviceTerms(), replace(NOON, unused_seconds=0), Availability.AVAILABLE),
        # What cannot be known keeps nobody from working.
        (WHEN_IDLE, replace(NOON, unused_seconds=None), Availability.AVAILABLE),
        # What is hot still works.
        (DeviceTerms(), replace(NOON, health=Health.THROTTLED), Availability.AVAILABLE),
        # What lasts longest goes first: a sick device is sick also while it is paused.
        (DeviceTerms(is_paused=True), replace(NOON, health=Health.LOST), Availability.SICK),
        (AT_NIGHT, replace(NOON, health=Health.MEMORY_ERRORS), Availability.SICK),
        (DeviceTerms(), replace(NOON, health=Health.LOST, is_draining=True), Availability.DRAINING),
        (replace(AT_NIGHT, is_paused=True), NOON, Availability.PAUSED),
        # A file that could never be read is no yes.
        (DeviceTerms(), replace(NOON, has_terms=False), Availability.PAUSED),
    ],
)
def test_availability_follows_the_terms(
    terms: DeviceTerms, moment: Moment, expected: Availability
) -> None:
    verdict = availability(terms, moment)
    assert verdict.availability is expected
    assert bool(verdict.why) is (expected is not Availability.AVAILABLE)


def test_a_sentence_does_not_change_with_the_seconds() -> None:
    """Each change of it is told to the server at once."""
    moments = [replace(NOON, unused_seconds=float(seconds)) for seconds in range(300)]
    assert len({availability(WHEN_IDLE, moment) for moment in moments}) == 1
    at_noon = availability(AT_NIGHT, NOON)
    later = availability(AT_NIGHT, replace(NOON, local=NOON.local.replace(minute=59, second=59)))
    assert at_noon == later
    assert "until Monday 18:00" in at_noon.why


def test_work_is_reclaimed_only_where_declared() -> None:
    assert not is_wanted_back(AT_NIGHT, NOON)
    assert is_wanted_back(replace(AT_NIGHT, is_reclaimable=True), NOON)
    # A pause is for what comes next.
    paused = DeviceTerms(is_paused=True, is_reclaimable=True)
    assert not is_wanted_back(paused, NOON)


@pytest.mark.parametrize(
    "moment",
    [
        NOON,
        replace(NOON, is_draining=True),
        replace(NOON, refit="Its node changes its sandbox."),
        replace(NOON, health=Health.MEMORY_ERRORS),
    ],
)
def test_a_closed_device_can_still_be_reclaimed(moment: Moment) -> None:
    paused_at_night = replace(AT_NIGHT, is_paused=True, is_reclaimable=True)
    assert is_wanted_back(paused_at_night, moment)
    used = DeviceTerms(is_paused=True, is_reclaimable=True, idle_minutes=10)
    assert is_wanted_back(used, replace(moment, unused_seconds=0.0))
    assert not is_wanted_back(used, replace(moment, unused_seconds=600.0))
    assert not is_wanted_back(used, replace(moment, is_use_known=False))


def test_a_grant_that_comes_too_late_is_refused_as_was_declared() -> None:
    closed, reclaimable = availability(AT_NIGHT, NOON), replace(AT_NIGHT, is_reclaimable=True)
    declined, reclaimed = refusal(AT_NIGHT, closed), refusal(reclaimable, closed)
    assert declined and declined.reason is EndReason.DECLINED
    assert reclaimed and reclaimed.reason is EndReason.RECLAIMED
    assert refusal(DeviceTerms(), availability(DeviceTerms(), NOON)) is None
    sick_refusal = refusal(
        reclaimable, availability(reclaimable, replace(NOON, health=Health.LOST))
    )
    assert sick_refusal and "no longer responds" in sick_refusal.detail, (
        "not that its owner wants it back"
    )


def idle(*pids: int) -> Sample:
    return Sample(utilisation_percent=1.0, pids=pids)


def busy(*pids: int) -> Sample:
    return Sample(utilisation_percent=80.0, pids=pids)


def last_used(foreign_use: ForeignUse) -> float | None:
    return foreign_use.last_used_at


def test_another_process_on_a_card_counts_as_use() -> None:
    foreign_use = ForeignUse(DeviceKind.GPU)
    foreign_use.note(idle(1), False, (), 0.0)
    assert last_used(foreign_use) is None, "who only lives there does not use it"
    foreign_use.note(busy(1, 7), False, (), 10.0)
    assert last_used(foreign_use) == 10.0
    foreign_use.note(idle(1, 7), False, (), 20.0)
    assert last_used(foreign_use) == 10.0


def test_work_of_our_own_tasks_is_not_foreign_use() -> None:
    foreign_use = ForeignUse(DeviceKind.GPU)
    foreign_use.note(idle(1), False, (), 0.0)
    foreign_use.note(busy(1, 7), True, (7, 8), 10.0)
    assert last_used(foreign_use) is None
    # A game that is begun beside our work is noticed by its process.
    foreign_use.note(busy(1, 7, 9), True, (7, 8), 30.0)
    assert last_used(foreign_use) == 30.0


def test_an_open_notebook_that_works_beside_our_task_is_noticed() -> None:
    foreign_use = ForeignUse(DeviceKind.GPU)
    foreign_use.note(idle(1), False, (), 0.0)
    foreign_use.note(busy(1, 7), True, (7,), 10.0)
    assert last_used(foreign_use) is None, "it waits for its owner"
    foreign_use.note(busy(1, 7), True, (7,), 20.0, working={1})
    assert last_used(foreign_use) == 20.0


def test_processor_time_counts_as_work() -> None:
    efforts, own_pid = ProcessorTimes(), os.getpid()
    assert efforts.working({own_pid, 2**22 + 1}, 0.0) == set()
    busy_until = time.process_time() + 0.1
    while time.process_time() < busy_until:
        pass
    assert efforts.working({own_pid, 2**22 + 1}, 0.5) == {own_pid}
    assert efforts.working({own_pid}, 1000.0) == set()


def test_without_names_of_processes_only_an_idle_card_tells() -> None:
    foreign_use = ForeignUse(DeviceKind.GPU)
    foreign_use.note(Sample(utilisation_percent=90.0), True, (), 0.0)
    assert last_used(foreign_use) is None, "that may be our own"
    foreign_use.note(Sample(utilisation_percent=90.0), False, (), 2.0)
    assert last_used(foreign_use) == 2.0
    quiet = ForeignUse(DeviceKind.CPU)
    quiet.note(Sample(utilisation_percent=20.0), False, (), 0.0)
    assert last_used(quiet) is None, "a desktop keeps a processor that busy"
