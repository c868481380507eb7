"""Attempts of one line: staged while the one before runs, started one after the other."""

from itertools import pairwise

from msgspec.structs import replace

from potluck.model.task import EndReason
from potluck.provider.event import (
    CodeStarted,
    DevicesClosed,
    FinishAccepted,
    Granted,
    GrantRefusal,
    LeaseLost,
    LogAcknowledged,
    PrepareBegan,
    RunEnded,
    ShutdownRequested,
    WaitedLong,
)
from potluck.provider.holding import AttemptPhase
from potluck.provider.instruction import (
    Conclude,
    Forget,
    Instruction,
    SendReport,
    StageAttempt,
    StartAttempt,
    StopAttempt,
)
from potluck.provider.start_order import MOST_STAGED
from potluck.provider.state import Attempts
from potluck.wire.provider import Finished, Grant, Preparing, Started
from tests.provider.builders import a_grant, completed, lease_of


def a_line(count: int, **changes: object) -> tuple[Attempts, list[Grant]]:
    """The first runs; the others were granted ahead of its end."""
    attempts, first = Attempts(), replace(a_grant(), **changes)
    assert StartAttempt(first) in attempts.handle(Granted(first))
    attempts.handle(CodeStarted(first.attempt_id))
    others = [
        replace(a_grant(), **{**changes, "line": first.attempt_id, "devices": first.devices})
        for _ in range(count - 1)
    ]
    for grant in others:
        attempts.handle(Granted(grant))
    return attempts, [first, *others]


def end(attempts: Attempts, grant: Grant) -> list[Instruction]:
    return attempts.handle(RunEnded(grant.attempt_id, completed(lease_of(grant)), 0))


def of_kind(instructions: list[Instruction], kind: type) -> list[Grant]:
    return [instruction.grant for instruction in instructions if isinstance(instruction, kind)]  # type: ignore[union-attr]


def phases(attempts: Attempts) -> list[AttemptPhase]:
    return [holding.phase for holding in attempts.holdings()]


def test_the_next_ones_are_staged_and_the_others_wait() -> None:
    attempts, grants = a_line(5)
    assert phases(attempts)[1:] == ["staged"] * MOST_STAGED + ["waiting"] * (4 - MOST_STAGED)
    assert attempts.held() == tuple(map(lease_of, grants))


def test_each_attempt_starts_when_the_previous_one_ended_even_if_there_is_room() -> None:
    """A processor's share leaves room for many: the line goes by its order all the same."""
    small = [replace(device, milli=1) for device in a_grant().devices]
    attempts, grants = a_line(4, devices=small)
    for before, after in pairwise(grants):
        instructions = end(attempts, before)
        assert of_kind(instructions, StartAttempt) == [after]
        reported = attempts.handle(CodeStarted(after.attempt_id))
        assert reported == [SendReport(Started(lease_of(after)))]


def test_the_next_attempt_is_staged_when_a_staged_one_starts() -> None:
    attempts, grants = a_line(4)
    assert of_kind(end(attempts, grants[0]), StageAttempt) == [grants[3]]


def test_an_attempt_without_a_line_starts_beside_it() -> None:
    attempts, _ = a_line(2, devices=[])
    other = a_grant()
    assert of_kind(attempts.handle(Granted(other)), StartAttempt) == [other]


def test_a_staged_attempt_reports_preparing_and_may_fail_before_its_turn() -> None:
    attempts, (first, second, third) = a_line(3)
    assert attempts.handle(PrepareBegan(second.attempt_id)) == [
        SendReport(Preparing(lease_of(second)))
    ]
    failed = Finished(lease_of(second), EndReason.PREPARE_FAILED, detail="no such package")
    instructions = attempts.handle(RunEnded(second.attempt_id, failed, 0))
    assert instructions[:2] == [Conclude(failed), SendReport(failed)]
    assert of_kind(end(attempts, first), StartAttempt) == [third]


def test_a_grant_that_waited_long_is_returned_while_the_previous_one_runs() -> None:
    attempts, (_, second) = a_line(2)
    assert attempts.handle(WaitedLong(second.attempt_id)) == [StopAttempt(second.attempt_id)]
    conclude, report = attempts.handle(RunEnded(second.attempt_id, None, 0))
    assert isinstance(conclude, Conclude) and conclude.finished.reason is EndReason.DECLINED
    assert report == SendReport(conclude.finished)


def test_a_running_or_next_grant_is_not_returned() -> None:
    attempts, (first, second, third) = a_line(3)
    end(attempts, first)
    assert attempts.handle(WaitedLong(second.attempt_id)) == []
    attempts.handle(LeaseLost(second.attempt_id))  # cancelled: it still has to end
    assert attempts.handle(WaitedLong(third.attempt_id)) == []
    started = attempts.handle(RunEnded(second.attempt_id, None, 0))
    assert of_kind(started, StartAttempt) == [third]


def test_closing_a_device_returns_all_its_attempts_and_stops_their_sandboxes() -> None:
    attempts, (first, second, third, fourth) = a_line(4)
    uuid = first.devices[0].uuid
    refusal = GrantRefusal(EndReason.DECLINED, "paused")
    instructions = attempts.handle(DevicesClosed({uuid: refusal}))
    assert [StopAttempt(grant.attempt_id) for grant in (second, third)] == instructions[:2]
    assert any(
        isinstance(instruction, Conclude) and instruction.finished.lease == lease_of(fourth)
        for instruction in instructions
    )
    assert phases(attempts)[0] is AttemptPhase.RUNNING


def test_a_cancelled_one_leaves_the_line() -> None:
    attempts, (first, second, third) = a_line(3)
    assert attempts.handle(LeaseLost(second.attempt_id)) == [
        StopAttempt(second.attempt_id),
        Forget(second.attempt_id),
    ]
    assert of_kind(end(attempts, first), StartAttempt) == [third]
    assert (
        attempts.handle(RunEnded(second.attempt_id, None, 0)) == []
    )  # nothing was done: no receipt


def test_a_shutdown_returns_all_waiting_attempts() -> None:
    attempts, grants = a_line(4)
    instructions = attempts.handle(ShutdownRequested())
    stopped = [
        instruction.attempt_id
        for instruction in instructions
        if isinstance(instruction, StopAttempt)
    ]
    assert stopped == [grant.attempt_id for grant in grants[: 1 + MOST_STAGED]]
    for grant in grants[: 1 + MOST_STAGED]:
        ended = attempts.handle(RunEnded(grant.attempt_id, None, 0))
        assert of_kind(ended, StartAttempt) == []


def test_with_a_price_it_starts_when_the_server_knows_that_the_one_before_has_ended() -> None:
    """Its time is paid from then on."""
    attempts, (first, second) = a_line(2, price_micro_per_hour=1)
    attempts.handle(LogAcknowledged(first.attempt_id, 0))
    assert of_kind(end(attempts, first), StartAttempt) == []
    accepted = attempts.handle(FinishAccepted(first.attempt_id))
    assert of_kind(accepted, StartAttempt) == [second]
