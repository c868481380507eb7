"""Checks invariants periodically, on a few nodes and accounts at a time, in rotation.

A violation is a bug in this program: it is counted and logged as an error, and an alert fires. What
was violated is checked again each time, until it is no longer; the next leader continues with it.
"""

import asyncio
from collections.abc import Iterable

import structlog

from potluck.decide.invariants import LEDGER, InvariantSnapshot, Violation, find_violations
from potluck.model.error import Unavailable
from potluck.server.leader.findings import LeaderFindings
from potluck.server.leader.memory import LeaderMemory
from potluck.server.services import Services
from potluck.store.alerts import alerts
from potluck.store.scheduler import invariant_snapshot, node_feed, scheduler_feed
from potluck.store.scheduler.invariant_snapshot import SnapshotScope

log = structlog.get_logger()

# Keeps a check short: a node includes its devices, attempts and their accounts.
_NODES = 20
_ACCOUNTS = 5
_ATTEMPTS = 200


class InvariantCheckLoop:
    def __init__(
        self, services: Services, memory: LeaderMemory, findings: LeaderFindings | None = None
    ) -> None:
        self._services = services
        self._nodes = memory.nodes
        self._findings = findings or LeaderFindings()
        self._behind_node = ""
        self._behind_account = ""
        self._sum_at = 0.0
        self._sum_violations: list[Violation] = []
        self._logged: set[Violation] = set()

    async def run_once(self) -> None:
        await self.check()
        await asyncio.sleep(self._services.settings.watch_seconds)

    async def check(self) -> None:
        async with self._services.database.transaction() as connection:
            violated = await alerts.list_violated(connection)
        scope = await self._next_scope(violated)
        async with self._services.database.transaction() as connection:
            violations = find_violations(await invariant_snapshot.sample(connection, scope))
        await self._check_sum(LEDGER in violated)
        violations += self._sum_violations
        for violation in violations:
            if violation not in self._logged:
                log.error("invariant violated", sentence=violation.sentence)
        self._services.metrics.violations.inc(len(violations))
        self._logged = set(violations)
        self._findings.note_violations(tuple(violations))

    async def _check_sum(self, is_violated: bool) -> None:
        """Reads the whole ledger, so only from time to time, unless it did not add up."""
        now = asyncio.get_running_loop().time()
        if now < self._sum_at and not is_violated:
            return
        self._sum_at = now + self._services.settings.ledger_check_seconds
        try:
            async with self._services.database.statement() as connection:
                entries_sum = await invariant_snapshot.read_entries_sum(connection)
        except Unavailable:  # or too long to be added up in time; what is known stays
            log.warning("the sum of the ledger could not be checked")
            return
        self._sum_violations = find_violations(InvariantSnapshot(entries_sum_micro=entries_sum))

    async def _next_scope(self, violated: Iterable[str]) -> SnapshotScope:
        async with self._services.database.transaction() as connection:
            node_ids = await node_feed.online_nodes(connection, self._behind_node, _NODES)
            account_ids = await scheduler_feed.all_accounts(
                connection, self._behind_account, _ACCOUNTS
            )
            nodes = await self._nodes.of_ids(connection, node_ids)
        self._behind_node = node_ids[-1] if len(node_ids) == _NODES else ""
        self._behind_account = account_ids[-1] if len(account_ids) == _ACCOUNTS else ""
        attempts = [attempt for node in nodes for attempt in node.attempts][:_ATTEMPTS]
        return SnapshotScope(
            task_ids=_with(violated, "task_", [attempt.task_id for attempt in attempts]),
            attempt_ids=_with(violated, "attempt_", [attempt.id for attempt in attempts]),
            node_ids=_with(violated, "node_", node_ids),
            account_ids=_with(violated, "account_", account_ids),
        )


def _with(violated: Iterable[str], kind: str, ids: Iterable[str]) -> list[str]:
    return sorted({*ids, *(subject for subject in violated if subject.startswith(kind))})
