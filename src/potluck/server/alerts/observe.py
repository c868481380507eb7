"""What the leader observes of the pool, and an instance of itself."""

import platform
from datetime import timedelta

from potluck.decide.alerts.conditions import (
    AlertLimits,
    ContractReading,
    InstanceReading,
    PoolObservation,
    QueueReading,
)
from potluck.server.http.tls import Tls
from potluck.server.leader.findings import LeaderFindings
from potluck.server.leader.memory import LeaderMemory
from potluck.server.services import Services
from potluck.server.settings import ServerSettings
from potluck.store import backups
from potluck.store.alerts import observations
from potluck.store.chain import scanned
from potluck.store.chain.scanned import ContractStanding

# A reading older than this many intervals is of an instance that has stopped.
_MISSED_READINGS = 3
# Rounds that a scheduler may miss.
_MISSED_ROUNDS = 4


def limits_of(settings: ServerSettings) -> AlertLimits:
    backup = settings.alert_backup_seconds
    return AlertLimits(
        error_share=settings.alert_error_share,
        latency_seconds=settings.alert_latency_seconds,
        least_requests=settings.alert_least_requests,
        certificate=timedelta(seconds=settings.alert_certificate_seconds),
        backup=None if backup is None else timedelta(seconds=backup),
        stuck=timedelta(seconds=settings.alert_stuck_seconds),
        leader_terms=settings.alert_leader_terms,
        leader_seconds=settings.alert_leader_seconds,
        round_seconds=_MISSED_ROUNDS * settings.schedule_poll_seconds,
        epoch_seconds=settings.alert_epoch_seconds,
        payout_seconds=settings.alert_payout_seconds or None,
    )


async def observe_pool(
    services: Services, memory: LeaderMemory, findings: LeaderFindings
) -> PoolObservation:
    settings = services.settings
    reading_age = timedelta(seconds=_MISSED_READINGS * settings.alert_seconds)
    lapse = timedelta(seconds=settings.binding_lapse_seconds)
    leader_window = timedelta(seconds=settings.alert_leader_seconds)
    async with services.database.transaction() as connection:
        queue = QueueReading(
            memory.known.scheduler.waiting_count,
            await observations.has_online_node(connection),
            findings.round_age_seconds,
        )
        return PoolObservation(
            lost_nodes=await observations.list_lost_nodes(connection, lapse),
            devices=await observations.list_devices(connection),
            instances=await observations.list_readings(connection, reading_age),
            queue=queue,
            violations=findings.violations,
            terms_begun=await observations.count_terms(connection, leader_window),
            latest_backup_at=await backups.latest_finished_at(connection),
            rewards=await observations.read_rewards(connection),
            contracts=tuple(map(_read_contract, await scanned.list_standings(connection))),
        )


def _read_contract(standing: ContractStanding) -> ContractReading:
    return ContractReading(
        str(standing.known.key),
        standing.known.halted_because,
        standing.known.waits_because,
        standing.known.waits_since,
        standing.open_since,
        standing.unpaid_claims,
    )


def read_instance(services: Services, tls: Tls | None) -> InstanceReading:
    """From what was measured already."""
    free_bytes = services.health.free_bytes
    return InstanceReading(
        instance_name(services.settings),
        services.requests.read(),
        free_bytes,
        free_bytes is not None and free_bytes < services.settings.low_disk_bytes,
        services.database.is_disk_full,
        None if tls is None else tls.ends_at(),
    )


def instance_name(settings: ServerSettings) -> str:
    """Host and port: the same after a restart, unlike the instance's id."""
    return f"{platform.node()}:{settings.port}"
