"""What an end costs, and the page that says who could gain by it."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from potluck.decide.attempt_change import AttemptChange, cancel, end
from potluck.decide.charges import Billable
from potluck.decide.failure_record import (
    FEWEST_ENDS,
    FIRST_SPARED,
    MOST_SPARED,
    NO_RECORD,
    PAID_FOR_SPARED,
    SHORT_SECONDS,
    FailureRecord,
    FailureRecords,
    has_costly_outliers,
    is_doubted,
    node_reliability,
)
from potluck.decide.locked_attempt import LockedAttempt
from potluck.decide.retry_policy import History, Wait
from potluck.model.backoff import BackOff
from potluck.model.ids import AccountId, AttemptId, NodeId, TaskId
from potluck.model.lease import AttemptState
from potluck.model.task import END_REASONS, EndReason, Reporter, TaskState
from potluck.model.terms import TaskKind
from potluck.model.usage import Usage

NOW = datetime(2030, 1, 1, tzinfo=UTC)
CALM = Wait(BackOff(1, 60), 1.0)
SECURITY = Path(__file__).parents[2] / "docs" / "security.md"
# Of tasks and items, or of tasks that no node has: no attempt ends with them.
NOT_OF_ATTEMPTS = {
    *(EndReason.ITEMS_FAILED, EndReason.POISON, EndReason.TOO_MANY_LOSSES),
    *(EndReason.DEADLINE, EndReason.DEPENDENCY),
}
SUCCEEDS_ELSEWHERE = FailureRecord(0, FEWEST_ENDS, FEWEST_ENDS)


def locked(
    *, is_started: bool = True, max_attempts: int = 1, failures: int = 0, **changes: Any
) -> LockedAttempt:
    """A script that began ten seconds ago, at a credit a second."""
    values: dict[str, Any] = {
        "id": AttemptId("attempt"),
        "task_id": TaskId("task"),
        "node_id": NodeId("node"),
        "state": AttemptState.RUNNING if is_started else AttemptState.GRANTED,
        "reason": None,
        "task_state": TaskState.RUNNING if is_started else TaskState.ASSIGNED,
        "kind": TaskKind.SCRIPT,
        "billable": Billable(
            consumer_id=AccountId("alice"),
            provider_id=AccountId("bob"),
            price_micro_per_hour=3_600_000_000,
            hold_micro=10**9,
            run_seconds_limit=1000.0,
            started_at=NOW - timedelta(seconds=10) if is_started else None,
            reported_run_seconds=None,
        ),
        "adoption": 0,
        "history": History(failures, 0, 0, max_attempts),
        "array": None,
        "held": None,
        "report_hash": None,
        "is_expired": False,
        "was_fetched": True,
        "is_reclaimable": False,
        "is_available": True,
        "has_output": True,
        "is_unfunded": False,
        "was_in_contact": False,
        "has_failed_before": failures > 0,
        "taken_at": NOW,
        "now": NOW,
    }
    return LockedAttempt(**{**values, **changes})


def ended(
    attempt: LockedAttempt, reason: EndReason, record: FailureRecord = NO_RECORD
) -> AttemptChange:
    usage = Usage(run_seconds=10.0)
    return end(AttemptChange(attempt), reason, CALM, usage=usage, record=record)


@pytest.mark.parametrize(
    ("has_output", "is_retried", "record", "charged"),
    [
        pytest.param(True, True, NO_RECORD, 10, id="output"),
        pytest.param(False, False, NO_RECORD, 10, id="the last"),
        pytest.param(False, True, NO_RECORD, 0, id="not the last"),
        pytest.param(False, False, SUCCEEDS_ELSEWHERE, 0, id="outlier"),
        pytest.param(True, False, SUCCEEDS_ELSEWHERE, 10, id="outlier with output"),
        pytest.param(False, True, FailureRecord(MOST_SPARED), 10, id="spared often"),
        pytest.param(
            False, False, FailureRecord(MOST_SPARED, 9, 9), 10, id="outlier, spared often"
        ),
    ],
)
def test_a_failure_without_output_is_charged_once(
    has_output: bool, is_retried: bool, record: FailureRecord, charged: int
) -> None:
    attempt = locked(has_output=has_output, max_attempts=2 if is_retried else 1)
    change = ended(attempt, EndReason.TIME_LIMIT, record)
    assert change.charge_micro == charged * 10**6
    assert change.is_spared == (charged == 0)
    assert change.is_outlier == (record.ended_elsewhere > 0)


def test_an_account_is_spared_twice_and_then_for_a_hundredth_of_what_it_paid() -> None:
    attempt = locked(has_output=False, max_attempts=9)

    def is_spared(spared: int, spared_credits: int, paid_credits: int) -> bool:
        record = FailureRecord(
            spared, spared_micro=spared_credits * 10**6, paid_micro=paid_credits * 10**6
        )
        return ended(attempt, EndReason.TIME_LIMIT, record).is_spared

    assert is_spared(FIRST_SPARED - 1, 1_000, 0)
    assert not is_spared(FIRST_SPARED, 20, 2_999)
    assert is_spared(FIRST_SPARED, 20, 3_000)
    assert is_spared(MOST_SPARED - 1, 20, 3_000)
    assert not is_spared(MOST_SPARED, 20, 10**9)


def test_spared_charges_count_against_the_next_attempt_of_the_account() -> None:
    records = FailureRecords({AttemptId("a"): NO_RECORD, AttemptId("b"): NO_RECORD})
    records.note(AccountId("alice"), 7)
    records.note(AccountId("alice"), 0)
    charge_record = records.find(AttemptId("b"), AccountId("alice"))
    assert (charge_record.spared, charge_record.spared_micro) == (1, 7)
    assert records.find(AttemptId("b"), AccountId("bob")) == NO_RECORD


def test_outliers_are_weighed_by_their_time() -> None:
    assert has_costly_outliers(100.0, 11.0) and not has_costly_outliers(100.0, 10.0)
    assert not has_costly_outliers(0.0, 0.0)


def test_a_doubted_node_earns_nothing_by_what_nobody_else_reports() -> None:
    """A log is easily made up."""
    doubted = FailureRecord(0, FEWEST_ENDS, FEWEST_ENDS, is_node_doubted=True)
    assert ended(locked(), EndReason.TIME_LIMIT, doubted).charge_micro == 0
    assert not ended(locked(), EndReason.TIME_LIMIT, doubted).is_spared, "of the account's ten"
    assert ended(locked(was_in_contact=True), EndReason.SILENCE, doubted).charge_micro == 0
    alone = FailureRecord(is_node_doubted=True)
    assert ended(locked(), EndReason.TIME_LIMIT, alone).charge_micro == 10**7
    assert ended(locked(), EndReason.COMPLETED, doubted).charge_micro == 10**7


def test_a_false_silence_counts_like_a_failure_and_against_the_node() -> None:
    false = ended(locked(was_in_contact=True, max_attempts=2), EndReason.SILENCE)
    assert false.task is not None and false.task.state is TaskState.QUEUED
    assert (false.charge_micro, false.task.failures, false.is_nodes_loss) == (10**7, 1, True)
    assert false.is_outlier
    last = ended(locked(was_in_contact=True, max_attempts=2, failures=1), EndReason.SILENCE)
    assert last.task is not None and last.task.state is TaskState.FAILED
    true = ended(locked(), EndReason.SILENCE)
    assert true.task is not None and true.task.state is TaskState.QUEUED
    assert (true.charge_micro, true.task.failures, true.is_nodes_loss) == (0, 0, False)


def test_a_failure_is_an_outlier_only_if_enough_others_ended_and_nearly_all_succeeded() -> None:
    assert not FailureRecord(0, FEWEST_ENDS - 1, FEWEST_ENDS - 1).is_outlier
    assert FailureRecord(0, 20, 18).is_outlier
    assert not FailureRecord(0, 20, 17).is_outlier


def test_a_node_is_doubted_for_a_quarter_of_its_attempts_but_not_for_two() -> None:
    assert not is_doubted(finished=2, lost=0, outliers=2)
    assert is_doubted(finished=3, lost=0, outliers=3)
    assert is_doubted(finished=8, lost=1, outliers=2)
    assert not is_doubted(finished=11, lost=1, outliers=2)
    assert node_reliability(0, 0, 0) == 1.0
    assert node_reliability(8, 0, 4) == 0.6


def rows() -> dict[str, list[str]]:
    """The table of ends in docs/security.md, by reason."""
    section = SECURITY.read_text().partition("## Ends of attempts\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {cell[0].strip("`"): cell[1:] for cell in cells}


def test_the_page_has_every_end_reason_in_its_order() -> None:
    assert list(rows()) == [str(reason) for reason in END_REASONS]


@pytest.mark.parametrize("reason", EndReason)
def test_the_page_says_who_pays_and_what_counts(reason: EndReason) -> None:
    causes, payer, counts, gain, bound = rows()[reason]
    assert all((causes, gain, bound))
    assert payer == _payer(reason)
    assert counts == _counted(reason)
    if payer != "consumer" or counts in ("–", "uncounted"):
        assert bound != "–", "who does not pay, or is not counted, is bounded by something else"


def _payer(reason: EndReason) -> str:
    """By the decisions themselves."""
    if reason in NOT_OF_ATTEMPTS:
        return "–"
    if reason is EndReason.CANCELLED:
        (change,) = cancel([locked()])
        return "consumer" if change.charge_micro else "nobody"
    if reason is EndReason.GIVEN_BACK:  # by any loss before it started, without a share
        change = ended(locked(is_started=False, has_share=False), EndReason.DECLINED)
        assert change.reason is reason
        return "consumer" if change.charge_micro else "nobody"
    facts = reason.facts
    is_before_start = facts.attempt_state is AttemptState.FAILED and (
        facts.reporter is not Reporter.ITEM
    )
    charges = {
        bool(ended(locked(is_started=not is_before_start, **contact), reason).charge_micro)
        for contact in ({}, {"was_in_contact": True})
    }
    return {True: "consumer", False: "nobody"}[charges.pop()] if len(charges) == 1 else "either"


def _counted(reason: EndReason) -> str:
    facts = reason.facts
    if not facts.is_counted:
        return "uncounted"
    return {AttemptState.FAILED: "failure", AttemptState.LOST: "loss"}.get(facts.attempt_state, "–")


def test_the_numbers_on_the_page_are_those_of_the_code() -> None:
    section = SECURITY.read_text().partition("## Ends of attempts\n")[2].partition("\n## ")[0]
    text = re.sub(r"\s+", " ", section)
    assert f"spared {FIRST_SPARED} times for at most five minutes each, and up" in text
    assert f"up to {MOST_SPARED} times" in text and SHORT_SECONDS == 300
    assert PAID_FOR_SPARED == 100 and "a hundredth of what the account paid" in text
