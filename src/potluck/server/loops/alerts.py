"""Evaluates all alerts on the leader."""

import asyncio

from potluck.decide.alerts.conditions import find_conditions
from potluck.model.alert import AlertName
from potluck.server.alerts.evaluate import evaluate
from potluck.server.alerts.observe import limits_of, observe_pool
from potluck.server.leader.findings import LeaderFindings
from potluck.server.leader.memory import LeaderMemory
from potluck.server.services import Services
from potluck.store.scheduler.leader import Leadership

_OF_CHECKS = {AlertName.INVARIANT_VIOLATED, AlertName.LEDGER_IMBALANCE}


class AlertLoop:
    def __init__(
        self,
        services: Services,
        leadership: Leadership,
        memory: LeaderMemory,
        findings: LeaderFindings,
    ) -> None:
        self._services = services
        self._leadership = leadership
        self._memory = memory
        self._findings = findings

    async def run_once(self) -> None:
        observed = await observe_pool(self._services, self._memory, self._findings)
        limits = limits_of(self._services.settings)
        conditions = find_conditions(observed, limits, self._services.clock.now())
        await evaluate(self._services, conditions, self._watched(), self._leadership)
        await asyncio.sleep(self._services.settings.alert_seconds)

    def _watched(self) -> set[AlertName]:
        """A new leader knows nothing of some conditions at first; their alerts stay as they are."""
        unknown = set() if self._findings.has_checked else set(_OF_CHECKS)
        if not self._memory.has_begun:
            unknown.add(AlertName.QUEUE_STALLED)
        return set(AlertName) - unknown
