"""The state machine, one story at a time. The properties are in test_state_properties.py."""

import pytest
from msgspec.structs import replace

from potluck.model.blob import BlobRef, Value
from potluck.model.ids import AttemptId
from potluck.model.task import EndReason, ItemRange, Limits, Requirements
from potluck.provider.event import (
    CodeStarted,
    DevicesClosed,
    DevicesWanted,
    FinishAccepted,
    Granted,
    GrantRefusal,
    ItemsAccepted,
    ItemsEnded,
    LeaseLost,
    LogAcknowledged,
    LogCut,
    ParcelsShipped,
    PrepareBegan,
    Recovered,
    RunEnded,
    ShutdownRequested,
    SilenceLasted,
    ValueRefused,
)
from potluck.provider.holding import work_facts
from potluck.provider.instruction import (
    Conclude,
    Drop,
    Forget,
    Keep,
    RecallAttempt,
    Remember,
    SendReport,
    SignReceipt,
    StartAttempt,
    StopAttempt,
)
from potluck.provider.state import REMEMBERED_ENDS, Attempts
from potluck.store.new_ids import new_task_id
from potluck.wire.provider import Finished, Grant, ItemOutcome, ItemsDone, Preparing, Started
from tests.provider.builders import a_grant, a_lease, completed, lease_of

TASK = new_task_id()


def remembered(grant: Grant) -> Remember:
    return Remember(lease_of(grant), grant.task_id, work_facts(grant))


def test_a_grant_is_remembered_before_it_is_started() -> None:
    grant = a_grant()
    assert Attempts().handle(Granted(grant)) == [remembered(grant), StartAttempt(grant)]


def test_a_grant_that_comes_again_is_not_started_again() -> None:
    attempts, grant = Attempts(), a_grant()
    attempts.handle(Granted(grant))
    assert attempts.handle(Granted(grant)) == []
    assert attempts.held() == (lease_of(grant),)


def test_the_whole_life_of_an_attempt() -> None:
    attempts, grant = Attempts(), a_grant()
    lease, attempt_id = lease_of(grant), grant.attempt_id
    attempts.handle(Granted(grant))
    assert attempts.handle(PrepareBegan(attempt_id)) == [SendReport(Preparing(lease))]
    assert attempts.handle(CodeStarted(attempt_id)) == [SendReport(Started(lease))]
    assert attempts.handle(LogAcknowledged(attempt_id, 1)) == []
    finished = completed(lease)
    assert attempts.handle(RunEnded(attempt_id, finished, 2)) == [Conclude(finished)]
    assert not attempts.is_settled()
    assert attempts.handle(LogAcknowledged(attempt_id, 2)) == [SendReport(finished)]
    assert attempts.held() == (lease,)
    signing = SignReceipt(attempt_id, work_facts(grant), finished)
    assert attempts.handle(FinishAccepted(attempt_id)) == [signing, Forget(attempt_id)]
    assert attempts.held() == ()
    assert attempts.is_settled()


def test_a_device_is_given_on_only_when_the_run_on_it_has_ended() -> None:
    attempts, old, new = Attempts(), a_grant(), a_grant()
    attempts.handle(Granted(old))
    assert attempts.handle(LeaseLost(old.attempt_id)) == [
        StopAttempt(old.attempt_id),
        Forget(old.attempt_id),
    ]
    assert attempts.handle(Granted(new)) == [remembered(new)]
    stopped = SignReceipt(old.attempt_id, work_facts(old))
    assert attempts.handle(RunEnded(old.attempt_id, None, 0)) == [stopped, StartAttempt(new)]


def test_shares_of_a_device_run_side_by_side_as_far_as_they_fit() -> None:
    attempts = Attempts()
    grants = [a_grant(milli=400) for _ in range(3)]
    started = [attempts.handle(Granted(grant))[1:] for grant in grants]
    assert started == [[StartAttempt(grants[0])], [StartAttempt(grants[1])], []]
    instructions = attempts.handle(
        RunEnded(grants[0].attempt_id, completed(lease_of(grants[0])), 0)
    )
    assert instructions[-1] == StartAttempt(grants[2])


def test_a_small_share_does_not_overtake_one_that_waits() -> None:
    attempts = Attempts()
    running, whole_grant, small = a_grant(milli=600), a_grant(milli=1000), a_grant(milli=100)
    attempts.handle(Granted(running))
    assert StartAttempt(whole_grant) not in attempts.handle(Granted(whole_grant))
    assert StartAttempt(small) not in attempts.handle(Granted(small))


def test_a_stopped_attempt_reports_nothing() -> None:
    attempts, grant = Attempts(), a_grant()
    attempts.handle(Granted(grant))
    attempts.handle(LeaseLost(grant.attempt_id))
    assert attempts.held() == ()
    assert attempts.handle(CodeStarted(grant.attempt_id)) == []
    # What ran is signed: the server may have charged for it.
    instructions = attempts.handle(RunEnded(grant.attempt_id, completed(lease_of(grant)), 0))
    assert instructions == [SignReceipt(grant.attempt_id, work_facts(grant))]
    assert attempts.handle(LeaseLost(grant.attempt_id)) == []


def test_losing_the_lease_of_an_ended_attempt_drops_its_outcome() -> None:
    attempts, grant = Attempts(), a_grant()
    attempts.handle(Granted(grant))
    finished = completed(lease_of(grant))
    attempts.handle(RunEnded(grant.attempt_id, finished, 1))
    signing = SignReceipt(grant.attempt_id, work_facts(grant), finished)
    assert attempts.handle(LeaseLost(grant.attempt_id)) == [signing, Forget(grant.attempt_id)]
    assert attempts.handle(LogAcknowledged(grant.attempt_id, 1)) == []


def test_files_reach_the_server_before_the_end_does() -> None:
    attempts, grant = Attempts(), a_grant()
    attempts.handle(Granted(grant))
    finished = completed(lease_of(grant))
    assert attempts.handle(RunEnded(grant.attempt_id, finished, 0, 2)) == [Conclude(finished)]
    assert attempts.handle(ParcelsShipped(grant.attempt_id, 1, 0)) == []
    # The second was not taken, and a line in the log says so.
    assert attempts.handle(ParcelsShipped(grant.attempt_id, 2, 1)) == []
    assert attempts.handle(LogAcknowledged(grant.attempt_id, 1)) == [SendReport(finished)]


def test_files_of_an_earlier_life_reach_the_server_before_its_end() -> None:
    attempts, (lease, task_id) = Attempts(), a_lease()
    finished = completed(lease)
    assert attempts.handle(Recovered(lease, task_id, finished, 0, parcels=1)) == []
    shipped = attempts.handle(ParcelsShipped(lease.attempt_id, 1, 0))
    assert shipped == [SendReport(finished)]


@pytest.mark.parametrize("is_early", [True, False])
def test_a_value_that_the_server_does_not_take_is_not_named(is_early: bool) -> None:
    attempts, grant = Attempts(), a_grant()
    attempts.handle(Granted(grant))
    value = Value(blob=BlobRef("ab" * 32, 10**6))
    run_ended = RunEnded(
        grant.attempt_id, replace(completed(lease_of(grant)), value=value), 0, parcels=1
    )
    value_refused = ValueRefused(grant.attempt_id, "The account is full.")
    for event in (value_refused, run_ended) if is_early else (run_ended, value_refused):
        attempts.handle(event)
    (sent,) = attempts.handle(ParcelsShipped(grant.attempt_id, 1, 0))
    assert isinstance(sent, SendReport) and isinstance(sent.report, Finished)
    assert (sent.report.reason, sent.report.value) == (EndReason.EXCEPTION, None)
    assert sent.report.detail == "The server rejected its result: The account is full."


def test_a_log_that_the_server_cuts_does_not_hold_the_outcome_back() -> None:
    attempts, grant = Attempts(), a_grant()
    finished = completed(lease_of(grant))
    attempts.handle(Granted(grant))
    assert attempts.handle(RunEnded(grant.attempt_id, finished, 9)) == [Conclude(finished)]
    assert attempts.handle(LogCut(grant.attempt_id)) == [SendReport(finished)]


def test_a_log_cut_while_it_runs_does_not_touch_the_run() -> None:
    attempts, grant = Attempts(), a_grant()
    finished = completed(lease_of(grant))
    attempts.handle(Granted(grant))
    assert attempts.handle(LogCut(grant.attempt_id)) == []
    instructions = attempts.handle(RunEnded(grant.attempt_id, finished, 9))
    assert instructions == [Conclude(finished), SendReport(finished)]


def test_an_outcome_from_before_a_crash_is_sent_when_its_log_is_there() -> None:
    attempts, (lease, _) = Attempts(), a_lease()
    finished = completed(lease)
    assert attempts.handle(Recovered(lease, TASK, finished, log_pieces=3)) == []
    assert attempts.held() == (lease,)
    assert attempts.handle(LogAcknowledged(lease.attempt_id, 3)) == [SendReport(finished)]


def test_work_cut_short_by_a_crash_is_reported_as_lost() -> None:
    attempts, (lease, _) = Attempts(), a_lease()
    conclude, send = attempts.handle(Recovered(lease, TASK, None, log_pieces=0))
    assert isinstance(conclude, Conclude)
    assert conclude.finished.reason is EndReason.NODE_RESTARTED
    assert send == SendReport(conclude.finished)


def test_calls_that_a_crash_interrupted_are_named() -> None:
    (lease, _), items_taken = a_lease(), ItemRange(3, 5)
    conclude, _ = Attempts().handle(Recovered(lease, TASK, None, log_pieces=0, taken=items_taken))
    assert isinstance(conclude, Conclude)
    assert "#3 to #4" in conclude.finished.detail


def test_log_pieces_that_only_the_server_still_has_hold_nothing_back() -> None:
    attempts, (lease, _) = Attempts(), a_lease()
    attempts.handle(Recovered(lease, TASK, None, log_pieces=2))
    [send] = attempts.handle(LogAcknowledged(lease.attempt_id, 5))
    assert isinstance(send, SendReport)


def test_shutdown_stops_runs_and_reports_them_as_returned() -> None:
    attempts, grant, later = Attempts(), a_grant(), a_grant()
    attempts.handle(Granted(grant))
    assert attempts.handle(ShutdownRequested()) == [StopAttempt(grant.attempt_id)]
    assert attempts.handle(Granted(later)) == []
    [conclude] = attempts.handle(RunEnded(grant.attempt_id, None, 1))
    assert isinstance(conclude, Conclude)
    assert conclude.finished.reason is EndReason.NODE_LEFT
    # Until the server has it, the journal must keep it.
    assert attempts.held() == (lease_of(grant),)
    assert not attempts.is_settled()
    assert attempts.handle(LogAcknowledged(grant.attempt_id, 1)) == [SendReport(conclude.finished)]
    signing = SignReceipt(grant.attempt_id, work_facts(grant), conclude.finished)
    assert attempts.handle(FinishAccepted(grant.attempt_id)) == [signing, Forget(grant.attempt_id)]
    assert attempts.is_settled()


def test_shutdown_starts_nothing_that_waited_and_gives_it_back() -> None:
    attempts, running, waiting = Attempts(), a_grant(), a_grant()
    attempts.handle(Granted(running))
    attempts.handle(Granted(waiting))
    stop, conclude, send = attempts.handle(ShutdownRequested())
    assert stop == StopAttempt(running.attempt_id)
    assert isinstance(conclude, Conclude)
    assert conclude.finished.reason is EndReason.NODE_LEFT
    assert send == SendReport(conclude.finished)
    instructions = attempts.handle(RunEnded(running.attempt_id, None, 0))
    assert not any(isinstance(instruction, StartAttempt) for instruction in instructions)


def test_an_attempt_that_ends_while_being_stopped_keeps_its_outcome() -> None:
    attempts, grant = Attempts(), a_grant()
    finished = completed(lease_of(grant))
    attempts.handle(Granted(grant))
    attempts.handle(ShutdownRequested())
    instructions = attempts.handle(RunEnded(grant.attempt_id, finished, 0))
    assert instructions == [Conclude(finished), SendReport(finished)]


def test_an_outcome_that_waits_for_the_server_outlives_a_shutdown() -> None:
    attempts, grant = Attempts(), a_grant()
    attempts.handle(Granted(grant))
    attempts.handle(RunEnded(grant.attempt_id, completed(lease_of(grant)), 1))
    assert attempts.handle(ShutdownRequested()) == []
    assert attempts.held() == (lease_of(grant),)
    assert not attempts.is_settled()


def test_news_about_unknown_attempts_change_nothing() -> None:
    attempts, unknown_id = Attempts(), AttemptId("attempt_nobody")
    events = (
        *(
            CodeStarted(unknown_id),
            PrepareBegan(unknown_id),
            RunEnded(unknown_id, None, 0),
            LeaseLost(unknown_id),
        ),
        *(LogAcknowledged(unknown_id, 1), LogCut(unknown_id), FinishAccepted(unknown_id)),
    )
    assert [attempts.handle(event) for event in events] == [[]] * len(events)


def test_a_bounded_number_of_ended_attempts_is_remembered() -> None:
    attempts = Attempts()
    for _ in range(REMEMBERED_ENDS + 10):
        grant = a_grant()
        attempts.handle(Granted(grant))
        attempts.handle(RunEnded(grant.attempt_id, completed(lease_of(grant)), 0))
        attempts.handle(FinishAccepted(grant.attempt_id))
    assert len(attempts._over) == REMEMBERED_ENDS
    assert attempts.handle(Granted(grant)) == []


def an_outcome(item: int) -> ItemOutcome:
    return ItemOutcome(item, EndReason.COMPLETED, 0.1, 0)


def test_outcomes_of_items_are_saved_then_reported_before_the_end() -> None:
    attempts, grant = Attempts(), a_grant(items=range(3))
    lease, attempt_id = lease_of(grant), grant.attempt_id
    attempts.handle(Granted(grant))
    first, later_outcomes = (an_outcome(0),), (an_outcome(1), an_outcome(2))
    first_report, two = ItemsDone(lease, first), ItemsDone(lease, later_outcomes)
    assert attempts.handle(ItemsEnded(attempt_id, first)) == [
        Keep(first_report),
        SendReport(first_report),
    ]
    assert attempts.handle(ItemsEnded(attempt_id, later_outcomes)) == [Keep(two), SendReport(two)]
    finished = completed(lease)
    instructions = attempts.handle(RunEnded(attempt_id, finished, 0))
    assert instructions == [Conclude(finished), SendReport(finished)], "right behind them"
    assert attempts.handle(ItemsAccepted(two)) == [Drop(two)]
    assert attempts.handle(ItemsAccepted(two)) == [], "told twice, taken once"
    assert attempts.handle(ItemsAccepted(first_report)) == [Drop(first_report)]


def test_outcomes_of_an_earlier_process_are_reported_before_the_end() -> None:
    lease, _ = a_lease()
    kept_items = ItemsDone(lease, (an_outcome(7),))
    attempts = Attempts()
    _, send_again, send_end = attempts.handle(Recovered(lease, TASK, None, 0, (kept_items,)))
    assert send_again == SendReport(kept_items)
    assert isinstance(send_end, SendReport) and isinstance(send_end.report, Finished)
    assert send_end.report.reason is EndReason.NODE_RESTARTED


def test_outcomes_of_cancelled_items_are_dropped() -> None:
    attempts, grant = Attempts(), a_grant(items=range(3))
    attempts.handle(Granted(grant))
    attempts.handle(LeaseLost(grant.attempt_id))
    assert attempts.handle(ItemsEnded(grant.attempt_id, (an_outcome(0),))) == []


SILENCES = [
    # (the task's limit, the owner's, the one that counts)
    (None, None, None),
    (30.0, None, 30.0),
    (None, 20.0, 20.0),
    (30.0, 20.0, 20.0),
    (10.0, 20.0, 10.0),
]


@pytest.mark.parametrize(("tasks", "owners", "counts"), SILENCES)
def test_the_shorter_limit_of_a_silence_counts(
    tasks: float | None, owners: float | None, counts: float | None
) -> None:
    attempts = Attempts(owners)
    grant = a_grant(limits=Limits(stop_after_silence_seconds=tasks))
    attempts.handle(Granted(grant))
    assert attempts.shortest_silence_seconds() == counts
    if counts is None:
        assert attempts.handle(SilenceLasted(10**9)) == [], "it goes on to its own limit"
        return
    assert attempts.handle(SilenceLasted(counts - 1)) == []
    assert attempts.handle(SilenceLasted(counts)) == [StopAttempt(grant.attempt_id)]
    assert attempts.handle(SilenceLasted(counts + 1)) == [], "once"
    conclude, send = attempts.handle(RunEnded(grant.attempt_id, None, 0))
    assert isinstance(conclude, Conclude) and isinstance(send, SendReport)
    assert conclude.finished.reason is EndReason.SILENCE


@pytest.mark.parametrize(
    ("tasks", "owners", "counts"),
    [(None, None, 75.0), (600.0, None, 600.0), (None, 20.0, 20.0), (None, 600.0, 75.0)],
)
def test_a_task_with_network_has_a_limit_of_silence_by_default(
    tasks: float | None, owners: float | None, counts: float
) -> None:
    attempts = Attempts(owners)
    grant = a_grant(limits=Limits(stop_after_silence_seconds=tasks))
    attempts.handle(Granted(replace(grant, requirements=Requirements(network=("pypi.org",)))))
    assert attempts.shortest_silence_seconds() == counts


def test_attempts_waiting_for_a_device_end_with_a_silence_too() -> None:
    attempts = Attempts(20.0)
    running, waiting = a_grant(), a_grant()
    attempts.handle(Granted(running))
    attempts.handle(Granted(waiting))
    stop, conclude, send = attempts.handle(SilenceLasted(20.0))
    assert stop == StopAttempt(running.attempt_id)
    assert isinstance(conclude, Conclude) and isinstance(send, SendReport)
    assert conclude.finished.lease == lease_of(waiting)


def test_an_outcome_outlasts_every_silence() -> None:
    attempts, grant = Attempts(20.0), a_grant()
    attempts.handle(Granted(grant))
    attempts.handle(RunEnded(grant.attempt_id, completed(lease_of(grant)), 1))
    assert attempts.shortest_silence_seconds() is None
    assert attempts.handle(SilenceLasted(10**9)) == []


PAUSED = GrantRefusal(EndReason.DECLINED, "It is paused.")


def test_a_grant_of_a_closed_device_is_returned_immediately() -> None:
    attempts, grant = Attempts(), a_grant(device="card")
    attempts.handle(DevicesClosed({"card": PAUSED}))
    remember, conclude, send = attempts.handle(Granted(grant))
    assert remember == remembered(grant)
    assert conclude == Conclude(
        Finished(lease_of(grant), EndReason.DECLINED, detail="It is paused.")
    )
    assert send == SendReport(conclude.finished)
    assert attempts.handle(Granted(grant)) == [], "also when it comes again"
    other = a_grant(device="other")
    assert StartAttempt(other) in attempts.handle(Granted(other))
    attempts.handle(DevicesClosed({}))
    second_grant = a_grant(device="card")
    assert StartAttempt(second_grant) in attempts.handle(Granted(second_grant))


def test_attempts_on_a_closed_device_continue() -> None:
    attempts, grant = Attempts(), a_grant(device="card")
    attempts.handle(Granted(grant))
    assert attempts.handle(DevicesClosed({"card": PAUSED})) == []
    assert attempts.handle(CodeStarted(grant.attempt_id)) == [SendReport(Started(lease_of(grant)))]


def test_attempts_waiting_for_a_closed_device_are_given_back() -> None:
    attempts, first, second = Attempts(), a_grant(device="card"), a_grant(device="card")
    attempts.handle(Granted(first))
    attempts.handle(Granted(second))
    conclude, send = attempts.handle(DevicesClosed({"card": PAUSED}))
    assert isinstance(conclude, Conclude) and conclude.finished.reason is EndReason.DECLINED
    assert conclude.finished.lease == lease_of(second) and send == SendReport(conclude.finished)
    instructions = attempts.handle(RunEnded(first.attempt_id, completed(lease_of(first)), 0))
    assert not any(isinstance(instruction, StartAttempt) for instruction in instructions)


def test_a_device_that_is_wanted_back_gives_its_run_a_grace() -> None:
    attempts, grant, other = Attempts(), a_grant(device="card"), a_grant(device="other")
    attempts.handle(Granted(grant))
    attempts.handle(Granted(other))
    devices_wanted = DevicesWanted({"card": 30.0}, EndReason.RECLAIMED)
    recall = RecallAttempt(grant.attempt_id, EndReason.RECLAIMED, 30.0)
    assert attempts.handle(devices_wanted) == [recall]
    assert attempts.handle(devices_wanted) == [], "once"
    # A device that fails in the middle of the grace ends it, for the reason that was given first.
    device_lost = DevicesWanted({"card": 0.0}, EndReason.DEVICE_LOST)
    assert attempts.handle(device_lost) == [
        RecallAttempt(grant.attempt_id, EndReason.RECLAIMED, 0.0)
    ]
    finished = Finished(lease_of(grant), EndReason.RECLAIMED)
    assert attempts.handle(RunEnded(grant.attempt_id, finished, 0)) == [
        Conclude(finished),
        SendReport(finished),
    ]


def test_only_attempts_accepted_as_reclaimable_are_stopped() -> None:
    """A pool holds it against a node if it stops what came before."""
    early = a_grant(device="card", milli=500)
    late_grant = replace(a_grant(device="card", milli=500), is_reclaimable=True)
    attempts = Attempts()
    for grant in (early, late_grant):
        attempts.handle(Granted(grant))
    by_terms = DevicesWanted({"card": 5.0}, EndReason.RECLAIMED, is_by_terms=True)
    assert attempts.handle(by_terms) == [
        RecallAttempt(late_grant.attempt_id, EndReason.RECLAIMED, 5.0)
    ]
    devices_wanted = DevicesWanted({"card": 5.0}, EndReason.RECLAIMED)
    assert attempts.handle(devices_wanted) == [
        RecallAttempt(early.attempt_id, EndReason.RECLAIMED, 5.0)
    ]


def test_attempts_waiting_for_a_reclaimed_device_are_given_back() -> None:
    attempts, first, second = Attempts(), a_grant(device="card"), a_grant(device="card")
    attempts.handle(Granted(first))
    attempts.handle(Granted(second))
    recall, conclude, send = attempts.handle(DevicesWanted({"card": 5.0}, EndReason.RECLAIMED))
    assert isinstance(recall, RecallAttempt) and recall.attempt_id == first.attempt_id
    assert isinstance(conclude, Conclude) and conclude.finished.reason is EndReason.RECLAIMED
    assert conclude.finished.lease == lease_of(second) and send == SendReport(conclude.finished)


def test_a_shutdown_within_the_grace_keeps_the_reason() -> None:
    attempts, grant = Attempts(), a_grant(device="card")
    attempts.handle(Granted(grant))
    attempts.handle(DevicesWanted({"card": 30.0}, EndReason.RECLAIMED))
    assert attempts.handle(ShutdownRequested()) == [StopAttempt(grant.attempt_id)]
    conclude, _ = attempts.handle(RunEnded(grant.attempt_id, None, 0))
    assert isinstance(conclude, Conclude) and conclude.finished.reason is EndReason.RECLAIMED
