"""Which conditions hold is decided by what was observed, and by nothing else."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from potluck.decide.alerts.conditions import (
    AlertLimits,
    Condition,
    ContractReading,
    DeviceTrouble,
    InstanceReading,
    LostNode,
    PoolObservation,
    QueueReading,
    RequestCounts,
    RewardsReading,
    find_conditions,
    no_leader,
)
from potluck.decide.invariants import Violation
from potluck.model.alert import AlertName
from potluck.model.ids import AccountId, DeviceId, NodeId

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
DAY = timedelta(days=1)
LIMITS = AlertLimits(
    stuck=timedelta(hours=6),
    error_share=0.05,
    latency_seconds=1.0,
    least_requests=20,
    certificate=14 * DAY,
    backup=2 * DAY,
    leader_terms=5,
    leader_seconds=600.0,
    round_seconds=20.0,
    epoch_seconds=300.0,
    payout_seconds=8 * 86_400.0,
)
FINE = PoolObservation(latest_backup_at=NOW - DAY)


def conditions(limits: AlertLimits = LIMITS, **observed: object) -> list[Condition]:
    return find_conditions(replace(FINE, **observed), limits, NOW)


def names(**observed: object) -> list[AlertName]:
    return [condition.name for condition in conditions(LIMITS, **observed)]


def test_a_pool_that_works_gives_no_cause() -> None:
    busy = QueueReading(waiting=7, has_online_node=True, round_age_seconds=0.1)
    reading = InstanceReading("a:1", RequestCounts(1000, 1, 1000, 10), 10**12)
    assert names(queue=busy, instances=(reading,), terms_begun=5) == []


def test_a_lost_node_belongs_to_its_owner() -> None:
    node = LostNode(NodeId("node_1"), AccountId("account_1"), "attic", NOW - timedelta(minutes=6))
    (condition,) = conditions(lost_nodes=(node,))
    assert condition.detail == "attic (node_1) has been silent for 6 min 0 s."
    assert (condition.subject, condition.account_id) == ("node_1", "account_1")


def test_a_device_can_be_sick_and_hot() -> None:
    device = DeviceTrouble(
        *(DeviceId("device_1"), AccountId("account_1"), NodeId("node_1"), "attic", "L4"),
        sick_because="It does not answer.",
        hot_celsius=97.4,
    )
    sick, hot = conditions(devices=(device,))
    assert (sick.name, hot.name) == (AlertName.DEVICE_SICK, AlertName.DEVICE_HOT)
    assert sick.detail == "L4 of attic (device_1) is sick. It does not answer."
    assert hot.detail == "L4 of attic (device_1) has 97 °C."
    (slowed,) = conditions(devices=(replace(device, sick_because=None, hot_celsius=0.0),))
    assert slowed.detail == "L4 of attic (device_1) is slowed down."


@pytest.mark.parametrize(
    ("queue", "is_stalled"),
    [
        (QueueReading(0, has_online_node=False, round_age_seconds=999), False),
        (QueueReading(1, has_online_node=True, round_age_seconds=19), False),
        (QueueReading(1, has_online_node=True, round_age_seconds=21), True),
        (QueueReading(1, has_online_node=False, round_age_seconds=0), True),
    ],
)
def test_a_queue_is_stalled_when_nothing_can_start_what_waits(
    queue: QueueReading, is_stalled: bool
) -> None:
    assert names(queue=queue) == ([AlertName.QUEUE_STALLED] if is_stalled else [])


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([RequestCounts(19, 19, 19, 19)], []),
        ([RequestCounts(20, 1, 20, 1)], []),
        ([RequestCounts(20, 2, 20, 1)], [AlertName.ERROR_RATE_HIGH]),
        ([RequestCounts(20, 1, 20, 2)], [AlertName.LATENCY_HIGH]),
        # Over all instances: the one that fails answers few.
        ([RequestCounts(990, 0, 990, 0), RequestCounts(10, 10, 10, 10)], []),
    ],
)
def test_requests_are_counted_over_all_instances(
    counts: list[RequestCounts], expected: list[AlertName]
) -> None:
    readings = tuple(InstanceReading(f"a:{n}", count) for n, count in enumerate(counts))
    assert names(instances=readings) == expected


def test_disks_and_certificates_are_of_instances() -> None:
    low = InstanceReading("a:1", free_bytes=2**20, is_disk_low=True)
    full = InstanceReading("b:1", is_database_disk_full=True)
    ending = InstanceReading("c:1", certificate_ends_at=NOW + 5 * DAY)
    ended = InstanceReading("d:1", certificate_ends_at=NOW - DAY)
    good = InstanceReading("e:1", certificate_ends_at=NOW + 15 * DAY)
    found_conditions = conditions(instances=(low, full, ending, ended, good))
    assert [condition.detail for condition in found_conditions] == [
        "The disk of the database is full.",
        "a:1 has 1 MiB left on its disk.",
        "The certificate of c:1 ends in 5 d 0 h.",
        "The certificate of d:1 has ended.",
    ]


def test_violations_are_of_the_ledger_or_of_the_rest_once_for_each_subject() -> None:
    found_conditions = conditions(
        violations=(
            Violation("node_1", "node_1 is wrong"),
            Violation("node_1", "node_1 is very wrong"),
            Violation("account_1", "account_1 has a negative balance", is_of_ledger=True),
        )
    )
    assert {(condition.name, condition.detail) for condition in found_conditions} == {
        (AlertName.INVARIANT_VIOLATED, "node_1 is wrong."),
        (AlertName.LEDGER_IMBALANCE, "account_1 has a negative balance."),
    }


def test_an_epoch_that_is_not_closed_and_rewards_that_are_not_paid() -> None:
    assert names(rewards=RewardsReading(7, 300.0, 8 * 86_400.0, 1, 5)) == []
    (late_epoch,) = conditions(rewards=RewardsReading(7, 301.0))
    assert late_epoch.name is AlertName.EPOCH_LATE
    assert late_epoch.detail == "Epoch 7 has been over for 5 min 1 s, and is not closed."
    unpaid = RewardsReading(7, 0.0, 9 * 86_400.0, 2, 1_500_000)
    (unpaid_condition,) = conditions(rewards=unpaid)
    assert unpaid_condition.name is AlertName.PAYOUT_LATE
    assert unpaid_condition.detail == "2 accounts wait for 1.5 credits, the longest for 9 d 0 h."
    assert conditions(replace(LIMITS, payout_seconds=None), rewards=unpaid) == []


def test_backups_are_watched_only_if_an_age_is_set() -> None:
    unwatched = replace(LIMITS, backup=None)
    assert conditions(unwatched, latest_backup_at=None) == []
    assert names(latest_backup_at=NOW - 2 * DAY) == []
    (old,) = conditions(latest_backup_at=NOW - 3 * DAY)
    (none,) = conditions(latest_backup_at=None)
    assert old.name is none.name is AlertName.BACKUP_TOO_OLD
    assert (old.detail, none.detail) == ("The last backup is 3 d 0 h old.", "There is no backup.")


def test_no_leader_and_too_many_leaders() -> None:
    unreachable, missing = no_leader(is_database_away=True), no_leader(is_database_away=False)
    assert unreachable.name is missing.name is AlertName.NO_LEADER
    assert (unreachable.detail, unreachable.subject) == (
        "The database does not answer.",
        missing.subject,
    )
    assert names(terms_begun=6) == [AlertName.LEADER_FLAPPING]


def test_a_contract_that_stopped_and_one_that_is_late() -> None:
    fine = ContractReading("0x1 on chain 1", None, None, None, NOW - timedelta(hours=5), 0)
    assert names(contracts=(fine,)) == []
    (stopped,) = conditions(contracts=(replace(fine, halted_because="A reorganisation."),))
    assert (stopped.name, stopped.detail) == (AlertName.PAYOUTS_STOPPED, "A reorganisation.")
    assert names(contracts=(replace(fine, unpaid_claims=1),)) == [AlertName.PAYOUTS_STOPPED]
    waiting = replace(fine, waits_because="it is paused", waits_since=NOW - timedelta(hours=7))
    (late_payout,) = conditions(contracts=(waiting,))
    assert late_payout.name is AlertName.PAYOUT_STUCK
    assert (
        late_payout.detail == "A payout by 0x1 on chain 1 has waited for 7 h 0 min: it is paused."
    )
