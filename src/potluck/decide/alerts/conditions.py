"""Which conditions hold, from what was observed of the pool."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from msgspec import Struct

from potluck.decide.invariants import Violation
from potluck.model.alert import AlertName
from potluck.model.ids import AccountId, DeviceId, NodeId
from potluck.model.units import show_amount, show_bytes, show_count, show_seconds

# The subject of alerts that are not about one thing.
POOL = "pool"
# The part of requests that may be slow.
_SLOW_SHARE = 0.05


class Condition(Struct, frozen=True):
    """Something is wrong with a subject: a node, a device, an instance or the whole pool."""

    name: AlertName
    subject: str
    detail: str  # a sentence
    account_id: AccountId | None = None  # whose node or device it is
    node_id: NodeId | None = None


class LostNode(Struct, frozen=True):
    id: NodeId
    account_id: AccountId
    node_name: str
    heartbeat_at: datetime


class DeviceTrouble(Struct, frozen=True):
    """A device that is sick, hot or both."""

    id: DeviceId
    account_id: AccountId
    node_id: NodeId
    node_name: str
    model: str
    sick_because: str | None
    hot_celsius: float | None  # None: not hot; 0: slowed down, at an unknown temperature


class RequestCounts(Struct, frozen=True):
    """Requests of one instance within the window."""

    requests: int = 0
    errors: int = 0  # answered with 5xx
    timed: int = 0  # whose time counts
    slow: int = 0  # of those


class InstanceReading(Struct, frozen=True):
    """What an instance knows about itself."""

    instance_name: str  # host and port: the same after a restart
    requests: RequestCounts = RequestCounts()
    free_bytes: int | None = None
    is_disk_low: bool = False
    is_database_disk_full: bool = False
    certificate_ends_at: datetime | None = None


class QueueReading(Struct, frozen=True):
    waiting: int  # tasks that could start if a node had the capacity
    has_online_node: bool
    round_age_seconds: float  # since the scheduler last completed a round


class RewardsReading(Struct, frozen=True):
    """How late rewards are."""

    epoch: int = 0  # the open one
    epoch_overdue_seconds: float = 0.0  # since it is over; 0 while it is not
    payout_age_seconds: float = 0.0  # since the first epoch that is not paid was closed; 0 if none
    late_accounts: int = 0  # with rewards that are not paid
    claimable_micro: int = 0


class ContractReading(Struct, frozen=True):
    """A rewards contract."""

    contract: str  # with its chain
    halted_because: str | None
    waits_because: str | None
    waits_since: datetime | None
    open_since: datetime | None  # of a transaction that is not settled
    unpaid_claims: int  # that the ledger does not cover


class PoolObservation(Struct, frozen=True):
    lost_nodes: tuple[LostNode, ...] = ()
    devices: tuple[DeviceTrouble, ...] = ()
    instances: tuple[InstanceReading, ...] = ()
    queue: QueueReading | None = None
    violations: tuple[Violation, ...] = ()
    terms_begun: int = 0  # within the window
    latest_backup_at: datetime | None = None
    rewards: RewardsReading | None = None
    contracts: tuple[ContractReading, ...] = ()


class AlertLimits(Struct, frozen=True):
    error_share: float
    latency_seconds: float
    least_requests: int
    certificate: timedelta
    backup: timedelta | None
    stuck: timedelta  # how long a payout by a contract may not proceed
    leader_terms: int
    leader_seconds: float
    round_seconds: float  # a scheduler without a complete round for this time does not work
    epoch_seconds: float = 300.0  # how late an epoch may be closed
    payout_seconds: float | None = None  # how late rewards may be paid; None: any time


def find_conditions(
    observed: PoolObservation, limits: AlertLimits, now: datetime
) -> list[Condition]:
    return [
        *_nodes(observed, now),
        *_devices(observed),
        *_queue(observed, limits),
        *_requests(observed, limits),
        *_instances(observed, limits, now),
        *_violations(observed),
        *_backup(observed, limits, now),
        *_leadership(observed, limits),
        *_rewards(observed, limits),
        *_payouts(observed, limits, now),
    ]


def no_leader(*, is_database_away: bool) -> Condition:
    """Found by any instance: no leader observes the pool then."""
    database = "The database does not answer."
    leader = "The database answers, but no instance leads."
    return Condition(AlertName.NO_LEADER, POOL, database if is_database_away else leader)


def database_disk_full() -> Condition:
    """Any instance may notice it, and the leader reads it from that instance's report."""
    return Condition(AlertName.DISK_LOW, POOL, "The disk of the database is full.")


def _nodes(observed: PoolObservation, now: datetime) -> Iterator[Condition]:
    for node in observed.lost_nodes:
        silent = show_seconds((now - node.heartbeat_at).total_seconds())
        detail = f"{node.node_name} ({node.id}) has been silent for {silent}."
        yield Condition(AlertName.NODE_LOST, node.id, detail, node.account_id, node.id)


def _devices(observed: PoolObservation) -> Iterator[Condition]:
    for device in observed.devices:
        where = f"{device.model} of {device.node_name} ({device.id})"
        if device.sick_because is not None:
            detail = f"{where} is sick. {device.sick_because}".strip()
            yield _of_device(AlertName.DEVICE_SICK, device, detail)
        if device.hot_celsius is not None:
            heat = f"has {device.hot_celsius:.0f} °C" if device.hot_celsius else "is slowed down"
            yield _of_device(AlertName.DEVICE_HOT, device, f"{where} {heat}.")


def _of_device(name: AlertName, device: DeviceTrouble, detail: str) -> Condition:
    return Condition(name, device.id, detail, device.account_id, device.node_id)


def _queue(observed: PoolObservation, limits: AlertLimits) -> Iterator[Condition]:
    queue = observed.queue
    if queue is None or not queue.waiting:
        return
    tasks = show_count(queue.waiting, "task waits", "tasks wait")
    if queue.round_age_seconds > limits.round_seconds:
        age = show_seconds(queue.round_age_seconds)
        detail = f"{tasks}, and the scheduler has completed no round for {age}."
        yield Condition(AlertName.QUEUE_STALLED, POOL, detail)
    elif not queue.has_online_node:
        yield Condition(AlertName.QUEUE_STALLED, POOL, f"{tasks}, and no node is online.")


def _requests(observed: PoolObservation, limits: AlertLimits) -> Iterator[Condition]:
    """Over all instances: a client may reach any of them."""
    counts = [instance.requests for instance in observed.instances]
    requests, errors = sum(each.requests for each in counts), sum(each.errors for each in counts)
    timed, slow = sum(each.timed for each in counts), sum(each.slow for each in counts)
    if requests >= limits.least_requests and errors / requests > limits.error_share:
        share = f"{errors} of {requests} requests ({errors / requests:.0%})"
        yield Condition(AlertName.ERROR_RATE_HIGH, POOL, f"{share} failed with a server error.")
    if timed >= limits.least_requests and slow / timed > _SLOW_SHARE:
        share = f"{slow} of {timed} requests ({slow / timed:.0%})"
        seconds = show_seconds(limits.latency_seconds)
        yield Condition(AlertName.LATENCY_HIGH, POOL, f"{share} took longer than {seconds}.")


def _instances(
    observed: PoolObservation, limits: AlertLimits, now: datetime
) -> Iterator[Condition]:
    if any(instance.is_database_disk_full for instance in observed.instances):
        yield database_disk_full()
    for instance in observed.instances:
        place = instance.instance_name
        if instance.is_disk_low:
            free = show_bytes(instance.free_bytes or 0)
            yield Condition(AlertName.DISK_LOW, place, f"{place} has {free} left on its disk.")
        ends_at = instance.certificate_ends_at
        if ends_at is not None and ends_at - now < limits.certificate:
            left = (ends_at - now).total_seconds()
            when = f"ends in {show_seconds(left)}" if left > 0 else "has ended"
            yield Condition(
                AlertName.CERTIFICATE_EXPIRING, place, f"The certificate of {place} {when}."
            )


def _violations(observed: PoolObservation) -> Iterator[Condition]:
    """One for each subject, with the first sentence."""
    for found in {each.subject: each for each in reversed(observed.violations)}.values():
        name = AlertName.LEDGER_IMBALANCE if found.is_of_ledger else AlertName.INVARIANT_VIOLATED
        yield Condition(name, found.subject, f"{found.sentence}.")


def _backup(observed: PoolObservation, limits: AlertLimits, now: datetime) -> Iterator[Condition]:
    latest = observed.latest_backup_at
    if limits.backup is None or (latest is not None and now - latest <= limits.backup):
        return
    age = "There is no backup."
    if latest is not None:
        age = f"The last backup is {show_seconds((now - latest).total_seconds())} old."
    yield Condition(AlertName.BACKUP_TOO_OLD, POOL, age)


def _leadership(observed: PoolObservation, limits: AlertLimits) -> Iterator[Condition]:
    if observed.terms_begun > limits.leader_terms:
        seconds = show_seconds(limits.leader_seconds)
        detail = f"{observed.terms_begun} terms began within {seconds}."
        yield Condition(AlertName.LEADER_FLAPPING, POOL, detail)


def _rewards(observed: PoolObservation, limits: AlertLimits) -> Iterator[Condition]:
    rewards = observed.rewards
    if rewards is None:
        return
    if rewards.epoch_overdue_seconds > limits.epoch_seconds:
        late = show_seconds(rewards.epoch_overdue_seconds)
        detail = f"Epoch {rewards.epoch} has been over for {late}, and is not closed."
        yield Condition(AlertName.EPOCH_LATE, POOL, detail)
    if limits.payout_seconds is not None and rewards.payout_age_seconds > limits.payout_seconds:
        age, amount = show_seconds(rewards.payout_age_seconds), show_amount(rewards.claimable_micro)
        accounts = show_count(rewards.late_accounts, "account waits", "accounts wait")
        detail = f"{accounts} for {amount}, the longest for {age}."
        yield Condition(AlertName.PAYOUT_LATE, POOL, detail)


def _payouts(observed: PoolObservation, limits: AlertLimits, now: datetime) -> Iterator[Condition]:
    for reading in observed.contracts:
        if reading.halted_because is not None:
            yield Condition(AlertName.PAYOUTS_STOPPED, reading.contract, reading.halted_because)
        elif reading.unpaid_claims:
            claims = show_count(reading.unpaid_claims, "claim", "claims")
            detail = f"{claims} of {reading.contract} are more than the ledger has assigned to it."
            yield Condition(AlertName.PAYOUTS_STOPPED, reading.contract, detail)
        since = [each for each in (reading.waits_since, reading.open_since) if each is not None]
        if since and now - min(since) > limits.stuck:
            age = show_seconds((now - min(since)).total_seconds())
            why = reading.waits_because or "a transaction is not in the chain"
            detail = f"A payout by {reading.contract} has waited for {age}: {why.rstrip('.')}."
            yield Condition(AlertName.PAYOUT_STUCK, reading.contract, detail)
