"""States are data: the tables are total, and what ends stays ended."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from potluck.decide import retry_policy
from potluck.decide.lifecycle import ATTEMPT_TRANSITIONS, TASK_TRANSITIONS, is_nodes_fault
from potluck.decide.retry_policy import History, Wait
from potluck.model.backoff import BackOff
from potluck.model.lease import AttemptState
from potluck.model.task import END_REASONS, EndReason, NextTry, NodeFault, TaskState
from potluck.model.terms import TaskKind
from potluck.store import schema
from tests.decide.builders import NOW

CALM = Wait(BackOff(first_seconds=1, longest_seconds=60), jitter=1.0)


def test_the_tables_are_total() -> None:
    assert set(TASK_TRANSITIONS) == set(TaskState)
    assert set(ATTEMPT_TRANSITIONS) == set(AttemptState)
    assert list(END_REASONS) == list(EndReason)


def test_final_states_are_never_left() -> None:
    for state, following in TASK_TRANSITIONS.items():
        assert bool(following) != state.is_final
    for attempt_state, ends in ATTEMPT_TRANSITIONS.items():
        # What was given up for lost may turn out to be alive.
        may_go_on = attempt_state.is_live or attempt_state is AttemptState.LOST
        assert bool(ends) == may_go_on
    assert all(state.is_live for state in ATTEMPT_TRANSITIONS[AttemptState.LOST])


def test_no_end_is_live() -> None:
    assert not any(facts.attempt_state.is_live for facts in END_REASONS.values())


def test_the_facts_of_an_end_agree_with_each_other() -> None:
    for reason, facts in END_REASONS.items():
        is_lost = facts.attempt_state is AttemptState.LOST
        waits_again = reason in (EndReason.CREDIT, EndReason.GIVEN_BACK)
        is_tried_again = facts.attempt_state is AttemptState.FAILED or waits_again
        assert (facts.next_try is not NextTry.NONE) == (is_lost or is_tried_again), reason
        assert is_lost or facts.node_fault is NodeFault.NO, reason
        assert is_lost or facts.is_counted, reason
        assert facts.meaning[0].islower() and not facts.meaning.endswith("."), reason


OUTCOMES = [
    # (how the attempt ended, failures, losses, nodes lost, tries allowed, the task's next state)
    (EndReason.COMPLETED, 0, 0, 0, 1, TaskState.SUCCEEDED, EndReason.COMPLETED),
    (EndReason.EXIT_STATUS, 1, 0, 0, 1, TaskState.FAILED, EndReason.EXIT_STATUS),
    (EndReason.EXIT_STATUS, 1, 0, 0, 2, TaskState.QUEUED, EndReason.EXIT_STATUS),
    (EndReason.EXIT_STATUS, 2, 0, 0, 2, TaskState.FAILED, EndReason.EXIT_STATUS),
    (EndReason.MEMORY_LIMIT, 1, 5, 2, 1, TaskState.FAILED, EndReason.MEMORY_LIMIT),
    (EndReason.LEASE_EXPIRED, 0, 1, 1, 1, TaskState.QUEUED, EndReason.LEASE_EXPIRED),
    (EndReason.LEASE_EXPIRED, 0, 3, 3, 1, TaskState.FAILED, EndReason.POISON),
    (EndReason.NODE_RESTARTED, 0, 6, 1, 1, TaskState.FAILED, EndReason.TOO_MANY_LOSSES),
    (EndReason.NODE_RESTARTED, 0, 5, 2, 1, TaskState.QUEUED, EndReason.NODE_RESTARTED),
    (EndReason.WITHDRAWN, 0, 99, 9, 1, TaskState.QUEUED, EndReason.WITHDRAWN),
    (EndReason.NODE_LEFT, 0, 99, 9, 1, TaskState.QUEUED, EndReason.NODE_LEFT),
    (EndReason.RECLAIMED, 0, 99, 9, 1, TaskState.QUEUED, EndReason.RECLAIMED),
    (EndReason.DECLINED, 0, 99, 9, 1, TaskState.QUEUED, EndReason.DECLINED),
    (EndReason.CREDIT, 0, 0, 0, 1, TaskState.QUEUED, EndReason.CREDIT),
    (EndReason.GIVEN_BACK, 0, 0, 0, 1, TaskState.QUEUED, EndReason.GIVEN_BACK),
    (EndReason.DEVICE_LOST, 0, 3, 3, 1, TaskState.FAILED, EndReason.POISON),
    (EndReason.SPEC_UNREADABLE, 1, 0, 0, 9, TaskState.FAILED, EndReason.SPEC_UNREADABLE),
    (EndReason.CANCELLED, 0, 0, 0, 9, TaskState.CANCELLED, EndReason.CANCELLED),
]


@pytest.mark.parametrize("row", OUTCOMES, ids=[f"{row[0]}-{row[5]}" for row in OUTCOMES])
def test_next_state_of_a_task_after_an_attempt(row: tuple) -> None:  # type: ignore[type-arg]
    reason, failures, losses, nodes_lost, max_attempts, state, end_reason = row
    history = History(failures, losses, nodes_lost, max_attempts)
    following = retry_policy.decide_next(reason, history, NOW, CALM)
    assert (following.state, following.reason) == (state, end_reason)
    if end_reason is EndReason.TOO_MANY_LOSSES:
        assert following.detail == f"It was lost {losses} times; the last reason was {reason}."


def uncounted() -> set[EndReason]:
    return {reason for reason, facts in END_REASONS.items() if not facts.is_counted}


@pytest.mark.parametrize("reason", sorted(uncounted()))
def test_an_uncounted_loss_backs_off_and_is_bounded(reason: EndReason) -> None:
    """Else a task that is sent away each time is granted again each time, for ever."""
    limit = retry_policy.MAX_UNCOUNTED_LOSSES
    for losses, seconds in [(1, 1), (2, 2), (4, 8), (limit - 1, 60)]:
        history = History(0, 99, 9, 1, uncounted_losses=losses)
        following = retry_policy.decide_next(reason, history, NOW, CALM)
        assert (following.state, following.reason) == (TaskState.QUEUED, reason)
        assert following.not_before == NOW + timedelta(seconds=seconds)
    history = History(0, 0, 0, 1, uncounted_losses=limit)
    last = retry_policy.decide_next(reason, history, NOW, CALM)
    assert (last.state, last.reason) == (TaskState.FAILED, EndReason.TOO_MANY_LOSSES)
    assert last.detail.startswith(f"It was sent back {limit} times without a fault of its own")


def test_losses_that_count_against_the_node() -> None:
    """An owner who had said that he may want a device back may have it, if he takes nothing new."""
    lost_reasons = {
        reason for reason in EndReason if reason.facts.attempt_state is AttemptState.LOST
    }

    def excused(is_reclaimable: bool, is_available: bool) -> set[EndReason]:
        fields = {"is_reclaimable": is_reclaimable, "is_available": is_available}
        return {
            reason
            for reason in lost_reasons
            if not is_nodes_fault(reason, kind=TaskKind.SCRIPT, **fields)
        }

    silence, withdrawn = EndReason.SILENCE, EndReason.WITHDRAWN
    assert excused(True, False) == {EndReason.RECLAIMED, withdrawn, silence}
    assert excused(False, False) == {withdrawn, silence}
    assert excused(True, True) == excused(False, True) == {silence}


def test_no_node_is_at_fault_for_an_image_that_it_does_not_have() -> None:
    """Else whoever names an image that is nowhere would make every node unreliable."""
    kinds = [
        kind
        for kind in TaskKind
        if not is_nodes_fault(
            EndReason.DECLINED, kind=kind, is_reclaimable=False, is_available=True
        )
    ]
    assert kinds == [TaskKind.CONTAINER]


def test_the_statements_count_what_the_rules_count() -> None:
    """Which losses are no matter for a task is said in SQL too."""
    (newest,) = (Path(schema.__file__).parent / "migrations/versions").glob("*_ends.sql")
    sql = newest.read_text()
    reason_lists = re.findall(r"reason (?:NOT )?IN \(([^)]*)\)", sql)
    assert [set(re.findall(r"'(\w+)'", reason_list)) for reason_list in reason_lists] == [
        uncounted()
    ] * 3


def test_the_back_off_doubles_up_to_its_limit() -> None:
    waits = [(CALM.until(NOW, tries) - NOW) / timedelta(seconds=1) for tries in (1, 2, 3, 20)]
    assert waits == [1, 2, 4, 60]
    assert Wait(BackOff(1, 60), 0.0).until(NOW, 5) == NOW
