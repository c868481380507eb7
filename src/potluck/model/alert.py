"""Alerts: conditions of the pool that operators should know of, and everything known about each."""

from enum import StrEnum
from typing import Final

from msgspec import Struct


class AlertName(StrEnum):
    """What is wrong; the same names are in the Prometheus rules."""

    NODE_LOST = "NodeLost"  # a node sends no heartbeats, and did not say that it would stop
    DEVICE_SICK = "DeviceSick"  # a device does not work correctly, and gets no work
    DEVICE_HOT = "DeviceHot"  # a device is too hot, or slowed down by heat or lack of power
    QUEUE_STALLED = "QueueStalled"  # tasks wait, and no node or no scheduler is there to start them
    NO_LEADER = "NoLeader"  # no instance leads, or the database does not answer: no task starts
    ERROR_RATE_HIGH = "ErrorRateHigh"  # too many requests fail by the server's fault
    LATENCY_HIGH = "LatencyHigh"  # requests are answered too slowly
    DISK_LOW = "DiskLow"  # the disk of an instance, or of the database, is almost full
    CERTIFICATE_EXPIRING = "CertificateExpiring"  # the certificate of an instance ends soon
    LEDGER_IMBALANCE = "LedgerImbalance"  # balances and entries of the ledger do not agree
    INVARIANT_VIOLATED = "InvariantViolated"  # the database contradicts itself
    BACKUP_TOO_OLD = "BackupTooOld"  # the last complete backup is too old, or there is none
    LEADER_FLAPPING = "LeaderFlapping"  # the leadership changes again and again
    EPOCH_LATE = "EpochLate"  # an epoch is over, and its rewards are not counted
    PAYOUT_LATE = "PayoutLate"  # rewards were set aside long ago, and are not paid
    # the chain or the contract is not as the ledger knows it: nothing is credited or paid
    PAYOUTS_STOPPED = "PayoutsStopped"
    PAYOUT_STUCK = "PayoutStuck"  # a payout by the contract does not proceed


class AlertSeverity(StrEnum):
    """How urgent an alert is."""

    WARNING = "warning"  # within a day; held back during quiet hours
    CRITICAL = "critical"  # now: the pool does not work, or its data is in danger


class AlertState(StrEnum):
    """Where an alert stands."""

    PENDING = "pending"  # its condition holds, but not for long enough yet
    FIRING = "firing"  # its condition has held for long enough
    RESOLVED = "resolved"  # its condition has ended after it fired


class AlertAudience(StrEnum):
    """Who gets an alert."""

    OPERATOR = "operator"  # the operator, at the configured destinations
    # also the owner of the node or device, by events of the account
    OPERATOR_AND_OWNER = "operator and owner"


class AlertFacts(Struct, frozen=True):
    severity: AlertSeverity
    for_seconds: float  # how long the condition must hold; a setting overrides it
    one: str  # what is wrong with one subject, in a few words
    several: str  # what is wrong with several subjects, after their number
    meaning: str  # a sentence for a message
    audience: AlertAudience = AlertAudience.OPERATOR


_WARNING, _CRITICAL = AlertSeverity.WARNING, AlertSeverity.CRITICAL
_OWNER = AlertAudience.OPERATOR_AND_OWNER

ALERTS: Final[dict[AlertName, AlertFacts]] = {
    AlertName.NODE_LOST: AlertFacts(
        *(_WARNING, 300.0, "node lost", "nodes lost"),
        "A node sends no heartbeats, and did not say that it would stop.",
        _OWNER,
    ),
    AlertName.DEVICE_SICK: AlertFacts(
        *(_WARNING, 60.0, "device sick", "devices sick"),
        "A device does not work correctly, and gets no work.",
        _OWNER,
    ),
    AlertName.DEVICE_HOT: AlertFacts(
        *(_WARNING, 120.0, "device too hot", "devices too hot"),
        "A device is too hot, or slowed down by heat or lack of power.",
        _OWNER,
    ),
    AlertName.QUEUE_STALLED: AlertFacts(
        *(_CRITICAL, 300.0, "queue stalled", "queues stalled"), "Tasks wait, and none can start."
    ),
    AlertName.NO_LEADER: AlertFacts(
        *(_CRITICAL, 30.0, "no leader", "pools without a leader"),
        "No instance leads, so no task starts.",
    ),
    AlertName.ERROR_RATE_HIGH: AlertFacts(
        *(_CRITICAL, 120.0, "error rate high", "error rates high"),
        "Too many requests fail because of the server.",
    ),
    AlertName.LATENCY_HIGH: AlertFacts(
        *(_WARNING, 300.0, "latency high", "latencies high"), "Requests are answered too slowly."
    ),
    AlertName.DISK_LOW: AlertFacts(
        *(_CRITICAL, 60.0, "disk almost full", "disks almost full"),
        "A disk of the server is almost full; then nothing can be written.",
    ),
    AlertName.CERTIFICATE_EXPIRING: AlertFacts(
        *(_WARNING, 0.0, "certificate expires soon", "certificates expire soon"),
        "A TLS certificate expires soon; then no client can connect.",
    ),
    AlertName.LEDGER_IMBALANCE: AlertFacts(
        *(_CRITICAL, 0.0, "ledger imbalance", "ledger imbalances"),
        "Balances and entries of the ledger do not agree.",
    ),
    AlertName.INVARIANT_VIOLATED: AlertFacts(
        *(_CRITICAL, 0.0, "invariant violated", "invariants violated"),
        "The database contradicts itself: a bug, or a change by hand.",
    ),
    AlertName.BACKUP_TOO_OLD: AlertFacts(
        *(_CRITICAL, 0.0, "backup too old", "backups too old"),
        "The last complete backup is too old, or there is none.",
    ),
    AlertName.LEADER_FLAPPING: AlertFacts(
        *(_WARNING, 0.0, "leadership changes too often", "leaderships change too often"),
        "The leadership changes again and again.",
    ),
    AlertName.EPOCH_LATE: AlertFacts(
        *(_WARNING, 60.0, "epoch not closed", "epochs not closed"),
        "An epoch is over, but its rewards are not counted.",
    ),
    AlertName.PAYOUT_LATE: AlertFacts(
        *(_WARNING, 0.0, "payout late", "payouts late"),
        "Rewards were set aside for a payout long ago, but are not paid.",
    ),
    AlertName.PAYOUTS_STOPPED: AlertFacts(
        *(_CRITICAL, 0.0, "payouts stopped", "contracts whose payouts stopped"),
        "The chain or the contract is not as the ledger knows it: nothing is credited or paid.",
    ),
    AlertName.PAYOUT_STUCK: AlertFacts(
        *(_WARNING, 0.0, "payout stuck", "payouts stuck"),
        "A payout by the contract does not proceed.",
    ),
}


# Every server has the page.
RUNBOOK_PATH: Final = "/runbook"


def runbook_anchor(name: AlertName) -> str:
    """The section of the runbook about this alert; the Prometheus rules link to the same."""
    return name.lower()
